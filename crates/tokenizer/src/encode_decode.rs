//! The trait of all tokenizers, so that loaders and helpers take any of them.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::error::TokenizerError;

/// Text to ids and back.
///
/// Each tokenizer has methods of these names itself; the trait is for code that is given one, also
/// as `&dyn Tokenizer`, `Box<dyn Tokenizer>` or `Arc<dyn Tokenizer>`. A special token in a text
/// becomes that token, like `<|endoftext|>` in the book.
///
/// ```
/// use std::sync::Arc;
/// use tokenizer::{Gpt2Tokenizer, SimpleTokenizerV2, Tokenizer, UNK, Vocabulary};
///
/// fn count(text: &str, tokenizer: impl Tokenizer) -> Result<usize, Box<dyn std::error::Error>> {
///     Ok(tokenizer.encode(text)?.len())
/// }
///
/// let mut vocabulary = Vocabulary::from_text("Hello, world");
/// vocabulary.extend([UNK]);
/// let words = SimpleTokenizerV2::new(vocabulary)?;
/// let all: [Arc<dyn Tokenizer>; 2] = [Arc::new(Gpt2Tokenizer::new()), Arc::new(words)];
/// for tokenizer in &all {
///     assert_eq!(count("Hello, you", tokenizer)?, 3);
/// }
/// assert_eq!(all[0].id_of(b" you"), Some(345));
/// assert_eq!(all[0].encode_with_offsets("Hello, you")?[2], (345, 6..10));
/// assert_eq!(all[1].encode_with_offsets("Hello, you")?[2], (3, 7..10));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Tokenizer: Send + Sync {
    /// Returns the ids of a whole text, with the tokens that the tokenizer puts before and after
    /// each text, if any.
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

    /// Returns the ids of [`encode_part`](Self::encode_part), each with the bytes of the text that
    /// it stands for.
    ///
    /// A token may be a part of a character, so its bytes may not be a `str` by themselves.
    ///
    /// # Errors
    /// Those of [`encode`](Self::encode).
    fn encode_with_offsets(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>, TokenizerError>;

    /// Returns the bytes that `id`, as number `position` of the ids from 0, adds to their text.
    ///
    /// (The place matters to tokenizers of words, which put a space between two.)
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] for an id that the vocabulary lacks.
    fn piece_at(&self, id: u32, position: usize) -> Result<Cow<'_, [u8]>, TokenizerError>;

    /// One more than the largest id: the rows that a model's embedding needs.
    fn vocab_size(&self) -> usize;

    /// Returns the id of the token with these bytes.
    fn id_of(&self, token: &[u8]) -> Option<u32>;

    /// Returns the bytes of the token with this id.
    fn token_of(&self, id: u32) -> Option<Cow<'_, [u8]>> {
        self.piece_at(id, 0).ok()
    }

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

/// A pointer to a tokenizer is one.
macro_rules! pointer {
    ($($pointer:ty),*) => {$(
        impl<T: Tokenizer + ?Sized> Tokenizer for $pointer {
            fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
                (**self).encode(text)
            }

            fn encode_part(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
                (**self).encode_part(text)
            }

            fn encode_with_offsets(
                &self,
                text: &str,
            ) -> Result<Vec<(u32, Range<usize>)>, TokenizerError> {
                (**self).encode_with_offsets(text)
            }

            fn piece_at(&self, id: u32, position: usize) -> Result<Cow<'_, [u8]>, TokenizerError> {
                (**self).piece_at(id, position)
            }

            fn vocab_size(&self) -> usize {
                (**self).vocab_size()
            }

            fn id_of(&self, token: &[u8]) -> Option<u32> {
                (**self).id_of(token)
            }
        }
    )*};
}

pointer!(&T, Box<T>, Arc<T>);
