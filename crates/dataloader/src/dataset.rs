//! The book's `GPTDatasetV1` (listing 2.5): windows of `max_length` tokens, one every `stride`
//! tokens, each with a target that is the same window one token further on.
//!
//! Window i starts at token i * stride, for `i in range(0, n_tokens - max_length, stride)`.
//! Windows are views into the corpus: nothing is copied before a batch is made, unless it is read
//! from a file.

use std::borrow::Cow;
use std::fmt;

use crate::corpus::Corpus;
use crate::error::DataLoaderError;

/// Sliding windows over a corpus; at least one.
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
    corpus: Corpus, // (n_tokens)
    windows: WindowConfig,
}

/// The length of windows and the step from one to the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct WindowConfig {
    /// Tokens in a window.
    pub max_length: usize,
    /// Tokens between the starts of two windows.
    pub stride: usize,
}

/// One window of a data set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window<'a> {
    /// The model's input, (max_length).
    pub input_ids: Cow<'a, [u32]>,
    /// The right answer at each place: the next token, (max_length).
    pub target_ids: Cow<'a, [u32]>,
}

impl GptDataset {
    /// Windows over a corpus.
    ///
    /// # Errors
    /// [`DataLoaderError::ZeroMaxLength`], [`DataLoaderError::ZeroStride`];
    /// [`DataLoaderError::EmptyCorpus`] or [`DataLoaderError::CorpusTooShort`] if no window fits.
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

    /// Returns the number of windows, at least one (so `is_empty` isn't needed).
    #[expect(clippy::len_without_is_empty, reason = "never empty, by construction")]
    pub fn len(&self) -> usize {
        (self.corpus.len() - self.max_length()).div_ceil(self.stride())
    }

    /// The corpus that the windows look into.
    pub fn corpus(&self) -> &Corpus {
        &self.corpus
    }

    /// Returns the number of tokens in a window.
    pub fn max_length(&self) -> usize {
        self.windows.max_length
    }

    /// Returns the number of tokens between the starts of two windows.
    pub fn stride(&self) -> usize {
        self.windows.stride
    }

    /// Returns window `i`; `None` from [`Self::len`] on.
    ///
    /// # Errors
    /// If the corpus's file can no longer be read.
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

    /// The ids of window `i` and the one behind it, (max_length + 1): inputs without the last,
    /// targets without the first.
    ///
    /// # Errors
    /// If the corpus's file can no longer be read.
    ///
    /// # Panics
    /// If there is no such window, as with slices.
    pub fn read(&self, i: usize) -> Result<Cow<'_, [u32]>, DataLoaderError> {
        assert!(i < self.len(), "window {i} of {}", self.len());
        let start = i * self.stride();
        self.corpus.read(start..=start + self.max_length())
    }
}

/// The sizes: all ids would fill a screen.
impl fmt::Debug for GptDataset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GptDataset")
            .field("tokens", &self.corpus.len())
            .field("windows", &self.windows)
            .finish()
    }
}
