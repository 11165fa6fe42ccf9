//! The traits of all tokenizers, so that loaders and helpers take any of them.
//!
//! Each tokenizer has methods of these names itself; the traits are for code that is given one,
//! also as `&dyn Encode` or `Box<dyn Encode>`.
//! They have no policy for special tokens: one in a text is special.

use std::borrow::Cow;

use crate::error::TokenizerError;

/// Text to ids.
///
/// ```
/// use tokenizer::{Encode, Gpt2Tokenizer, SimpleTokenizerV2, UNK, Vocabulary};
///
/// fn count(text: &str, tokenizer: &dyn Encode) -> Result<usize, Box<dyn std::error::Error>> {
///     Ok(tokenizer.encode(text)?.len())
/// }
///
/// let mut vocabulary = Vocabulary::from_text("Hello, world");
/// vocabulary.extend([UNK]);
/// let words = SimpleTokenizerV2::new(vocabulary)?;
/// let all: [Box<dyn Encode>; 2] = [Box::new(Gpt2Tokenizer::new()), Box::new(words)];
/// for tokenizer in &all {
///     assert_eq!(count("Hello, you", &**tokenizer)?, 3);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Encode {
    /// Returns the ids of a whole text, with the tokens that the tokenizer puts before and after
    /// each text, if any.
    ///
    /// A special token in the text becomes that token, like `<|endoftext|>` in the book.
    ///
    /// # Errors
    /// If the tokenizer has no ids for a part of the text.
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError>;

    /// Returns the ids of a part of a text, with nothing before or after them.
    ///
    /// The same as [`encode`](Self::encode) unless a tokenizer adds tokens around a text, like some
    /// in model folders.
    ///
    /// # Errors
    /// Those of [`encode`](Self::encode).
    fn encode_part(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.encode(text)
    }
}

/// Ids to text.
///
/// A token may be a part of a character: only the bytes of all ids together are text.
///
/// ```
/// use tokenizer::{Decode, Gpt2Tokenizer};
/// let tokenizer: &dyn Decode = &Gpt2Tokenizer::new();
/// assert_eq!(tokenizer.decode(&[15496, 11, 314, 716])?, "Hello, I am");
/// # Ok::<(), tokenizer::TokenizerError>(())
/// ```
pub trait Decode {
    /// Returns the bytes that `id`, as number `position` of the ids from 0, adds to their text.
    ///
    /// (The place matters to tokenizers of words, which put a space between two.)
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] for an id that the vocabulary lacks.
    fn piece_at(&self, id: u32, position: usize) -> Result<Cow<'_, [u8]>, TokenizerError>;

    /// Returns the bytes that all ids stand for.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] at the first id that the vocabulary lacks.
    fn decode_bytes(&self, ids: &[u32]) -> Result<Vec<u8>, TokenizerError> {
        let mut bytes = Vec::new();
        for (position, &id) in ids.iter().enumerate() {
            bytes.extend_from_slice(&self.piece_at(id, position)?);
        }
        Ok(bytes)
    }

    /// Returns the text that the ids stand for.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] as for [`decode_bytes`](Self::decode_bytes);
    /// [`TokenizerError::NotUtf8`] if the bytes aren't UTF-8, for example half a character.
    fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        String::from_utf8(self.decode_bytes(ids)?).map_err(|error| TokenizerError::NotUtf8 {
            position: error.utf8_error().valid_up_to(),
        })
    }

    /// Returns the text, with U+FFFD for invalid bytes, like Python's `decode`.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] as for [`decode_bytes`](Self::decode_bytes).
    fn decode_lossy(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        let bytes = self.decode_bytes(ids)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
