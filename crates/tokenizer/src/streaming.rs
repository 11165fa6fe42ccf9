//! Decodes ids one at a time, as a model generates them, without ever showing half a character.
//!
//! A character's bytes may be spread over several tokens: at most three bytes wait for the rest of
//! theirs.
//! All strings together are [`Tokenizer::decode_lossy`] of all ids.

use std::str::from_utf8;

use crate::error::TokenizerError;
use crate::tokenizer::Tokenizer;

/// Text from ids, one id at a time, of any tokenizer.
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
    pending: Vec<u8>, // the start of a character
    pushed: usize,    // ids so far
}

impl<'t, D: Tokenizer + ?Sized> StreamingDecoder<'t, D> {
    /// A decoder at the start of a text.
    pub fn new(tokenizer: &'t D) -> Self {
        Self {
            tokenizer,
            pending: Vec::new(),
            pushed: 0,
        }
    }

    /// Takes the next id; returns the characters that it completes, with U+FFFD for bytes that
    /// can't begin or continue a character.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] for an id that the vocabulary lacks: the decoder stays as it
    /// was.
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

    /// The rest: U+FFFD if the ids ended inside a character, otherwise nothing.
    #[must_use = "it may be the last character"]
    pub fn finish(self) -> String {
        String::from_utf8_lossy(&self.pending).into_owned()
    }
}

/// Returns the number of bytes at the end that begin a character which more bytes could complete.
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
