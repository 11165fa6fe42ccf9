//! What can be wrong with a corpus, its files, the windows over it or the batches of them.
//!
//! Positions count from 0.

use std::io;
use std::path::{Path, PathBuf};

use atomic_file::FileError;
use tokenizer::TokenizerError;

/// Everything this crate refuses, with the offending name or number.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataLoaderError {
    /// The text could not be turned into ids.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),

    /// There is no such file.
    #[error("{}: no such file", path.display())]
    NotFound {
        /// The file.
        path: PathBuf,
    },
    /// The file may not be read or written.
    #[error("{}: permission denied", path.display())]
    PermissionDenied {
        /// The file.
        path: PathBuf,
    },
    /// The path is a folder's.
    #[error("{}: expected a file, got a folder", path.display())]
    IsFolder {
        /// The folder.
        path: PathBuf,
    },
    /// The path is a pipe's or a device's, which may never end.
    #[error("{}: not a file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// Reading or writing failed in another way, such as a full disk.
    #[error(transparent)]
    Io(FileError),
    /// A text file is not UTF-8.
    #[error("{}: expected UTF-8 text, byte {position} begins no character{looks_like}", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// The first byte that is wrong.
        position: usize,
        /// What it may be instead, and what to do.
        looks_like: &'static str,
    },
    /// A file of token ids that is damaged, or of numbers that ids are not read from.
    #[error("{}: {problem}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// What is wrong with it, and what to do.
        problem: String,
    },
    /// An id is not in the vocabulary.
    #[error("id {id} at position {position} is not below the vocabulary size {vocab_size}")]
    IdOutOfVocabulary {
        /// The id.
        id: u32,
        /// Its place in the corpus.
        position: usize,
        /// How many tokens the vocabulary has.
        vocab_size: usize,
    },
    /// An id does not fit the file format.
    #[error("id {id} at position {position} does not fit 16 bits")]
    IdOverU16 {
        /// The id.
        id: u32,
        /// Its place in the corpus.
        position: usize,
    },

    /// There is no token at all.
    #[error("the corpus is empty")]
    EmptyCorpus,
    /// Not even one window fits, its target one token further on.
    #[error(
        "the corpus has {tokens} tokens, a window of max_length {max_length} and its target need one more than {max_length}"
    )]
    CorpusTooShort {
        /// How many tokens there are.
        tokens: usize,
        /// The length of a window.
        max_length: usize,
    },
    /// Windows of no tokens.
    #[error("max_length must be at least 1, got 0")]
    ZeroMaxLength,
    /// Windows that don't move on.
    #[error("stride must be at least 1, got 0")]
    ZeroStride,
    /// Batches of no windows.
    #[error("batch_size must be at least 1, got 0")]
    ZeroBatchSize,
    /// No batch is ever full, and drop_last drops those that aren't.
    #[error("batch_size {batch_size} is larger than the {windows} windows, and drop_last is set")]
    BatchLargerThanDataset {
        /// The batch size.
        batch_size: usize,
        /// How many windows there are.
        windows: usize,
    },

    /// A place to resume lies behind the end of the epoch.
    #[error("cannot resume at batch {position} of an epoch of {batches}")]
    PositionPastEnd {
        /// The place.
        position: usize,
        /// How many batches the epoch has.
        batches: usize,
    },
    /// A part of a text is more than all of it, or less than nothing.
    #[error("the training part must be between 0 and 1, got {ratio}")]
    SplitRatio {
        /// The part asked for.
        ratio: f64,
    },
}

impl DataLoaderError {
    /// `.map_err(DataLoaderError::read(path))`
    pub(crate) fn read(path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| Self::io(FileError::at(path, "read")(error))
    }

    /// What reading or writing a file met.
    pub(crate) fn io(error: FileError) -> Self {
        match error.source.kind() {
            io::ErrorKind::NotFound => DataLoaderError::NotFound { path: error.path },
            io::ErrorKind::PermissionDenied => {
                DataLoaderError::PermissionDenied { path: error.path }
            }
            io::ErrorKind::Unsupported => DataLoaderError::NotAFile { path: error.path },
            io::ErrorKind::IsADirectory => DataLoaderError::IsFolder { path: error.path },
            _ => DataLoaderError::Io(error),
        }
    }
}
