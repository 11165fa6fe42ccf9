//! The book's two word tokenizers over a vocabulary (sections 2.3 and 2.4).
//!
//! Both split a text with [`preprocess`](crate::preprocess) and decode by joining words with single
//! spaces, but for a word that begins with some punctuation: `, . ? ! " ( ) '` in V1, also `: ;` in
//! V2.
//! (The book joins all and takes the spaces out again. Word by word it is the same, and a text can
//! be written as its ids come.)
//! Decoding is not the inverse of encoding: "It's" comes back as "It' s", and neither `_` nor `--`
//! is joined.

use std::borrow::Cow;
use std::ops::Range;

use crate::error::TokenizerError;
use crate::split::split_text;
use crate::tokenizer::Tokenizer;
use crate::vocabulary::{UNK, Vocabulary};
use crate::whitespace::python_strip;

/// Punctuation that V1 joins to the word before it.
const JOINED_V1: &str = ",.?!\"()'";

/// Punctuation that V2 joins to the word before it.
const JOINED_V2: &str = ",.:;?!\"()'";

/// Knows the words of its vocabulary and refuses all others.
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
    /// A tokenizer over this vocabulary.
    pub fn new(vocabulary: Vocabulary) -> Self {
        Self { vocabulary }
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Returns the number of words; ids run from 0 to one less.
    pub fn vocab_size(&self) -> usize {
        self.vocabulary.len()
    }

    /// The id of each word.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownToken`] at the first word that the vocabulary lacks.
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

    /// The words of the ids, joined by spaces, without the space before `, . ? ! " ( ) '`.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] at the first id that is not in the vocabulary.
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

/// Reads every text: a word that its vocabulary lacks becomes `<|unk|>`.
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
    /// A tokenizer over this vocabulary.
    ///
    /// # Errors
    /// [`TokenizerError::MissingToken`] if the vocabulary has no `<|unk|>`.
    pub fn new(vocabulary: Vocabulary) -> Result<Self, TokenizerError> {
        let missing = TokenizerError::MissingToken { token: UNK };
        let unk_id = vocabulary.id(UNK).ok_or(missing)?;
        Ok(Self { vocabulary, unk_id })
    }

    /// The vocabulary.
    pub fn vocabulary(&self) -> &Vocabulary {
        &self.vocabulary
    }

    /// Returns the number of words; ids run from 0 to one less.
    pub fn vocab_size(&self) -> usize {
        self.vocabulary.len()
    }

    /// Returns the id of each word, with the id of `<|unk|>` for unknown words.
    ///
    /// # Errors
    /// None: a `Result` gives all tokenizers the same signature.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let id_of = |(_, word): (usize, &str)| self.vocabulary.id(word).unwrap_or(self.unk_id);
        Ok(words_with_positions(text).map(id_of).collect())
    }

    /// The words of the ids, joined by spaces, without the space before `, . : ; ? ! " ( ) '`.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] at the first id that is not in the vocabulary.
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

/// The words of `preprocess(text)`, each with the byte at which it starts.
///
/// Nothing is left to strip: white space always separates, so a piece is a blank or has none in it.
fn words_with_positions(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut next = 0;
    let placed = split_text(text).into_iter().map(move |piece| {
        let position = next;
        next += piece.len();
        (position, piece)
    });
    placed.filter(|(_, piece)| !python_strip(piece).is_empty())
}

/// Returns the ids of a text's words with the bytes of each, without the white space around it.
fn with_offsets(text: &str, ids: Vec<u32>) -> Vec<(u32, Range<usize>)> {
    let words = words_with_positions(text).map(|(at, word)| at..at + word.len());
    ids.into_iter().zip(words).collect()
}

/// Returns the word of the id at `position`, after a space unless it begins the text or begins with
/// `punctuation`.
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
