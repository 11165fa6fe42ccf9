//! A vocabulary: distinct tokens in a fixed order, the id of each being its place (book section
//! 2.3).
//!
//! Ids are dense, from 0: no gaps, and no token with two ids.

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use crate::split::preprocess;

/// The token that stands for every word that a vocabulary lacks.
pub const UNK: &str = "<|unk|>";

/// Tokens and their ids, both ways.
///
/// ```
/// use tokenizer::{UNK, Vocabulary};
/// let mut vocabulary = Vocabulary::from_text("the cat, the dog");
/// vocabulary.extend(["<|endoftext|>", UNK]);
/// assert_eq!(vocabulary.tokens(), [",", "cat", "dog", "the", "<|endoftext|>", "<|unk|>"]);
/// assert_eq!(vocabulary.id("the"), Some(3));
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Vocabulary {
    tokens: Vec<String>,       // id -> token
    ids: HashMap<String, u32>, // token -> id
}

impl Vocabulary {
    /// The distinct tokens of [`preprocess`]`(text)`, sorted by code point.
    pub fn from_text(text: &str) -> Self {
        build_vocabulary(&preprocess(text))
    }

    /// The id of a token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    /// The token of an id.
    pub fn token(&self, id: u32) -> Option<&str> {
        self.tokens.get(id as usize).map(String::as_str)
    }

    /// All tokens, in the order of their ids.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Returns true if the vocabulary is empty.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
}

/// Appends tokens in the order given, like the book's `all_tokens.extend(...)`.
///
/// An existing token keeps its id.
/// (Python's dictionary would move it to the new id and leave a hole at the old one.)
///
/// # Panics
/// If the vocabulary outgrows u32.
impl<'a> Extend<&'a str> for Vocabulary {
    fn extend<I: IntoIterator<Item = &'a str>>(&mut self, tokens: I) {
        for token in tokens {
            if !self.ids.contains_key(token) {
                let id = u32::try_from(self.tokens.len()).expect("a vocabulary fits u32");
                self.ids.insert(token.to_owned(), id);
                self.tokens.push(token.to_owned());
            }
        }
    }
}

/// Shows the number of tokens, because a text may have many.
impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocabulary")
            .field("tokens", &self.len())
            .finish_non_exhaustive()
    }
}

/// `sorted(set(words))`, numbered from 0: sorted by code point, as Python sorts strings.
pub fn build_vocabulary(words: &[&str]) -> Vocabulary {
    let distinct: BTreeSet<&str> = words.iter().copied().collect();
    let mut vocabulary = Vocabulary::default();
    vocabulary.extend(distinct);
    vocabulary
}
