//! Decoding ids one at a time, as a model writes them, without ever showing half a character.
//!
//! A character's bytes may be spread over several tokens: at most three bytes wait for the rest of theirs.
//! All strings together are [`Gpt2Tokenizer::decode_lossy`] of all ids.

use std::str::from_utf8;

use crate::error::TokenizerError;
use crate::gpt2::Gpt2Tokenizer;

/// Text from ids, one id at a time.
///
/// ```
/// use tokenizer::{AllowedSpecial, Gpt2Tokenizer, StreamingDecoder};
/// let tokenizer = Gpt2Tokenizer::new();
/// let mut decoder = StreamingDecoder::new(&tokenizer);
/// let mut shown = Vec::new();
/// for id in tokenizer.encode("a🙂", AllowedSpecial::None)? {
///     shown.push(decoder.push(id)?);
/// }
/// assert_eq!(shown, ["a", "", "🙂"]);
/// assert_eq!(decoder.finish(), "");
/// # Ok::<(), tokenizer::TokenizerError>(())
/// ```
#[derive(Debug, Clone)]
pub struct StreamingDecoder {
    tokenizer: Gpt2Tokenizer,
    pending: Vec<u8>, // the start of a character
    pushed: usize,    // ids so far
}

impl StreamingDecoder {
    /// A decoder at the start of a text.
    pub fn new(tokenizer: &Gpt2Tokenizer) -> Self {
        Self {
            tokenizer: *tokenizer,
            pending: Vec::new(),
            pushed: 0,
        }
    }

    /// Takes the next id; returns the characters that it completes, with U+FFFD for bytes that
    /// can't begin or go on a character.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] for an id at or over 50,257: the decoder stays as it was.
    pub fn push(&mut self, id: u32) -> Result<String, TokenizerError> {
        let piece = self.tokenizer.known_piece(id, self.pushed)?;
        self.pushed += 1;
        self.pending.extend_from_slice(piece);
        let whole = self.pending.len() - unfinished(&self.pending);
        let text = String::from_utf8_lossy(&self.pending[..whole]).into_owned();
        self.pending.drain(..whole);
        Ok(text)
    }

    /// The rest: U+FFFD if the ids ended inside a character, otherwise nothing.
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }
}

/// How many bytes at the end begin a character that more bytes could complete.
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
