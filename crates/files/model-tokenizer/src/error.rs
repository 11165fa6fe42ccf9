//! Errors that occur when a tokenizer is loaded, trained or saved, or when text is encoded. Errors
//! that occur when IDs are decoded are [`TokenizerError`]s.
//!
//! In the messages of these errors, special characters such as line breaks are escaped in all text
//! that was read from files. Therefore, each message is a single line.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use atomic_file::FileError;
use tokenizer::{OtherError, TokenizerError};

/// An error that occurs when a [`ModelTokenizer`](crate::ModelTokenizer) is loaded, trained,
/// converted or saved, or when it encodes text.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelTokenizerError {
    /// A file or folder can't be read, written or deleted.
    #[error(transparent)]
    Io(#[from] FileError),
    /// The tokenizer is of a kind that this crate doesn't support.
    #[error("{}: this tokenizer isn't supported, because {kind}", .file.display())]
    OtherKind {
        /// The file that contains the unsupported setting.
        file: PathBuf,
        /// Reason why the tokenizer isn't supported. The reason is a clause, such as "its model is
        /// WordPiece", and can be followed by another clause that describes what is supported.
        kind: String,
    },
    /// A file is damaged or contradicts itself or another file.
    #[error("{}: {problem}", .file.display())]
    Invalid {
        /// The damaged file.
        file: PathBuf,
        /// Description of what is wrong with the file, including the invalid token or number.
        problem: String,
    },
    /// A vocabulary can't be trained on the given text with the given settings.
    #[error("{0}")]
    Training(String),
    /// A byte pair encoding can't be converted because the files of a model can't represent it.
    #[error("this byte pair encoding can't be saved as a model's tokenizer, because {0}")]
    Conversion(String),
    /// The text contains a byte that the vocabulary can't encode.
    #[error("the text contains the byte {byte:#04x}, but the vocabulary has no token for it")]
    UnknownByte {
        /// Value of the byte for which the vocabulary has no token. If the text contains several
        /// such bytes, this is the first of them.
        byte: u8,
    },
    /// The tokenizer divides text with a pattern that doesn't match a part of the given text, so
    /// this part can't be encoded. In the same case, Hugging Face's `tokenizers` library silently
    /// omits the part.
    #[error(
        "the tokenizer's pattern doesn't match {text:?}, so this part of the text can't be encoded"
    )]
    LeftOut {
        /// The beginning of the part that the pattern doesn't match.
        text: String,
    },
}

/// Allows code that works with any tokenizer to return this error.
impl From<ModelTokenizerError> for TokenizerError {
    fn from(error: ModelTokenizerError) -> Self {
        Self::Other(OtherError::new(error))
    }
}

/// Returns [`ModelTokenizerError::Invalid`] for a file.
pub(crate) fn invalid(file: &Path, problem: impl Into<String>) -> ModelTokenizerError {
    ModelTokenizerError::Invalid {
        file: file.to_owned(),
        problem: problem.into(),
    }
}

/// Returns [`ModelTokenizerError::OtherKind`] for a file of a tokenizer that is neither a
/// byte-level BPE tokenizer nor a character tokenizer. `kind` is the reason, such as "its model is
/// WordPiece".
pub(crate) fn other_kind(file: &Path, kind: impl Display) -> ModelTokenizerError {
    let supported = "only byte-level BPE and character tokenizers are supported";
    other_setting(file, format!("{kind}; {supported}"))
}

/// Returns [`ModelTokenizerError::OtherKind`] for a file of a tokenizer that has an unsupported
/// setting. `setting` is the reason, such as "the BPE model has dropout".
pub(crate) fn other_setting(file: &Path, setting: impl Into<String>) -> ModelTokenizerError {
    ModelTokenizerError::OtherKind {
        file: file.to_owned(),
        kind: setting.into(),
    }
}
