//! Decoding token by token, while a model generates a text.
//!
//! The bytes of a character can be spread over several tokens, so a token may end in the middle of
//! a character. The decoder holds back up to three bytes until the character is complete. All
//! returned strings together are equal to the result of [`Tokenizer::decode_lossy`] for all IDs.

use std::str::from_utf8;

use crate::error::TokenizerError;
use crate::tokenizer::Tokenizer;

/// Decodes IDs one at a time and never returns a part of a character.
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
    /// Returns a decoder at the start of a text.
    pub fn new(tokenizer: &'t D) -> Self {
        Self {
            tokenizer,
            pending: Vec::new(),
            pushed: 0,
        }
    }

    /// Decodes the next ID and returns the characters that are now complete. U+FFFD replaces bytes
    /// that aren't valid UTF-8.
    ///
    /// # Errors
    /// Returns [`TokenizerError::UnknownId`] if the vocabulary doesn't contain the ID. The decoder
    /// then stays as it was.
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

    /// Returns U+FFFD if the text ends with an incomplete character, and an empty string otherwise.
    #[must_use = "it may be the last character"]
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }
}

/// Returns the number of bytes at the end of `bytes` that begin a character and could be completed
/// by further bytes.
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
