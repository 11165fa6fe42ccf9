//! What can be wrong with a text, a list of ids or a vocabulary.
//!
//! Positions of words and bytes count UTF-8 bytes of the text, positions of ids count ids; both
//! from 0.

use std::convert::Infallible;

/// Everything that tokenizers refuse, with the offending word or number.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TokenizerError {
    /// [`SimpleTokenizerV1`](crate::SimpleTokenizerV1) met a word that its vocabulary lacks.
    #[error("unknown token {token:?} at byte {position} of the text")]
    UnknownToken {
        /// The word as it stands in the text.
        token: String,
        /// Where it starts, in bytes.
        position: usize,
    },
    /// An id to decode is not in the vocabulary.
    #[error("unknown id {id} at position {position}: the vocabulary has {vocab_size} tokens")]
    UnknownId {
        /// The id.
        id: u32,
        /// Its place among the ids.
        position: usize,
        /// How many tokens the vocabulary has; ids run from 0 to one less.
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
        /// Where it starts, in bytes.
        position: usize,
    },
    /// The ids decode to bytes that are not UTF-8 text.
    #[error("the decoded bytes are not UTF-8 from byte {position} on (id number {id_position})")]
    NotUtf8 {
        /// Where the first bytes start that form no character.
        position: usize,
        /// The place of the id that holds this byte.
        id_position: usize,
    },
    /// The text has bytes that a model's vocabulary has no token for.
    #[error("the text has the byte {byte:#04x}, which no token of the vocabulary stands for")]
    UnknownByte {
        /// The first such byte.
        byte: u8,
    },
    /// White space that goes on for longer than the pattern that divides the text can look.
    #[error(
        "a run of {characters} white space characters from byte {position} of the text on; this vocabulary is read with at most {limit}"
    )]
    LongBlank {
        /// Where it starts, in bytes.
        position: usize,
        /// How long it is.
        characters: usize,
        /// How long it may be.
        limit: usize,
    },
    /// The library under a model's tokenizer refused what was checked before: a fault of ours.
    #[error("the tokenizer refused: {reason}")]
    Library {
        /// What it said.
        reason: String,
    },
    /// One row of ids was expected.
    #[cfg(feature = "ndarray")]
    #[error("expected ids of shape (1, n), got {rows} rows")]
    NotOneRow {
        /// How many rows came.
        rows: usize,
    },
}

/// For generic code over tokenizers that have ids for every text.
impl From<Infallible> for TokenizerError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}
