//! The errors of a corpus, its files, the windows over it and the batches of them.
//!
//! Positions count from 0.

use std::io;
use std::path::{Path, PathBuf};

use atomic_file::{FileError, FileFormat};
#[cfg(feature = "text")]
use tokenizer::TokenizerError;

/// Everything this crate refuses, with the offending name or number.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataLoaderError {
    /// The text could not be turned into ids.
    #[cfg(feature = "text")]
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),

    /// The operating system refused to read or write a file, a folder or a pipe among them.
    #[error(transparent)]
    Io(#[from] FileError),
    /// A file of another format where a text is expected.
    #[error("{}: expected a text, but this looks like {format}", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Its format.
        format: FileFormat,
    },
    /// A text file is not UTF-8.
    #[error("{}: expected UTF-8 text, but byte {position} isn't valid UTF-8{looks_like}", path.display())]
    NotUtf8 {
        /// The file.
        path: PathBuf,
        /// The first byte that is wrong.
        position: usize,
        /// A guess at its encoding, and the remedy.
        looks_like: &'static str,
    },
    /// A file of token ids that is damaged, or of numbers that ids are not read from.
    #[error("{}: {problem}", path.display())]
    TokenFile {
        /// The file.
        path: PathBuf,
        /// The problem, and the remedy.
        problem: String,
    },
    /// An id is not in the vocabulary.
    #[error("id {id} at position {position} is not below the vocabulary size {vocab_size}")]
    IdOutOfVocabulary {
        /// The id.
        id: u32,
        /// Its place in the corpus.
        position: usize,
        /// The size of the vocabulary.
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

    /// A file states another number of ids than were written to it.
    #[error("{}: {stated} ids were announced, but {written} were written", path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// The number of ids in the file's header.
        stated: usize,
        /// The number of ids that were written.
        written: usize,
    },

    /// A mix has no source.
    #[error("a mix needs at least one source")]
    NoSource,
    /// A source's weight in a mix isn't a positive number.
    #[error("the weight of source {index} must be a positive number, but is {weight}")]
    Weight {
        /// The index of the source.
        index: usize,
        /// Its weight.
        weight: f64,
    },
    /// A position is for a mix with another number of sources.
    #[error("the position is for {positions} sources, but the mix has {sources}")]
    OtherSources {
        /// The number of sources in the position.
        positions: usize,
        /// The number of sources in the mix.
        sources: usize,
    },

    /// The corpus is empty.
    #[error("the corpus is empty")]
    EmptyCorpus,
    /// Not even one window fits, its target one token further on.
    #[error(
        "the corpus has {tokens} tokens, a window of max_length {max_length} and its target need one more than {max_length}"
    )]
    CorpusTooShort {
        /// The number of tokens.
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
        /// The number of windows.
        windows: usize,
    },

    /// A position to resume from is behind the end of the epoch.
    #[error("cannot resume at batch {position} of an epoch of {batches}")]
    PositionPastEnd {
        /// The place.
        position: usize,
        /// The number of batches in the epoch.
        batches: usize,
    },
    /// A part of a text is more than all of it, or less than nothing.
    #[error("the training part must be between 0 and 1, got {ratio}")]
    SplitRatio {
        /// The requested part.
        ratio: f64,
    },
}

impl DataLoaderError {
    /// `.map_err(DataLoaderError::read(path))`
    pub(crate) fn read(path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| FileError::at(path, "read")(error).into()
    }
}
