//! What can be wrong with a tokenizer's files or a wish for a vocabulary.
//!
//! What can be wrong with a text or a list of ids is a `TokenizerError`.
//! Text that comes from a file is shown escaped.

use std::path::{Path, PathBuf};

use atomic_file::FileError;

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
        /// The file that says so.
        file: PathBuf,
        /// The kind, in the words of the file.
        kind: String,
    },
    /// A file that is damaged, or that no tokenizer can be made of.
    #[error("{}: {problem}", .file.display())]
    Invalid {
        /// The file.
        file: PathBuf,
        /// What is wrong, and with which token or number.
        problem: String,
    },
    /// A vocabulary of byte pairs smaller than its alphabet.
    #[error(
        "a vocabulary of {asked} tokens: byte pairs need at least {least}, 256 bytes and the end of a text"
    )]
    VocabularyTooSmall {
        /// The size asked for.
        asked: usize,
        /// The smallest there is.
        least: usize,
    },
    /// A text without enough pairs for the vocabulary asked for.
    #[error(
        "the text has byte pairs for {made} tokens, not for {asked}: take more text or a smaller vocabulary"
    )]
    TextTooShort {
        /// The size asked for.
        asked: usize,
        /// The size that the text makes.
        made: usize,
    },
    /// More text than its places can be numbered.
    #[error(
        "a text of {bytes} bytes: a vocabulary is trained on at most {limit}; a part of the text makes as good a one"
    )]
    TextTooLong {
        /// Its length.
        bytes: usize,
        /// The most.
        limit: usize,
    },
    /// The library refused what was checked before: a fault of ours.
    #[error("the tokenizer refused: {0}")]
    Library(String),
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

/// `.map_err(library)`: what the library says, on one line.
pub(crate) fn library(error: Box<dyn std::error::Error + Send + Sync>) -> ModelTokenizerError {
    ModelTokenizerError::Library(one_line(&*error))
}

/// What an error says, on one line.
pub(crate) fn one_line(error: &dyn std::error::Error) -> String {
    error.to_string().escape_debug().to_string()
}
