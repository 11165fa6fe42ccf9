//! Storage for token IDs, either in memory or in a file. Only the requested part of a file is read
//! at a time, so a corpus can be larger than the available memory.
//!
//! # Files that change
//!
//! If another process changed a file during training, later epochs would read different tokens. To
//! detect this, the length of the file, the time of its last modification and a hash of its
//! contents are recorded when the file is opened.
//!
//! Each time token IDs are read, the length and the modification time of the file are compared with
//! the recorded values. If one of them has changed, the contents are hashed again. If the length
//! and the hash are still the same, for example because a backup program has changed only the
//! modification time, reading continues. Otherwise, an error is returned.

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

/// Pauses before the three attempts to verify that a file of token IDs still has its original
/// contents. The attempts are made if the length or the modification time of the file has changed.
/// The pauses give another process time to finish writing the same contents again.
const PAUSES: [Duration; 3] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_millis(400),
];

/// A range of the token IDs in a source, which is a vector in memory, a file, or several other
/// ranges that are joined. Clones share the source, so cloning doesn't copy the IDs.
#[derive(Debug, Clone)]
pub(crate) struct Tokens {
    source: Source,
    start: usize,
    len: usize,
}

#[derive(Debug, Clone)]
enum Source {
    Memory(Arc<Vec<u32>>), // shape: (n_tokens)
    File(Arc<TokenFile>),
    Several(Arc<Several>),
}

/// Several ranges of token IDs that are joined into one source.
#[derive(Debug)]
struct Several {
    parts: Vec<Tokens>,
    /// Position at which each element of `parts` ends in the joined source, which is the number of
    /// tokens in this element and all elements before it. For example, parts of 5 and 3 tokens have
    /// the ends 5 and 8.
    ends: Vec<usize>,
}

#[derive(Debug)]
struct TokenFile {
    path: PathBuf,
    file: File,
    format: Format,
    /// Length and modification time that the token file had when its contents were last verified.
    /// If they change, the contents have to be verified again.
    known: Mutex<Stamp>,
    /// Hash of the contents that the token file had when it was opened. It is compared with a new
    /// hash when the contents are verified.
    opened: u64,
}

/// Length of a file in bytes, and the time of its last modification if the operating system records
/// this time.
type Stamp = (u64, Option<SystemTime>);

fn stamp(file: &File) -> io::Result<Stamp> {
    let found = file.metadata()?;
    Ok((found.len(), found.modified().ok()))
}

/// Maximum number of blocks of a file that are hashed. The size of a block is 16 KiB, so files of
/// up to 16 MiB are hashed completely. Of a larger file, only 1,024 blocks are hashed.
const BLOCKS: u64 = 1024;
/// Number of bytes in a block.
const BLOCK: u64 = 16 << 10;

/// Returns a hash of the contents of a file. It is computed from at most [`BLOCKS`] blocks, which
/// are distributed evenly over the file. `length` is the length of the file in bytes.
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

    /// Creates a source from the IDs in an open file.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::Io`] if the length of the file can't be determined or if its
    /// contents can't be read.
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

    /// Joins the IDs of all parts without copying them.
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

    /// Returns a view of some of these token IDs, given by a range of positions. The view shares
    /// the file or the memory with this value, so no IDs are copied.
    ///
    /// # Panics
    ///
    /// Panics if the range isn't within these IDs.
    pub(crate) fn part(&self, range: Range<usize>) -> Self {
        self.check(&range);
        Self {
            source: self.source.clone(),
            start: self.start + range.start,
            len: range.len(),
        }
    }

    /// Returns the token IDs in a range of positions. If all of them are in the same vector in
    /// memory, the result borrows them. If they are in a file or in several vectors, the result is
    /// a copy.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::Io`] if a file that contains the IDs can't be read. Returns
    /// [`DataLoaderError::TokenFile`] if the contents of the file have changed, or if a number in
    /// the range isn't a valid token ID.
    ///
    /// # Panics
    ///
    /// Panics if the range isn't within these IDs.
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
            "the range of tokens {range:?} is invalid or isn't a part of 0..{}",
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
                // The range may extend over several of the joined parts. If the first of them
                // contains the whole range, its IDs are returned without being copied again.
                ids = more;
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
        // The file is checked for changes only after the IDs have been read. If it were checked
        // before, another process could change the file between the check and the read, and the
        // wrong IDs might be returned.
        if self.was_written_to()? {
            // Another process, such as a backup program that restores the file, may be writing the
            // same contents again and may not have finished yet. Therefore, the contents are
            // verified up to three times, with pauses in between, before the read fails.
            let is_the_same = PAUSES.iter().any(|pause| {
                thread::sleep(*pause);
                self.has_its_contents()
            });
            read = read_exact_at(&self.file, &mut bytes, place);
            if !is_the_same || self.was_written_to()? {
                return Err(self.refused(
                    "the file was changed after it was opened; restore its original contents to \
                    continue, or start again with the new ones",
                ));
            }
        }
        read.map_err(DataLoaderError::read(&self.path))?;
        let ids = self.format.ids(&bytes);
        ids.map_err(|number| {
            self.refused(&format!(
                "the file contains the number {number}, but token IDs must be from 0 to {}",
                u32::MAX
            ))
        })
    }

    /// Returns true if the length or the modification time of the file has changed since its
    /// contents were last verified.
    fn was_written_to(&self) -> Result<bool, DataLoaderError> {
        let now = stamp(&self.file).map_err(DataLoaderError::read(&self.path))?;
        Ok(now != *self.known())
    }

    /// Returns true if the file still has the length and the contents that it had when it was
    /// opened. In this case, the new modification time is recorded, so that the next read doesn't
    /// have to verify the contents again.
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
