//! The two word tokenizers of sections 2.3 and 2.4 of the book.
//!
//! Both tokenizers divide text into words and punctuation characters with
//! [`preprocess`](crate::preprocess). To decode token IDs, they join the words with spaces.
//! However, they put no space before a word that begins with one of the punctuation characters
//! `, . ? ! " ( ) '` (or, in version 2, with `:` or `;`).
//!
//! The book's code joins all words with spaces and then removes some of the spaces with a regular
//! expression. This module instead decides for each word whether to put a space before it. The
//! result is the same, but text can also be decoded one word at a time while a model generates it.
//!
//! Decoding doesn't restore the original text. For example, "It's" becomes "It' s", and `_` and
//! `--` are surrounded by spaces.

use std::borrow::Cow;
use std::ops::Range;

use crate::error::TokenizerError;
use crate::split::split_text;
use crate::tokenizer::Tokenizer;
use crate::vocabulary::{UNK, Vocabulary};
use crate::whitespace::python_strip;

/// Characters before which [`SimpleTokenizerV1`] doesn't put a space when it decodes IDs.
const JOINED_V1: &str = ",.?!\"()'";

/// Characters before which [`SimpleTokenizerV2`] doesn't put a space when it decodes IDs.
const JOINED_V2: &str = ",.:;?!\"()'";

/// The book's first tokenizer, which can encode only the words in its vocabulary.
///
/// ```
/// use tokenizer::{SimpleTokenizerV1, TokenizerError, Vocabulary};
/// let vocabulary = Vocabulary::from_text("It's the last he painted, you know.");
/// let tokenizer = SimpleTokenizerV1::new(vocabulary);
/// let ids = tokenizer.encode("the last, you know")?;
/// assert_eq!(ids, [9, 6, 1, 10, 5]);
/// assert_eq!(tokenizer.decode(&ids)?, "the last, you know");
/// assert!(matches!(tokenizer.encode("Hello"), Err(TokenizerError::UnknownToken { .. })));
/// # Ok::<(), TokenizerError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimpleTokenizerV1 {
    vocabulary: Vocabulary,
}

impl SimpleTokenizerV1 {
    /// Returns a tokenizer with the given vocabulary.
    pub fn new(vocabulary: Vocabulary) -> Self {
        Self { vocabulary }
    }

    /// Returns the vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Returns the number of tokens. All valid IDs are less than this number.
    pub fn vocab_size(&self) -> usize {
        self.vocabulary.len()
    }

    /// Returns the ID of each word of the text.
    ///
    /// # Errors
    /// Returns [`TokenizerError::UnknownToken`] for the first word that the vocabulary doesn't
    /// contain.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let id_of = |(position, word): (usize, &str)| {
            self.vocabulary
                .id(word)
                .ok_or_else(|| TokenizerError::UnknownToken {
                    token: word.to_owned(),
                    position,
                })
        };
        words_with_positions(text).map(id_of).collect()
    }

    /// Returns the words with the given IDs, joined with spaces. There is no space before a word
    /// that begins with one of the characters `, . ? ! " ( ) '`.
    ///
    /// # Errors
    /// Returns [`TokenizerError::UnknownId`] for the first ID that the vocabulary doesn't contain.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        let word = |(position, &id)| joined(&self.vocabulary, id, position, JOINED_V1);
        ids.iter().enumerate().map(word).collect()
    }
}

impl Tokenizer for SimpleTokenizerV1 {
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.encode(text)
    }

    fn encode_with_offsets(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>, TokenizerError> {
        Ok(with_offsets(text, self.encode(text)?))
    }

    fn piece_at(&self, id: u32, position: usize) -> Result<Cow<'_, [u8]>, TokenizerError> {
        let word = joined(&self.vocabulary, id, position, JOINED_V1)?;
        Ok(word.into_owned().into_bytes().into())
    }

    fn vocab_size(&self) -> usize {
        self.vocabulary.len()
    }

    fn id_of(&self, token: &[u8]) -> Option<u32> {
        self.vocabulary.id(str::from_utf8(token).ok()?)
    }
}

/// The book's second tokenizer, which can encode any text. A word that the vocabulary doesn't
/// contain is encoded as [`UNK`].
///
/// ```
/// use tokenizer::{SimpleTokenizerV2, UNK, Vocabulary};
/// let mut vocabulary = Vocabulary::from_text("do you like tea?");
/// vocabulary.extend(["<|endoftext|>", UNK]);
/// let tokenizer = SimpleTokenizerV2::new(vocabulary)?;
/// let ids = tokenizer.encode("Hello, do you like tea?")?;
/// assert_eq!(tokenizer.decode(&ids)?, "<|unk|> <|unk|> do you like tea?");
/// # Ok::<(), tokenizer::TokenizerError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SimpleTokenizerV2 {
    vocabulary: Vocabulary,
    unk_id: u32,
}

impl SimpleTokenizerV2 {
    /// Returns a tokenizer with the given vocabulary.
    ///
    /// # Errors
    /// Returns [`TokenizerError::MissingToken`] if the vocabulary doesn't contain [`UNK`].
    pub fn new(vocabulary: Vocabulary) -> Result<Self, TokenizerError> {
        let missing = TokenizerError::MissingToken { token: UNK };
        let unk_id = vocabulary.id(UNK).ok_or(missing)?;
        Ok(Self { vocabulary, unk_id })
    }

    /// Returns the vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Returns the number of tokens. All valid IDs are less than this number.
    pub fn vocab_size(&self) -> usize {
        self.vocabulary.len()
    }

    /// Returns the ID of each word of the text. A word that the vocabulary doesn't contain gets the
    /// ID of [`UNK`].
    ///
    /// # Errors
    /// Never returns an error. The return type is a `Result` because other tokenizers can return
    /// errors.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let id_of = |(_, word): (usize, &str)| self.vocabulary.id(word).unwrap_or(self.unk_id);
        Ok(words_with_positions(text).map(id_of).collect())
    }

    /// Returns the words with the given IDs, joined with spaces. There is no space before a word
    /// that begins with one of the characters `, . : ; ? ! " ( ) '`.
    ///
    /// # Errors
    /// Returns [`TokenizerError::UnknownId`] for the first ID that the vocabulary doesn't contain.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        let word = |(position, &id)| joined(&self.vocabulary, id, position, JOINED_V2);
        ids.iter().enumerate().map(word).collect()
    }
}

impl Tokenizer for SimpleTokenizerV2 {
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.encode(text)
    }

    fn encode_with_offsets(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>, TokenizerError> {
        Ok(with_offsets(text, self.encode(text)?))
    }

    fn piece_at(&self, id: u32, position: usize) -> Result<Cow<'_, [u8]>, TokenizerError> {
        let word = joined(&self.vocabulary, id, position, JOINED_V2)?;
        Ok(word.into_owned().into_bytes().into())
    }

    fn vocab_size(&self) -> usize {
        self.vocabulary.len()
    }

    fn id_of(&self, token: &[u8]) -> Option<u32> {
        self.vocabulary.id(str::from_utf8(token).ok()?)
    }
}

/// Returns the same words as `preprocess(text)`, each with the position of its first byte in the
/// text.
///
/// Unlike `preprocess`, this function doesn't strip white space from the words. Stripping would
/// have no effect, because white space is always a separator, so the words contain none.
fn words_with_positions(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut next = 0;
    let placed = split_text(text).into_iter().map(move |piece| {
        let position = next;
        next += piece.len();
        (position, piece)
    });
    placed.filter(|(_, piece)| !python_strip(piece).is_empty())
}

/// Returns each token ID of `text` with the range of bytes of the word that it represents. White
/// space isn't part of any range.
fn with_offsets(text: &str, ids: Vec<u32>) -> Vec<(u32, Range<usize>)> {
    let words = words_with_positions(text).map(|(at, word)| at..at + word.len());
    ids.into_iter().zip(words).collect()
}

/// Returns the text that a word tokenizer adds when it decodes the token `id`. This is the word
/// with this ID, preceded by a space unless `position`, the index of the token in the list of IDs,
/// is 0 or the word begins with one of the characters in `punctuation`.
fn joined<'v>(
    vocabulary: &'v Vocabulary,
    id: u32,
    position: usize,
    punctuation: &str,
) -> Result<Cow<'v, str>, TokenizerError> {
    let word = vocabulary.token(id).ok_or(TokenizerError::UnknownId {
        id,
        position,
        vocab_size: vocabulary.len(),
    })?;
    Ok(
        match position > 0 && !word.starts_with(|c| punctuation.contains(c)) {
            true => format!(" {word}").into(),
            false => word.into(),
        },
    )
}
