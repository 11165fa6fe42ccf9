//! GPT-2's byte pair encoding, with the rules of Python's tiktoken for special tokens (book section
//! 2.5).
//!
//! A special token in the text that the caller did not allow is an error, not silently text.
//! Every text can be encoded and no text makes it panic; other vocabularies than GPT-2's are not
//! read.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::bpe::{Bpe, Encoder};
use crate::error::TokenizerError;
use crate::gpt2_tokens::{ENDOFTEXT, VOCAB_SIZE};
use crate::tokenizer::Tokenizer;

/// The special tokens that a text may contain, as tiktoken's `allowed_special`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AllowedSpecial<'a> {
    /// None: the default of tiktoken's `encode`.
    #[default]
    None,
    /// All that the vocabulary has.
    All,
    /// These; names that the vocabulary doesn't have are ignored, as in Python.
    Only(&'a [&'a str]),
}

impl AllowedSpecial<'_> {
    fn allows(self, token: &str) -> bool {
        match self {
            AllowedSpecial::None => false,
            AllowedSpecial::All => true,
            AllowedSpecial::Only(tokens) => tokens.contains(&token),
        }
    }
}

/// `tiktoken.get_encoding("gpt2")`: a handle to tables that a process builds once, free to copy.
///
/// ```
/// use tokenizer::{AllowedSpecial, ENDOFTEXT_ID, Gpt2Tokenizer};
/// let tokenizer = Gpt2Tokenizer::new();
/// let ids = tokenizer.encode("Hello, I am")?;
/// assert_eq!(ids, [15496, 11, 314, 716]);
/// assert_eq!(tokenizer.decode(&ids)?, "Hello, I am");
/// assert_eq!(tokenizer.encode("<|endoftext|>")?, [ENDOFTEXT_ID]);
/// assert!(tokenizer.encode_allowing("<|endoftext|>", AllowedSpecial::None).is_err());
/// # Ok::<(), tokenizer::TokenizerError>(())
/// ```
#[derive(Clone, Copy)]
pub struct Gpt2Tokenizer {
    bpe: &'static Bpe,
}

impl Gpt2Tokenizer {
    /// A handle to the tables; the first call in a process builds them (tens of milliseconds).
    pub fn new() -> Self {
        Self { bpe: Bpe::gpt2() }
    }

    /// 50,257: ids run from 0 to 50,256.
    pub fn vocab_size(&self) -> usize {
        VOCAB_SIZE
    }

    /// Returns the ids of a text with the special tokens that are allowed: tiktoken's `encode`.
    ///
    /// # Errors
    /// [`TokenizerError::DisallowedSpecial`] at the first special token that is not allowed.
    /// (To have it encoded as the characters it is written with, use [`Self::encode_ordinary`].)
    pub fn encode_allowing(
        &self,
        text: &str,
        allowed: AllowedSpecial,
    ) -> Result<Vec<u32>, TokenizerError> {
        if !allowed.allows(ENDOFTEXT)
            && let Some(position) = text.find(ENDOFTEXT)
        {
            return Err(TokenizerError::DisallowedSpecial {
                token: ENDOFTEXT,
                position,
            });
        }
        self.encode(text)
    }

    /// Returns the ids of a text; [`ENDOFTEXT`] in it is special, as in the book.
    ///
    /// # Errors
    /// None: a `Result` gives all tokenizers the same signature.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.bpe.encode(text)
    }

    /// Returns the ids of a text in which nothing is special: `<|endoftext|>` is seven tokens of
    /// plain text.
    pub fn encode_ordinary(&self, text: &str) -> Vec<u32> {
        self.bpe.encode_ordinary(text)
    }

    /// Returns an encoder for texts of so many bytes together; a thread has its own.
    pub fn encoder(&self, bytes: usize) -> Encoder<'static> {
        self.bpe.encoder(bytes)
    }

    /// The bytes that one id stands for; `None` if there is no such id.
    pub fn piece(&self, id: u32) -> Option<&'static [u8]> {
        Some(self.bpe.tokens().get(id as usize)?)
    }

    /// The bytes that all ids stand for.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] at the first id at or over 50,257.
    pub fn decode_bytes(&self, ids: &[u32]) -> Result<Vec<u8>, TokenizerError> {
        Tokenizer::decode_bytes(self, ids)
    }

    /// The text that the ids stand for.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] as for [`Self::decode_bytes`]; [`TokenizerError::NotUtf8`] if
    /// the bytes aren't UTF-8, for example half a character.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        Tokenizer::decode(self, ids)
    }

    /// Returns the text, with U+FFFD for invalid bytes, like Python's `decode`.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] as for [`Self::decode_bytes`].
    pub fn decode_lossy(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        Tokenizer::decode_lossy(self, ids)
    }
}

impl Tokenizer for Gpt2Tokenizer {
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.encode(text)
    }

    fn encode_with_offsets(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>, TokenizerError> {
        self.bpe.encode_with_offsets(text)
    }

    fn piece_at(&self, id: u32, position: usize) -> Result<Cow<'_, [u8]>, TokenizerError> {
        self.bpe.piece_at(id, position)
    }

    fn vocab_size(&self) -> usize {
        VOCAB_SIZE
    }

    fn id_of(&self, token: &[u8]) -> Option<u32> {
        self.bpe.id_of(token)
    }
}

impl Default for Gpt2Tokenizer {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Gpt2Tokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gpt2Tokenizer").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ENDOFTEXT_ID;

    #[test]
    fn the_table_of_pieces_is_that_of_tiktoken() {
        let tokenizer = Gpt2Tokenizer::new();
        let ids: Vec<u32> = (0..VOCAB_SIZE as u32).collect();
        let theirs = tiktoken_rs::r50k_base()
            .unwrap()
            .decode_bytes(&ids)
            .unwrap();
        assert_eq!(tokenizer.decode_bytes(&ids).unwrap(), theirs);
        assert_eq!(tokenizer.piece(ENDOFTEXT_ID), Some(ENDOFTEXT.as_bytes()));
        assert_eq!(tokenizer.piece(VOCAB_SIZE as u32), None);
    }
}
