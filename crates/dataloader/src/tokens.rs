//! Token ids in a row: in memory, or in a file of u16 that is read piece by piece, so that a corpus may be larger than the memory.
//!
//! Copies and parts share both.

use std::borrow::Cow;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use atomic_file::FileError;

use crate::error::DataLoaderError;

/// Some ids of a source.
#[derive(Debug, Clone)]
pub(crate) struct Tokens {
    source: Source,
    start: usize,
    len: usize,
}

#[derive(Debug, Clone)]
enum Source {
    Memory(Arc<[u32]>), // (n_tokens)
    File(Arc<TokenFile>),
}

/// Little-endian u16 and nothing else.
#[derive(Debug)]
struct TokenFile {
    path: PathBuf,
    file: Mutex<File>,
}

impl Tokens {
    pub(crate) fn in_memory(ids: Arc<[u32]>) -> Self {
        Self {
            start: 0,
            len: ids.len(),
            source: Source::Memory(ids),
        }
    }

    /// The `len` ids of an open file.
    pub(crate) fn in_file(path: PathBuf, file: File, len: usize) -> Self {
        let file = Mutex::new(file);
        Self {
            source: Source::File(Arc::new(TokenFile { path, file })),
            start: 0,
            len,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// A part of these, which shares their source.
    ///
    /// # Panics
    /// If there are not as many, as with slices.
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        self.check(&range);
        Self {
            source: self.source.clone(),
            start: self.start + range.start,
            len: range.len(),
        }
    }

    /// Some of the ids; a view, if they are in memory.
    ///
    /// # Errors
    /// If the file can no longer be read there.
    ///
    /// # Panics
    /// If there are not as many, as with slices.
    pub(crate) fn read(&self, range: Range<usize>) -> Result<Cow<'_, [u32]>, DataLoaderError> {
        self.check(&range);
        let (start, end) = (self.start + range.start, self.start + range.end);
        match &self.source {
            Source::Memory(ids) => Ok(Cow::Borrowed(&ids[start..end])),
            Source::File(file) => file.read(start, end - start).map(Cow::Owned),
        }
    }

    fn check(&self, range: &Range<usize>) {
        assert!(
            range.start <= range.end && range.end <= self.len,
            "tokens {range:?} of {}",
            self.len
        );
    }
}

impl TokenFile {
    fn read(&self, start: usize, len: usize) -> Result<Vec<u32>, DataLoaderError> {
        let mut bytes = vec![0; 2 * len];
        // A panic elsewhere can leave it at any position, and each read seeks.
        let mut file = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(2 * start as u64))
            .and_then(|_| file.read_exact(&mut bytes))
            .map_err(FileError::at(&self.path, "read"))
            .map_err(DataLoaderError::io)?;
        let (pairs, _) = bytes.as_chunks::<2>();
        Ok(pairs
            .iter()
            .map(|&pair| u32::from(u16::from_le_bytes(pair)))
            .collect())
    }
}
