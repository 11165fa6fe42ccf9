//! Decoding ids one at a time, as a model writes them, without ever showing half a character.
//!
//! A character's bytes may be spread over several tokens: at most three bytes wait for the rest of
//! theirs.
//! All strings together are [`Decode::decode_lossy`] of all ids.

use crate::encode_decode::Decode;
use crate::error::TokenizerError;
use crate::utf8_stream::Utf8Stream;

/// Text from ids, one id at a time, of any tokenizer.
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
#[derive(Clone, Debug)]
pub struct StreamingDecoder<'t, D: ?Sized> {
    tokenizer: &'t D,
    text: Utf8Stream,
    pushed: usize, // ids so far
}

impl<'t, D: Decode + ?Sized> StreamingDecoder<'t, D> {
    /// A decoder at the start of a text.
    pub fn new(tokenizer: &'t D) -> Self {
        Self {
            tokenizer,
            text: Utf8Stream::default(),
            pushed: 0,
        }
    }

    /// Takes the next id; returns the characters that it completes, with U+FFFD for bytes that
    /// can't begin or go on a character.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] for an id that the vocabulary lacks: the decoder stays as it
    /// was.
    #[must_use = "the text is given out once"]
    pub fn push(&mut self, id: u32) -> Result<String, TokenizerError> {
        let piece = self.tokenizer.piece_at(id, self.pushed)?;
        self.pushed += 1;
        Ok(self.text.push(&piece))
    }

    /// The rest: U+FFFD if the ids ended inside a character, otherwise nothing.
    #[must_use = "it may be the last character"]
    pub fn finish(self) -> String {
        self.text.finish()
    }
}
