//! Sliding windows over a corpus, like `GPTDatasetV1` in the book (listing 2.5).
//!
//! Each window consists of `max_length` input tokens and the same number of target tokens. The
//! targets are the inputs shifted by one, so each target is the token that follows its input. The
//! windows begin at the positions `range(0, n_tokens - max_length, stride)`. For example, 6 tokens
//! contain two windows if `max_length` is 4 and `stride` is 1:
//!
//! | window | inputs | targets |
//! |---|---|---|
//! | 0 | 0 1 2 3 | 1 2 3 4 |
//! | 1 | 1 2 3 4 | 2 3 4 5 |
//!
//! If the corpus is in memory, a window borrows its tokens from the corpus. The tokens are copied
//! only when a batch is created.

use std::borrow::Cow;
use std::fmt;

use crate::corpus::Corpus;
use crate::error::DataLoaderError;

/// The sliding windows over a corpus. There is at least one window.
///
/// ```
/// use dataloader::{Corpus, GptDataset, WindowConfig};
/// let corpus = Corpus::from_ids(vec![10, 11, 12, 13, 14, 15]);
/// let dataset = GptDataset::new(&corpus, WindowConfig { max_length: 4, stride: 1 })?;
/// assert_eq!(dataset.len(), 2);
/// let window = dataset.get(1)?.expect("there are two");
/// assert_eq!(window.input_ids[..], [11, 12, 13, 14]);
/// assert_eq!(window.target_ids[..], [12, 13, 14, 15]);
/// # Ok::<(), dataloader::DataLoaderError>(())
/// ```
#[derive(Clone)]
pub struct GptDataset {
    corpus: Corpus, // shape: (n_tokens)
    windows: WindowConfig,
}

/// Length of the windows, and the distance between them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct WindowConfig {
    /// Number of input tokens in a window.
    pub max_length: usize,
    /// Number of tokens from the beginning of one window to the beginning of the next.
    pub stride: usize,
}

/// One window of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window<'a> {
    /// Input of the model: `max_length` token IDs.
    pub input_ids: Cow<'a, [u32]>,
    /// Token IDs that the model should predict. There is one for each input token: the ID of the
    /// token that follows this input token in the corpus.
    pub target_ids: Cow<'a, [u32]>,
}

impl GptDataset {
    /// Creates the windows over a corpus.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::ZeroMaxLength`] or [`DataLoaderError::ZeroStride`] if the length
    /// or the stride is 0. Returns [`DataLoaderError::EmptyCorpus`] if the corpus has no tokens,
    /// and [`DataLoaderError::CorpusTooShort`] if it has fewer than `max_length + 1` tokens.
    pub fn new(corpus: &Corpus, windows: WindowConfig) -> Result<Self, DataLoaderError> {
        let WindowConfig { max_length, stride } = windows;
        if max_length == 0 {
            return Err(DataLoaderError::ZeroMaxLength);
        }
        if stride == 0 {
            return Err(DataLoaderError::ZeroStride);
        }
        if corpus.is_empty() {
            return Err(DataLoaderError::EmptyCorpus);
        }
        if corpus.len() <= max_length {
            return Err(DataLoaderError::CorpusTooShort {
                tokens: corpus.len(),
                max_length,
            });
        }
        Ok(Self {
            corpus: corpus.clone(),
            windows,
        })
    }

    /// Returns the number of windows. Every data set has at least one window, so there is no method
    /// `is_empty`.
    #[expect(clippy::len_without_is_empty, reason = "never empty, by construction")]
    pub fn len(&self) -> usize {
        (self.corpus.len() - self.max_length()).div_ceil(self.stride())
    }

    /// Returns the corpus.
    pub fn corpus(&self) -> &Corpus {
        &self.corpus
    }

    /// Returns the number of input tokens in a window.
    pub fn max_length(&self) -> usize {
        self.windows.max_length
    }

    /// Returns the stride, which is the number of tokens from the beginning of one window to the
    /// beginning of the next.
    pub fn stride(&self) -> usize {
        self.windows.stride
    }

    /// Returns window `i`, or `None` if `i` isn't less than [`len`](Self::len).
    ///
    /// # Errors
    ///
    /// Returns an error if the corpus is stored in a file and reading the file fails (see
    /// [`Corpus::read`]).
    pub fn get(&self, i: usize) -> Result<Option<Window<'_>>, DataLoaderError> {
        if i >= self.len() {
            return Ok(None);
        }
        let (input_ids, target_ids) = match self.read(i)? {
            Cow::Borrowed(ids) => (ids[..self.max_length()].into(), ids[1..].into()),
            Cow::Owned(ids) => (
                ids[..self.max_length()].to_vec().into(),
                ids[1..].to_vec().into(),
            ),
        };
        Ok(Some(Window {
            input_ids,
            target_ids,
        }))
    }

    /// Returns the `max_length + 1` token IDs of window `i`. All IDs except the last one are
    /// inputs, and all IDs except the first one are targets.
    ///
    /// # Errors
    ///
    /// Returns an error if the corpus is stored in a file and reading the file fails (see
    /// [`Corpus::read`]).
    ///
    /// # Panics
    ///
    /// Panics if `i` isn't less than [`len`](Self::len).
    pub fn read(&self, i: usize) -> Result<Cow<'_, [u32]>, DataLoaderError> {
        assert!(i < self.len(), "window {i} of {}", self.len());
        let start = i * self.stride();
        self.corpus.read(start..=start + self.max_length())
    }
}

/// The debug output contains only the number of tokens and the configuration of the windows,
/// because a corpus can have billions of tokens.
impl fmt::Debug for GptDataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GptDataset")
            .field("tokens", &self.corpus.len())
            .field("windows", &self.windows)
            .finish()
    }
}
