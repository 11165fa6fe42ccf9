//! GPT-2's tokenizer, with tiktoken's rules for special tokens (section 2.5 of the book).
//!
//! The byte pair encoding itself is implemented in the module [`bpe`](crate::bpe). This module adds
//! a check for special tokens: like tiktoken, it rejects text that contains a special token that
//! the caller doesn't allow, instead of encoding the special token as ordinary text.

use std::borrow::Cow;
use std::fmt;
use std::ops::Range;

use crate::bpe::{Bpe, Encoder};
use crate::error::TokenizerError;
use crate::gpt2_tokens::{ENDOFTEXT, VOCAB_SIZE};
use crate::tokenizer::Tokenizer;

/// The special tokens that the text to encode may contain, like the argument `allowed_special` in
/// tiktoken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AllowedSpecial<'a> {
    /// The text must not contain special tokens, such as `<|endoftext|>`. Like tiktoken's `encode`
    /// with its default arguments, the tokenizer returns an error if it finds one.
    #[default]
    None,
    /// All special tokens of the vocabulary are allowed.
    All,
    /// The special tokens in this list are allowed. As in tiktoken, a string in the list is ignored
    /// if it isn't a special token of the vocabulary.
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

/// GPT-2's tokenizer, like `tiktoken.get_encoding("gpt2")` in Python.
///
/// GPT-2's vocabulary is built once per process and shared by all values of this type, so copying a
/// `Gpt2Tokenizer` costs nothing.
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
    /// Returns GPT-2's tokenizer. The first call in a process builds the vocabulary, which takes
    /// tens of milliseconds.
    pub fn new() -> Self {
        Self { bpe: Bpe::gpt2() }
    }

    /// Returns 50,257, the size of the vocabulary.
    pub fn vocab_size(&self) -> usize {
        VOCAB_SIZE
    }

    /// Encodes text like tiktoken's `encode`, which allows only the special tokens in `allowed`.
    ///
    /// # Errors
    /// Returns [`TokenizerError::DisallowedSpecial`] if the text contains [`ENDOFTEXT`] and
    /// `allowed` doesn't. To encode the characters of a special token as ordinary text, use
    /// [`encode_ordinary`](Self::encode_ordinary).
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

    /// Encodes text and returns its token IDs. As in the book, [`ENDOFTEXT`] is encoded as the
    /// special token.
    ///
    /// # Errors
    /// Never returns an error, because GPT-2's vocabulary has a token for each byte. The return
    /// type is a `Result` because other tokenizers can return errors.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.bpe.encode(text)
    }

    /// Encodes text without special tokens and returns its token IDs. For example, `<|endoftext|>`
    /// is encoded as seven ordinary tokens.
    pub fn encode_ordinary(&self, text: &str) -> Vec<u32> {
        self.bpe.encode_ordinary(text)
    }

    /// Returns an encoder, which can encode one or more strings. `bytes` is the total length of
    /// these strings in bytes. See [`Bpe::encoder`].
    pub fn encoder(&self, bytes: usize) -> Encoder<'static> {
        self.bpe.encoder(bytes)
    }

    /// Returns the bytes of the token `id`, or `None` if the vocabulary doesn't contain this ID.
    pub fn piece(&self, id: u32) -> Option<&'static [u8]> {
        Some(self.bpe.tokens().get(id as usize)?)
    }

    /// Returns the bytes of the decoded text.
    ///
    /// # Errors
    /// Returns [`TokenizerError::UnknownId`] for the first ID above 50,256.
    pub fn decode_bytes(&self, ids: &[u32]) -> Result<Vec<u8>, TokenizerError> {
        Tokenizer::decode_bytes(self, ids)
    }

    /// Returns the decoded text.
    ///
    /// # Errors
    /// Returns [`TokenizerError::UnknownId`] like [`decode_bytes`](Self::decode_bytes), and
    /// [`TokenizerError::NotUtf8`] if the bytes aren't valid UTF-8, for example because the last
    /// token ends in the middle of a character.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        Tokenizer::decode(self, ids)
    }

    /// Returns the decoded text. As in tiktoken's `decode`, invalid UTF-8 is replaced with U+FFFD.
    ///
    /// # Errors
    /// Returns [`TokenizerError::UnknownId`] like [`decode_bytes`](Self::decode_bytes).
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
