//! A corpus: the token ids of a whole text, which every window looks into.
//!
//! Copies of a corpus share its buffer or file. How it comes from files is in `files.rs`.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Bound, RangeBounds};

#[cfg(feature = "text")]
use tokenizer::Tokenizer;

use crate::error::DataLoaderError;
use crate::tokens::Tokens;

/// The number of ids that are checked in one go.
const PIECE: usize = 1 << 20;

/// Token ids in the order of the text.
///
/// ```
/// use dataloader::Corpus;
/// let corpus = Corpus::from_ids(vec![15496, 11, 314, 716]); // "Hello, I am" in GPT-2's tokens
/// assert_eq!(corpus.read(..)?[..], [15496, 11, 314, 716]);
/// let (train, validation) = corpus.split_at(3);
/// assert_eq!((train.len(), validation.len()), (3, 1));
/// # Ok::<(), dataloader::DataLoaderError>(())
/// ```
#[derive(Clone)]
pub struct Corpus {
    pub(crate) tokens: Tokens, // (n_tokens)
}

impl Corpus {
    /// The ids themselves, as any tokenizer gives them.
    pub fn from_ids(ids: impl Into<Vec<u32>>) -> Self {
        Self {
            tokens: Tokens::in_memory(ids.into()),
        }
    }

    /// Returns the ids of several corpora, one after the other, such as the files of a large data
    /// set. They stay where they are, in memory or in their files. A window may begin in one corpus
    /// and end in the next.
    ///
    /// ```
    /// use dataloader::Corpus;
    /// let parts = [vec![1, 2, 3], vec![4], vec![5, 6]].map(Corpus::from_ids);
    /// let corpus = Corpus::concat(parts);
    /// assert_eq!(corpus.len(), 6);
    /// assert_eq!(corpus.read(2..5)?[..], [3, 4, 5]);
    /// # Ok::<(), dataloader::DataLoaderError>(())
    /// ```
    pub fn concat(corpora: impl IntoIterator<Item = Self>) -> Self {
        Self {
            tokens: Tokens::concat(corpora.into_iter().map(|corpus| corpus.tokens).collect()),
        }
    }

    /// Encodes a text with a tokenizer. Special tokens in it keep their meaning, like
    /// `<|endoftext|>` in the book.
    ///
    /// ```
    /// use dataloader::Corpus;
    /// use dataloader::tokenizer::Gpt2Tokenizer;
    /// let corpus = Corpus::from_text("Hello, I am", &Gpt2Tokenizer::new())?;
    /// assert_eq!(corpus.read(..)?[..], [15496, 11, 314, 716]);
    /// # Ok::<(), dataloader::DataLoaderError>(())
    /// ```
    ///
    /// # Errors
    /// [`DataLoaderError::Tokenizer`] if the tokenizer has no ids for a part of the text.
    #[cfg(feature = "text")]
    pub fn from_text(
        text: &str,
        tokenizer: &(impl Tokenizer + ?Sized),
    ) -> Result<Self, DataLoaderError> {
        Ok(Self::from_ids(tokenizer.encode(text)?))
    }

    /// That every id is below `vocab_size`: a model's embedding has one row per token and no more.
    ///
    /// # Errors
    /// [`DataLoaderError::IdOutOfVocabulary`] at the first id that isn't; if a file can't be read.
    pub fn check_ids(&self, vocab_size: usize) -> Result<(), DataLoaderError> {
        let outside = |id: u32| usize::try_from(id).is_ok_and(|id| id >= vocab_size);
        for start in (0..self.len()).step_by(PIECE) {
            let ids = self.read(start..self.len().min(start + PIECE))?;
            if let Some(i) = ids.iter().position(|&id| outside(id)) {
                return Err(DataLoaderError::IdOutOfVocabulary {
                    id: ids[i],
                    position: start + i,
                    vocab_size,
                });
            }
        }
        Ok(())
    }

    /// Some of the ids, or all by `..`: a view, or, of a file, a copy in memory.
    ///
    /// # Errors
    /// If the file can no longer be read, or has been written to.
    ///
    /// # Panics
    /// If there are not as many, as with slices.
    pub fn read(&self, range: impl RangeBounds<usize>) -> Result<Cow<'_, [u32]>, DataLoaderError> {
        let start = match range.start_bound() {
            Bound::Included(&start) => start,
            Bound::Excluded(&before) => before + 1,
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(&last) => last.checked_add(1).expect("a range within the corpus"),
            Bound::Excluded(&end) => end,
            Bound::Unbounded => self.len(),
        };
        self.tokens.read(start..end)
    }

    /// The first `n` tokens and the rest, which share the corpus's buffer or file.
    ///
    /// # Panics
    /// If there are not as many, as with slices.
    #[must_use = "the corpus itself stays whole"]
    pub fn split_at(&self, n: usize) -> (Self, Self) {
        let part = |range| Self {
            tokens: self.tokens.part(range),
        };
        (part(0..n), part(n..self.len()))
    }

    /// Returns the number of tokens.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Returns true without any token.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The number of tokens: all of them would fill a screen.
impl fmt::Debug for Corpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Corpus")
            .field("tokens", &self.len())
            .finish_non_exhaustive()
    }
}
