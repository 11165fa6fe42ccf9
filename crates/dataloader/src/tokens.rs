//! Token ids in a row: in memory, or in a file that is read piece by piece, so that a corpus may be
//! larger than the memory.
//!
//! Copies and parts share both.

use std::borrow::Cow;
use std::fs::File;
use std::hash::{DefaultHasher, Hasher};
use std::io;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, SystemTime};

use atomic_file::read_exact_at;

use crate::error::DataLoaderError;
use crate::format::Format;

/// Pauses before the contents of a file that was written to are compared.
const PAUSES: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(400),
];

/// Some ids of a source.
#[derive(Debug, Clone)]
pub(crate) struct Tokens {
    source: Source,
    start: usize,
    len: usize,
}

#[derive(Debug, Clone)]
enum Source {
    Memory(Arc<Vec<u32>>), // (n_tokens)
    File(Arc<TokenFile>),
    Several(Arc<Several>),
}

/// Several sources in a row.
#[derive(Debug)]
struct Several {
    parts: Vec<Tokens>,
    /// The end of each part, counted from the start of the first one.
    ends: Vec<usize>,
}

#[derive(Debug)]
struct TokenFile {
    path: PathBuf,
    file: File,
    format: Format,
    /// Its stamp when its contents were last known to be those that were opened.
    known: Mutex<Stamp>,
    /// The hash of its contents when it was opened.
    opened: u64,
}

/// The length of a file and the time of its last change, where the system has it: if either
/// differs, the file was written to, and its contents are compared.
type Stamp = (u64, Option<SystemTime>);

fn stamp(file: &File) -> io::Result<Stamp> {
    let found = file.metadata()?;
    Ok((found.len(), found.modified().ok()))
}

/// Blocks of a file that are hashed, and bytes of each: a file of up to 16 MiB is hashed whole.
const BLOCKS: u64 = 1024;
const BLOCK: u64 = 16 << 10;

/// Hashes blocks of a file at fixed places from its beginning to its end.
fn hash(file: &File, length: u64) -> io::Result<u64> {
    let mut hasher = DefaultHasher::new();
    let blocks = length.div_ceil(BLOCK).min(BLOCKS);
    let last = length.saturating_sub(BLOCK);
    let mut bytes = vec![0; BLOCK.min(length) as usize];
    for block in 0..blocks {
        let start = u128::from(last) * u128::from(block) / u128::from((blocks - 1).max(1));
        read_exact_at(file, &mut bytes, start as u64)?;
        hasher.write(&bytes);
    }
    Ok(hasher.finish())
}

impl Tokens {
    pub(crate) fn in_memory(ids: Vec<u32>) -> Self {
        Self {
            start: 0,
            len: ids.len(),
            source: Source::Memory(Arc::new(ids)),
        }
    }

    /// The ids of an open file.
    ///
    /// # Errors
    /// If the system can't report the file's length, or the file can't be read.
    pub(crate) fn in_file(
        path: PathBuf,
        file: File,
        format: Format,
    ) -> Result<Self, DataLoaderError> {
        let known = stamp(&file).map_err(DataLoaderError::read(&path))?;
        let opened = hash(&file, known.0).map_err(DataLoaderError::read(&path))?;
        let file = TokenFile {
            path,
            file,
            format,
            known: Mutex::new(known),
            opened,
        };
        Ok(Self {
            source: Source::File(Arc::new(file)),
            start: 0,
            len: format.count,
        })
    }

    /// Returns the ids of all parts, one after the other.
    pub(crate) fn concat(parts: Vec<Self>) -> Self {
        let ends = parts.iter().scan(0, |end, part| {
            *end += part.len;
            Some(*end)
        });
        let ends: Vec<usize> = ends.collect();
        Self {
            start: 0,
            len: ends.last().copied().unwrap_or(0),
            source: Source::Several(Arc::new(Several { parts, ends })),
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
    /// If the file can no longer be read there, or has other contents now.
    ///
    /// # Panics
    /// If there are not as many, as with slices.
    pub(crate) fn read(&self, range: Range<usize>) -> Result<Cow<'_, [u32]>, DataLoaderError> {
        self.check(&range);
        let (start, end) = (self.start + range.start, self.start + range.end);
        match &self.source {
            Source::Memory(ids) => Ok(Cow::Borrowed(&ids[start..end])),
            Source::File(file) => file.read(start, end - start).map(Cow::Owned),
            Source::Several(several) => several.read(start, end),
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

impl Several {
    fn read(&self, start: usize, end: usize) -> Result<Cow<'_, [u32]>, DataLoaderError> {
        let mut ids = Cow::Borrowed(&[][..]);
        let mut read = start;
        let first = self.ends.partition_point(|&end| end <= start);
        for (part, part_end) in self.parts.iter().zip(&self.ends).skip(first) {
            if read >= end {
                break;
            }
            let begin = part_end - part.len;
            let more = part.read(read - begin..end.min(*part_end) - begin)?;
            read = *part_end;
            if ids.is_empty() {
                ids = more; // a view, if the range is in one part
            } else {
                ids.to_mut().extend_from_slice(&more);
            }
        }
        Ok(ids)
    }
}

impl TokenFile {
    fn read(&self, start: usize, len: usize) -> Result<Vec<u32>, DataLoaderError> {
        let width = self.format.width;
        let mut bytes = vec![0; width * len];
        let place = self.format.start + (width * start) as u64;
        let mut read = read_exact_at(&self.file, &mut bytes, place);
        // Checked after the read, so that the data read is older than any change.
        if self.was_written_to()? {
            // A program that writes the same contents again may not be done yet.
            let is_the_same = PAUSES.iter().any(|pause| {
                thread::sleep(*pause);
                self.has_its_contents()
            });
            read = read_exact_at(&self.file, &mut bytes, place);
            if !is_the_same || self.was_written_to()? {
                return Err(self.refused(
                    "it was written to after it was opened; restore its contents to continue, or \
                    start again with the new ones",
                ));
            }
        }
        read.map_err(DataLoaderError::read(&self.path))?;
        let ids = self.format.ids(&bytes);
        ids.map_err(|number| self.refused(&format!("the number {number} isn't a token id")))
    }

    /// True if the file's stamp isn't the one that it had when its contents were last known.
    fn was_written_to(&self) -> Result<bool, DataLoaderError> {
        let now = stamp(&self.file).map_err(DataLoaderError::read(&self.path))?;
        Ok(now != *self.known())
    }

    /// Compares the contents with those that were opened, and keeps the new stamp if they are the
    /// same.
    fn has_its_contents(&self) -> bool {
        let mut known = self.known();
        let Ok(now) = stamp(&self.file) else {
            return false;
        };
        let is_the_same =
            now.0 == known.0 && hash(&self.file, now.0).is_ok_and(|hash| hash == self.opened);
        if is_the_same {
            *known = now;
        }
        is_the_same
    }

    fn known(&self) -> MutexGuard<'_, Stamp> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refused(&self, problem: &str) -> DataLoaderError {
        DataLoaderError::TokenFile {
            path: self.path.clone(),
            problem: problem.to_owned(),
        }
    }
}
