//! The errors of a tokenizer's files, of a text that it has no ids for, and of the size of a
//! vocabulary to train.
//!
//! The errors of a list of ids are `TokenizerError`s.
//! Text that comes from a file is shown escaped.

use std::path::{Path, PathBuf};

use atomic_file::FileError;
use tokenizer::{OtherError, TokenizerError};

/// Everything this crate refuses, with the offending file, name or number.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelTokenizerError {
    /// The operating system refused to read, write or delete a file.
    #[error(transparent)]
    Io(#[from] FileError),
    /// A tokenizer of a kind that is not read.
    #[error("{}: a tokenizer of another kind, {kind}; only byte-level BPE and characters are read", .file.display())]
    OtherKind {
        /// The file with the wrong value.
        file: PathBuf,
        /// The kind, in the words of the file.
        kind: String,
    },
    /// A file that is damaged, or that no tokenizer can be made of.
    #[error("{}: {problem}", .file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// The problem, with the token or number.
        problem: String,
    },
    /// A vocabulary that can't be trained: its size, or the text's, and the one that would do.
    #[error("{0}")]
    Training(String),
    /// Byte pairs that the files of a model can't hold.
    #[error("these byte pairs can't be written for transformers: {0}")]
    Conversion(String),
    /// The text has bytes that the vocabulary has no token for.
    #[error("the text has the byte {byte:#04x}, but the vocabulary has no token for it")]
    UnknownByte {
        /// The first such byte.
        byte: u8,
    },
    /// The pattern of a pre-tokenizer doesn't match a part of the text, which the library would
    /// leave out.
    #[error("the tokenizer's pattern leaves out {text:?}")]
    LeftOut {
        /// The part, or the beginning of a long one.
        text: String,
    },
}

/// For code that takes any tokenizer.
impl From<ModelTokenizerError> for TokenizerError {
    fn from(error: ModelTokenizerError) -> Self {
        Self::Other(OtherError::new(error))
    }
}

/// `return Err(invalid(path, "..."))`
pub(crate) fn invalid(file: &Path, problem: impl Into<String>) -> ModelTokenizerError {
    ModelTokenizerError::Invalid {
        file: file.to_owned(),
        problem: problem.into(),
    }
}

/// `return Err(other_kind(path, "..."))`
pub(crate) fn other_kind(file: &Path, kind: impl Into<String>) -> ModelTokenizerError {
    ModelTokenizerError::OtherKind {
        file: file.to_owned(),
        kind: kind.into(),
    }
}
