//! Decoding token by token, while a model generates text.
//!
//! The bytes of a character can be spread over several tokens, so a token may end in the middle of
//! a character. In this case, the decoder holds back up to three bytes until the character is
//! complete. The concatenation of all strings that the decoder returns is equal to the result of
//! [`Tokenizer::decode_lossy`] for all IDs.

use std::str::from_utf8;

use crate::error::TokenizerError;
use crate::tokenizer::Tokenizer;

/// A decoder that converts token IDs to text one ID at a time, for example while a model generates
/// them, and returns only complete characters.
///
/// ```
/// use tokenizer::{Gpt2Tokenizer, StreamingDecoder};
/// let tokenizer = Gpt2Tokenizer::new();
/// let mut decoder = StreamingDecoder::new(&tokenizer);
/// let mut shown = Vec::new();
/// for id in tokenizer.encode("a🙂")? {
///     shown.push(decoder.push(id)?);
/// }
/// assert_eq!(shown, ["a", "", "🙂"]);
/// assert_eq!(decoder.finish(), "");
/// # Ok::<(), tokenizer::TokenizerError>(())
/// ```
#[derive(Clone, Debug)]
pub struct StreamingDecoder<'t, D: ?Sized> {
    tokenizer: &'t D,
    pending: Vec<u8>, // bytes of an incomplete character
    pushed: usize,    // number of decoded IDs
}

impl<'t, D: Tokenizer + ?Sized> StreamingDecoder<'t, D> {
    /// Returns a decoder that hasn't received any IDs yet.
    pub fn new(tokenizer: &'t D) -> Self {
        Self {
            tokenizer,
            pending: Vec::new(),
            pushed: 0,
        }
    }

    /// Decodes the next ID and returns the characters that it completes. Bytes that aren't valid
    /// UTF-8 are replaced with U+FFFD.
    ///
    /// # Errors
    /// Returns [`TokenizerError::UnknownId`] if the vocabulary doesn't contain the ID. In this
    /// case, the decoder doesn't change.
    #[must_use = "the text is given out once"]
    pub fn push(&mut self, id: u32) -> Result<String, TokenizerError> {
        let piece = self.tokenizer.piece_at(id, self.pushed)?;
        self.pushed += 1;
        self.pending.extend_from_slice(&piece);
        let whole = self.pending.len() - unfinished(&self.pending);
        let text = String::from_utf8_lossy(&self.pending[..whole]).into_owned();
        self.pending.drain(..whole);
        Ok(text)
    }

    /// Returns U+FFFD if the decoded text ends with an incomplete character, and an empty string
    /// otherwise.
    #[must_use = "it may be the last character"]
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }
}

/// Returns the number of bytes of the incomplete character at the end of `bytes`, or 0 if there is
/// no incomplete character. A character is incomplete if more bytes could complete it.
fn unfinished(bytes: &[u8]) -> usize {
    let mut rest = bytes;
    while let Err(error) = from_utf8(rest) {
        match error.error_len() {
            Some(bad) => rest = &rest[error.valid_up_to() + bad..],
            None => return rest.len() - error.valid_up_to(),
        }
    }
    0
}
