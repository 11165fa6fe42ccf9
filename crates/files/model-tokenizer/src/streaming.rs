//! Decoding ids one at a time, as a model writes them, without ever showing half a character.
//!
//! All strings together are [`ModelTokenizer::decode`] of all ids.

use tokenizer::Utf8Stream;

use crate::error::ModelTokenizerError;
use crate::model_tokenizer::ModelTokenizer;

/// Text from ids, one id at a time.
///
/// ```
/// let tokenizer = model_tokenizer::ModelTokenizer::gpt2();
/// let mut decoder = tokenizer.stream();
/// let mut shown = Vec::new();
/// for id in tokenizer.encode("a🙂")? {
///     shown.push(decoder.push(id)?);
/// }
/// assert_eq!(shown, ["a", "", "🙂"]);
/// assert_eq!(decoder.finish(), "");
/// # Ok::<(), model_tokenizer::ModelTokenizerError>(())
/// ```
#[derive(Clone, Debug)]
pub struct StreamingDecoder<'t> {
    tokenizer: &'t ModelTokenizer,
    text: Utf8Stream,
    pushed: usize, // ids so far
}

impl<'t> StreamingDecoder<'t> {
    pub(crate) fn new(tokenizer: &'t ModelTokenizer) -> Self {
        Self {
            tokenizer,
            text: Utf8Stream::default(),
            pushed: 0,
        }
    }

    /// Takes the next id; returns the characters that it completes, with U+FFFD for bytes that can't begin or go on a character.
    ///
    /// # Errors
    /// [`ModelTokenizerError::UnknownId`] for an id that the vocabulary lacks: the decoder stays as it was.
    pub fn push(&mut self, id: u32) -> Result<String, ModelTokenizerError> {
        let piece = self.tokenizer.known_piece(id, self.pushed)?;
        self.pushed += 1;
        Ok(self.text.push(piece))
    }

    /// The rest: U+FFFD if the ids ended inside a character, otherwise nothing.
    pub fn finish(self) -> String {
        self.text.finish()
    }
}
