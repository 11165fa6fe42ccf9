//! The vocabulary of the book's word tokenizers (section 2.3).

use std::collections::{BTreeSet, HashMap};
use std::fmt;

use crate::split::preprocess;

/// Token that replaces each word that the vocabulary doesn't contain.
pub const UNK: &str = "<|unk|>";

/// A list of distinct tokens. The ID of a token is its index in the list.
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
    tokens: Vec<String>,       // ID -> token
    ids: HashMap<String, u32>, // token -> ID
}

impl Vocabulary {
    /// Returns the distinct words of [`preprocess`]`(text)`, sorted by code point.
    pub fn from_text(text: &str) -> Self {
        build_vocabulary(&preprocess(text))
    }

    /// Returns the ID of a token, or `None` if the vocabulary doesn't contain the token.
    pub fn id(&self, token: &str) -> Option<u32> {
        self.ids.get(token).copied()
    }

    /// Returns the token with the given ID, or `None` if the vocabulary doesn't contain the ID.
    pub fn token(&self, id: u32) -> Option<&str> {
        self.tokens.get(id as usize).map(String::as_str)
    }

    /// Returns all tokens in the order of their IDs.
    pub fn tokens(&self) -> &[String] {
        &self.tokens
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Returns true if the vocabulary contains no tokens.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }
}

/// Appends tokens in the given order, like `all_tokens.extend(...)` in the book.
///
/// If the vocabulary already contains a token, the token keeps its ID. In the book's Python code, a
/// token that is appended again would get a second, larger ID, and its first ID would no longer be
/// used.
///
/// # Panics
/// Panics if the number of tokens exceeds `u32::MAX`.
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

/// The debug output contains only the number of tokens, because a vocabulary can be large.
impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Vocabulary")
            .field("tokens", &self.len())
            .finish_non_exhaustive()
    }
}

/// Returns a vocabulary of the distinct words in `words`, sorted by code point. The order is the
/// same as in `sorted(set(words))` in Python.
pub fn build_vocabulary(words: &[&str]) -> Vocabulary {
    let distinct: BTreeSet<&str> = words.iter().copied().collect();
    let mut vocabulary = Vocabulary::default();
    vocabulary.extend(distinct);
    vocabulary
}
