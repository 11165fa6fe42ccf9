//! The trait `Tokenizer`.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::error::TokenizerError;

/// A tokenizer, which converts text to token IDs and back.
///
/// All tokenizers in this workspace implement this trait. Use it for code that should work with any
/// tokenizer, such as a data loader. The most common methods are also inherent methods of each
/// tokenizer, so a program that uses only one tokenizer doesn't need to import the trait.
///
/// References, `Box` and `Arc` also implement the trait. A program that chooses its tokenizer at
/// run time can therefore use `Box<dyn Tokenizer>`, and threads can share an `Arc<dyn Tokenizer>`.
///
/// ```
/// use std::sync::Arc;
/// use tokenizer::{Gpt2Tokenizer, SimpleTokenizerV2, Tokenizer, TokenizerError, UNK, Vocabulary};
///
/// fn count(text: &str, tokenizer: impl Tokenizer) -> Result<usize, TokenizerError> {
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
/// assert_eq!(all[1].encode_with_offsets("Hello, you")?[2], (3, 7..10)); // <|unk|>
/// # Ok::<(), TokenizerError>(())
/// ```
pub trait Tokenizer: Send + Sync {
    /// Encodes a whole text and returns its token IDs. If the tokenizer adds tokens at the start or
    /// end of each text, the result includes them.
    ///
    /// A special token in the text, such as `<|endoftext|>`, is encoded as its own ID.
    ///
    /// # Errors
    /// Returns an error if the vocabulary has no token for a part of the text.
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError>;

    /// Encodes a part of a text and returns its token IDs. Unlike [`encode`](Self::encode), this
    /// method never adds tokens at the start or end of the text.
    ///
    /// For a tokenizer that adds no tokens at the start or end of a text, this method is equivalent
    /// to [`encode`](Self::encode).
    ///
    /// # Errors
    /// Returns the same errors as [`encode`](Self::encode).
    fn encode_part(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.encode(text)
    }

    /// Encodes text like [`encode_part`](Self::encode_part). Returns each token ID with the range
    /// of bytes that the token represents in `text`.
    ///
    /// A token can start or end in the middle of a character, so a range may not be valid for
    /// slicing a `str`. Slice `text.as_bytes()` instead.
    ///
    /// # Errors
    /// Returns the same errors as [`encode`](Self::encode).
    fn encode_with_offsets(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>, TokenizerError>;

    /// Returns the bytes that a token adds to the decoded text. `id` is the ID of the token, and
    /// `position` is the index of the token in the list of IDs.
    ///
    /// Most tokenizers ignore `position`. The word tokenizers need it, because they put a space
    /// before most words but not before the first one.
    ///
    /// # Errors
    /// Returns [`TokenizerError::UnknownId`] if the vocabulary doesn't contain the ID.
    fn piece_at(&self, id: u32, position: usize) -> Result<Cow<'_, [u8]>, TokenizerError>;

    /// Returns the largest ID plus one, which is the number of rows that a model's embedding needs.
    fn vocab_size(&self) -> usize;

    /// Returns the ID of the token that consists of the given bytes, or `None` if there is no such
    /// token.
    fn id_of(&self, token: &[u8]) -> Option<u32>;

    /// Returns the bytes of the token `id`, or `None` if the vocabulary doesn't contain this ID.
    fn token_of(&self, id: u32) -> Option<Cow<'_, [u8]>> {
        self.piece_at(id, 0).ok()
    }

    /// Returns the bytes of the decoded text.
    ///
    /// # Errors
    /// Returns [`TokenizerError::UnknownId`] with the position of the first ID that the vocabulary
    /// doesn't contain.
    fn decode_bytes(&self, ids: &[u32]) -> Result<Vec<u8>, TokenizerError> {
        let mut bytes = Vec::new();
        for (position, &id) in ids.iter().enumerate() {
            bytes.extend_from_slice(&self.piece_at(id, position)?);
        }
        Ok(bytes)
    }

    /// Returns the decoded text.
    ///
    /// # Errors
    /// Returns [`TokenizerError::UnknownId`] like [`decode_bytes`](Self::decode_bytes), and
    /// [`TokenizerError::NotUtf8`] if the bytes aren't valid UTF-8, for example because the last
    /// token ends in the middle of a character.
    fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        String::from_utf8(self.decode_bytes(ids)?).map_err(|error| TokenizerError::NotUtf8 {
            position: error.utf8_error().valid_up_to(),
        })
    }

    /// Returns the decoded text. As in tiktoken's `decode`, invalid UTF-8 is replaced with U+FFFD.
    ///
    /// # Errors
    /// Returns [`TokenizerError::UnknownId`] like [`decode_bytes`](Self::decode_bytes).
    fn decode_lossy(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        let bytes = self.decode_bytes(ids)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Implements `Tokenizer` for types that point to a tokenizer, such as `Box<T>`. Each method calls
/// the same method of the tokenizer. This includes the methods that have a default implementation,
/// because the tokenizer may override them.
macro_rules! forward {
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

            fn token_of(&self, id: u32) -> Option<Cow<'_, [u8]>> {
                (**self).token_of(id)
            }

            fn decode_bytes(&self, ids: &[u32]) -> Result<Vec<u8>, TokenizerError> {
                (**self).decode_bytes(ids)
            }

            fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
                (**self).decode(ids)
            }

            fn decode_lossy(&self, ids: &[u32]) -> Result<String, TokenizerError> {
                (**self).decode_lossy(ids)
            }
        }
    )*};
}

forward!(&T, Box<T>, Arc<T>);
