//! The error type of this crate. Reading and writing token IDs, creating windows and batches, and
//! resuming an epoch can result in such an error. All positions in errors are counted from 0.

use std::io;
use std::path::{Path, PathBuf};

use atomic_file::{FileError, FileFormat};
#[cfg(feature = "text")]
use tokenizer::TokenizerError;

/// An invalid input or configuration, or a file that can't be read or written. The error message
/// contains the path or the values that cause the problem.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DataLoaderError {
    /// The tokenizer can't encode the text.
    #[cfg(feature = "text")]
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),

    /// A file can't be read or written.
    #[error(transparent)]
    Io(#[from] FileError),
    /// A file should contain text, but it has another format.
    #[error("{}: expected a text file, but this file looks like {format}", path.display())]
    NotText {
        /// Path of the file.
        path: PathBuf,
        /// Format that was recognized.
        format: FileFormat,
    },
    /// A text file isn't encoded as UTF-8.
    #[error("{}: expected UTF-8 text, but byte {position} isn't valid UTF-8{looks_like}", path.display())]
    NotUtf8 {
        /// Path of the file.
        path: PathBuf,
        /// Position of the first invalid byte.
        position: usize,
        /// Last part of the error message about a text file that isn't valid UTF-8. It either names
        /// the probable encoding of the file and suggests how to convert the file to UTF-8, or says
        /// that the file may be binary.
        looks_like: &'static str,
    },
    /// A file of token IDs is damaged, has changed since it was opened, or contains something other
    /// than token IDs.
    #[error("{}: {problem}", path.display())]
    TokenFile {
        /// Path of the file.
        path: PathBuf,
        /// Description of the problem and, if known, of its solution.
        problem: String,
    },
    /// A token ID isn't in the vocabulary.
    #[error(
        "the token ID at position {position} is {id}, but it must be less than the vocabulary size, {vocab_size}"
    )]
    IdOutOfVocabulary {
        /// The token ID.
        id: u32,
        /// Position of the ID in the corpus.
        position: usize,
        /// Number of tokens in the vocabulary.
        vocab_size: usize,
    },
    /// A token ID is too large for a file format that stores each ID in 16 bits.
    #[error(
        "the token ID at position {position} is {id}, but this file format stores each ID in 16 bits, so an ID can be at most 65535"
    )]
    IdOverU16 {
        /// The token ID.
        id: u32,
        /// Position of the ID in the corpus.
        position: usize,
    },

    /// The number of token IDs that were written to a file differs from the number in the header of
    /// the file.
    #[error("{}: the header of the file declares {stated} token IDs, but {written} token IDs were written", path.display())]
    Length {
        /// Path of the file.
        path: PathBuf,
        /// Number of IDs in the header.
        stated: usize,
        /// Number of IDs that were written.
        written: usize,
    },

    /// A mix has no sources (data loaders).
    #[error("the mix of token sources is empty, but it must contain at least one source")]
    NoSource,
    /// The weight of a source (a data loader) in a mix isn't a positive finite number.
    #[error("the weight of source {index} must be a positive number, got {weight}")]
    Weight {
        /// Index of the source.
        index: usize,
        /// Weight of the source.
        weight: f64,
    },
    /// A saved position can't be used with a mix, because the position was saved from a mix with a
    /// different number of sources.
    #[error(
        "the saved position belongs to a mix of {positions} token sources, but this mix has {sources} sources"
    )]
    OtherSources {
        /// Number of sources in the position.
        positions: usize,
        /// Number of sources in the mix.
        sources: usize,
    },

    /// The corpus has no tokens.
    #[error("the corpus is empty, but it must contain at least one token")]
    EmptyCorpus,
    /// The corpus is too short for a single window. A window requires `max_length` input tokens and
    /// one more token, which is the target of the last input token.
    #[error(
        "the corpus has {tokens} tokens, but with max_length {max_length}, a window and its targets require at least {} tokens",
        .max_length.saturating_add(1)
    )]
    CorpusTooShort {
        /// Number of tokens in the corpus.
        tokens: usize,
        /// Number of input tokens in a window.
        max_length: usize,
    },
    /// The configured window length is 0. It must be at least 1.
    #[error("max_length must be at least 1, got 0")]
    ZeroMaxLength,
    /// The configured stride is 0. It must be at least 1.
    #[error("stride must be at least 1, got 0")]
    ZeroStride,
    /// The configured batch size is 0. It must be at least 1.
    #[error("batch_size must be at least 1, got 0")]
    ZeroBatchSize,
    /// The batch size is larger than the number of windows, and incomplete batches are dropped, so
    /// an epoch would have no batches.
    #[error(
        "batch_size is {batch_size}, but there are only {windows} windows, so drop_last would drop all of them; use a smaller batch_size"
    )]
    BatchLargerThanDataset {
        /// Number of windows in a full batch.
        batch_size: usize,
        /// Number of windows in the data set.
        windows: usize,
    },

    /// An epoch can't be resumed at the requested position, because this position is past the end
    /// of the epoch.
    #[error(
        "can't resume at batch {position}, because the epoch has only {batches} {}",
        if *batches == 1 { "batch" } else { "batches" }
    )]
    PositionPastEnd {
        /// Index of the batch at which the epoch should be resumed.
        position: usize,
        /// Number of batches in the epoch.
        batches: usize,
    },
    /// The fraction of a text that should be used for training isn't between 0 and 1.
    #[error("train_ratio must be from 0 to 1, got {ratio}")]
    SplitRatio {
        /// The requested fraction.
        ratio: f64,
    },
}

impl DataLoaderError {
    /// Returns a function that converts an I/O error from reading `path` to a [`DataLoaderError`].
    /// It can be used as `.map_err(DataLoaderError::read(path))`.
    pub(crate) fn read(path: &Path) -> impl Fn(io::Error) -> Self {
        move |error| FileError::at(path, "read")(error).into()
    }
}
