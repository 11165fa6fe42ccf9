//! The errors of a text, a list of ids or a vocabulary.
//!
//! Positions of words and bytes count UTF-8 bytes of the text, positions of ids count ids; both
//! from 0.

use std::error::Error;
use std::fmt;
use std::sync::Arc;

/// Everything that tokenizers refuse, with the offending word or number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// [`SimpleTokenizerV1`](crate::SimpleTokenizerV1) met a word that its vocabulary lacks.
    #[error("unknown token {token:?} at byte {position} of the text")]
    UnknownToken {
        /// The word, exactly as in the text.
        token: String,
        /// Its first byte in the text.
        position: usize,
    },
    /// An id to decode is not in the vocabulary.
    #[error("unknown id {id} at position {position}: the vocabulary has {vocab_size} tokens")]
    UnknownId {
        /// The id.
        id: u32,
        /// Its place among the ids.
        position: usize,
        /// The size of the vocabulary; ids run from 0 to one less.
        vocab_size: usize,
    },
    /// A vocabulary lacks a token that the tokenizer can't work without.
    #[error("the vocabulary has no token {token:?}")]
    MissingToken {
        /// The token that is needed.
        token: &'static str,
    },
    /// An alphabet for byte pairs lacks a byte, and some texts would have no ids.
    #[error("the alphabet has no token for the byte {byte:#04x} alone")]
    MissingByte {
        /// The byte.
        byte: u8,
    },
    /// The text holds a special token that the caller did not allow.
    #[error("special token {token:?} at byte {position} of the text is not allowed")]
    DisallowedSpecial {
        /// The special token.
        token: &'static str,
        /// Its first byte in the text.
        position: usize,
    },
    /// The ids decode to bytes that are not UTF-8 text.
    #[error("the decoded bytes are not UTF-8 from byte {position} on")]
    NotUtf8 {
        /// The first byte that isn't valid UTF-8.
        position: usize,
    },
    /// A tokenizer of another crate has no ids for a text.
    #[error(transparent)]
    Other(OtherError),
    /// One row of ids was expected.
    #[cfg(feature = "ndarray")]
    #[error("expected ids of shape (1, n), got {rows} rows")]
    NotOneRow {
        /// The number of rows.
        rows: usize,
    },
}

/// The error of another crate's tokenizer; two are equal if they are the same value.
#[derive(Clone, Debug)]
pub struct OtherError(Arc<dyn Error + Send + Sync>);

impl OtherError {
    /// Wraps an error.
    pub fn new(error: impl Error + Send + Sync + 'static) -> Self {
        Self(Arc::new(error))
    }

    /// The error, which `downcast_ref` gives back its type.
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
