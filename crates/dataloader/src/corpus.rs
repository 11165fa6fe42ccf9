//! A corpus, which contains the token IDs of a whole text.
//!
//! Cloning or splitting a corpus doesn't copy the token IDs, because the resulting corpora share
//! the memory or the open file of the original corpus. The functions that read and write files of
//! token IDs are in `files.rs`.

use std::borrow::Cow;
use std::fmt;
use std::ops::{Bound, RangeBounds};

#[cfg(feature = "text")]
use tokenizer::Tokenizer;

use crate::error::DataLoaderError;
use crate::tokens::Tokens;

/// Number of IDs that [`Corpus::check_ids`] reads and checks at a time.
const PIECE: usize = 1 << 20;

/// The token IDs of a text, in the order of the text. The IDs are kept in memory, or they are read
/// from a file in parts when they are needed.
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
    pub(crate) tokens: Tokens, // shape: (n_tokens)
}

impl Corpus {
    /// Creates a corpus in memory from token IDs, which can come from any tokenizer.
    pub fn from_ids(ids: impl Into<Vec<u32>>) -> Self {
        Self {
            tokens: Tokens::in_memory(ids.into()),
        }
    }

    /// Joins several corpora, such as the files of a large data set, into one corpus without
    /// copying the IDs. A window over the joined corpus can begin in one of the original corpora
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

    /// Creates a corpus by encoding a text with a tokenizer. As in the book, the tokenizer
    /// recognizes special tokens in the text, such as `<|endoftext|>`.
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
    ///
    /// Returns [`DataLoaderError::Tokenizer`] if the text contains something that the tokenizer
    /// can't encode, such as an unknown word.
    #[cfg(feature = "text")]
    pub fn from_text(
        text: &str,
        tokenizer: &(impl Tokenizer + ?Sized),
    ) -> Result<Self, DataLoaderError> {
        Ok(Self::from_ids(tokenizer.encode(text)?))
    }

    /// Checks that all IDs are less than `vocab_size`. The embedding layer of a model has
    /// `vocab_size` rows, so any other ID would be out of range.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::IdOutOfVocabulary`] for the first ID that is too large. Also
    /// returns the errors of [`read`](Self::read).
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

    /// Returns the IDs in a range of positions, or all IDs if the range is `..`. If these IDs are
    /// all in one place in memory, the result borrows them. If they are in a file, or if they are
    /// spread over several corpora that were joined with [`concat`](Self::concat), the result is a
    /// copy.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::Io`] if the file of token IDs can't be read. Returns
    /// [`DataLoaderError::TokenFile`] if the contents of the file have changed since it was opened,
    /// or if a number in the range is negative or greater than `u32::MAX`.
    ///
    /// # Panics
    ///
    /// Panics if the range isn't within the corpus.
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

    /// Splits the corpus into two parts: the first `n` tokens and all other tokens. Both parts
    /// share the memory or the open file of this corpus, so no token IDs are copied.
    ///
    /// # Panics
    ///
    /// Panics if the corpus has fewer than `n` tokens.
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

    /// Returns true if the corpus has no tokens.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The debug output contains only the number of tokens, because a corpus can have billions of them.
impl fmt::Debug for Corpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Corpus")
            .field("tokens", &self.len())
            .finish_non_exhaustive()
    }
}
