//! The error types of this crate. Errors can occur when text is encoded, when token IDs are
//! decoded, or when a tokenizer is built.
//!
//! A position in text is an offset in UTF-8 bytes, and a position in a list of IDs is an index.
//! Both start at 0.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// The error type of all tokenizers.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// The text contains a word that isn't in the vocabulary of a
    /// [`SimpleTokenizerV1`](crate::SimpleTokenizerV1).
    #[error(
        "the vocabulary doesn't contain the word {token:?}, which is at byte {position} of the text"
    )]
    UnknownToken {
        /// The unknown word, as it is written in the text.
        token: String,
        /// Position of the first byte of the word in the text.
        position: usize,
    },
    /// The vocabulary doesn't contain an ID that should be decoded.
    #[error(
        "the token ID at position {position} is {id}, but it must be less than the vocabulary size, {vocab_size}"
    )]
    UnknownId {
        /// The unknown ID.
        id: u32,
        /// Index of the ID in the list of IDs.
        position: usize,
        /// Number of tokens in the vocabulary. All valid IDs are less than this number.
        vocab_size: usize,
    },
    /// The vocabulary doesn't contain a token that the tokenizer requires.
    #[error("the vocabulary doesn't contain the required token {token:?}")]
    MissingToken {
        /// The missing token.
        token: &'static str,
    },
    /// One of the 256 bytes has no token in the vocabulary, so text that contains this byte can't
    /// be encoded.
    #[error("the vocabulary must contain a token for each byte, but it has none for {byte:#04x}")]
    MissingByte {
        /// The byte without a token.
        byte: u8,
    },
    /// The text contains a special token that the caller doesn't allow.
    #[error(
        "the text contains the special token {token:?} at byte {position}, which the caller hasn't allowed"
    )]
    DisallowedSpecial {
        /// The special token.
        token: &'static str,
        /// Position of the special token in the text, in bytes.
        position: usize,
    },
    /// The decoded bytes aren't valid UTF-8.
    #[error(
        "the decoded bytes aren't valid UTF-8, because the byte at position {position} is invalid"
    )]
    NotUtf8 {
        /// Number of valid bytes before the first invalid one.
        position: usize,
    },
    /// A tokenizer that is implemented in another crate returned an error of its own type.
    #[error(transparent)]
    Other(OtherError),
    /// The array of token IDs doesn't have exactly one row.
    #[cfg(feature = "ndarray")]
    #[error("the array of token IDs must have the shape (1, n), but it has {rows} rows")]
    NotOneRow {
        /// Number of rows of the array.
        rows: usize,
    },
}

/// An error of a tokenizer that is implemented in another crate. The original error is stored in an
/// `Arc`, so that [`TokenizerError`] can implement `Clone` even if the original error doesn't.
///
/// Two values of this type are equal only if they share the same original error, for example
/// because one of them is a clone of the other.
#[derive(Clone, Debug)]
pub struct OtherError(Arc<dyn Error + Send + Sync>);

impl OtherError {
    /// Wraps an error.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }

    /// Returns the wrapped error, which can be converted to its original type with `downcast_ref`.
    pub fn get_ref(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.0
    }
}

impl fmt::Display for OtherError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for OtherError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        self.0.source()
    }
}

impl PartialEq for OtherError {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for OtherError {}
