//! The trait `Tokenizer`.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use crate::error::TokenizerError;

/// Converts a text to token IDs and back.
///
/// All tokenizers of this project implement this trait. Use it for code that works with any
/// tokenizer, such as a data loader. The common methods also exist as inherent methods of each
/// tokenizer, so that a program with one tokenizer doesn't need to import the trait.
///
/// References, `Box` and `Arc` implement the trait, too, so a program that chooses its tokenizer at
/// run time can use `Box<dyn Tokenizer>`, and threads can share an `Arc<dyn Tokenizer>`.
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
    /// Returns the IDs of a whole text, including the tokens that the tokenizer puts before and
    /// after each text, if any.
    ///
    /// A special token in the text, such as `<|endoftext|>`, gets its own ID.
    ///
    /// # Errors
    /// Returns an error if the vocabulary has no token for a part of the text.
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError>;

    /// Returns the IDs of a part of a text, without tokens before or after it.
    ///
    /// The result differs from that of [`encode`](Self::encode) only for a tokenizer that puts
    /// tokens around each text, as the tokenizers of some models do.
    ///
    /// # Errors
    /// Those of [`encode`](Self::encode).
    fn encode_part(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.encode(text)
    }

    /// Returns the IDs of [`encode_part`](Self::encode_part), each with the range of bytes in
    /// `text` that the token stands for.
    ///
    /// A token can consist of a part of a character, so a range may not be valid for slicing a
    /// `str`. Slice `text.as_bytes()` instead.
    ///
    /// # Errors
    /// Those of [`encode`](Self::encode).
    fn encode_with_offsets(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>, TokenizerError>;

    /// Returns the bytes that the ID at index `position` of a list of IDs adds to the decoded text.
    ///
    /// The position matters only for word tokenizers, which put a space before most words but not
    /// before the first one.
    ///
    /// # Errors
    /// Returns [`TokenizerError::UnknownId`] if the vocabulary doesn't contain the ID.
    fn piece_at(&self, id: u32, position: usize) -> Result<Cow<'_, [u8]>, TokenizerError>;

    /// Returns the largest ID plus one, which is the number of rows that a model's embedding needs.
    fn vocab_size(&self) -> usize;

    /// Returns the ID of the token that consists of the given bytes, or `None` if there is none.
    fn id_of(&self, token: &[u8]) -> Option<u32>;

    /// Returns the bytes of a token, or `None` if the vocabulary doesn't contain the ID.
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

    /// Returns the decoded text with U+FFFD in place of invalid UTF-8, like tiktoken's `decode`.
    ///
    /// # Errors
    /// Returns [`TokenizerError::UnknownId`] like [`decode_bytes`](Self::decode_bytes).
    fn decode_lossy(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        let bytes = self.decode_bytes(ids)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Implements `Tokenizer` for pointers to a tokenizer. The provided methods are forwarded, too,
/// because a tokenizer can override them.
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
