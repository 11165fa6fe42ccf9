//! Data loaders that combine windows into batches. They correspond to PyTorch's
//! `DataLoader(dataset, batch_size, shuffle, drop_last)` and to `create_dataloader_v1` in the book
//! (listing 2.6).
//!
//! The batches are in the same order as in PyTorch with `num_workers=0`. To achieve this, beginning
//! an epoch draws the same random numbers from the generator as PyTorch's iterator, even if the
//! windows aren't shuffled. Therefore, each epoch affects all random numbers that are drawn later,
//! even if the epoch is used only to evaluate the model.

#[cfg(feature = "text")]
use tokenizer::Tokenizer;
use torch_rng::TorchRng;

use crate::corpus::Corpus;
use crate::dataset::{GptDataset, WindowConfig};
use crate::epoch::{Epoch, Order};
use crate::error::DataLoaderError;

/// A data loader, which groups the windows of a corpus into batches. Each epoch (one pass over the
/// windows) has at least one batch.
///
/// ```
/// use dataloader::{Corpus, DataLoader, DataLoaderConfig, torch_rng::TorchRng};
/// let corpus = Corpus::from_ids((0..50).collect::<Vec<u32>>());
/// let config = DataLoaderConfig {
///     batch_size: 2,
///     max_length: 4,
///     stride: 4,
///     ..DataLoaderConfig::default()
/// };
/// let loader = DataLoader::new(&corpus, config)?;
/// assert_eq!((loader.dataset().len(), loader.len()), (12, 6));
/// for batch in loader.epoch(&mut TorchRng::manual_seed(123)) {
///     assert_eq!(batch?.input_ids.dim(), (2, 4)); // (batch, max_length)
/// }
/// # Ok::<(), dataloader::DataLoaderError>(())
/// ```
#[derive(Clone, Debug)]
pub struct DataLoader {
    dataset: GptDataset,
    config: DataLoaderConfig,
}

impl DataLoader {
    /// Creates a loader for the windows of a corpus.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`GptDataset::new`]. Returns [`DataLoaderError::ZeroBatchSize`] if the
    /// batch size is 0. Returns [`DataLoaderError::BatchLargerThanDataset`] if `drop_last` is true
    /// and there are fewer windows than `batch_size`, because an epoch would have no batches.
    pub fn new(corpus: &Corpus, config: DataLoaderConfig) -> Result<Self, DataLoaderError> {
        let windows = WindowConfig {
            max_length: config.max_length,
            stride: config.stride,
        };
        let dataset = GptDataset::new(corpus, windows)?;
        if config.batch_size == 0 {
            return Err(DataLoaderError::ZeroBatchSize);
        }
        if config.drop_last && config.batch_size > dataset.len() {
            return Err(DataLoaderError::BatchLargerThanDataset {
                batch_size: config.batch_size,
                windows: dataset.len(),
            });
        }
        Ok(Self { dataset, config })
    }

    /// Returns the number of batches in an epoch. Every loader has at least one batch, so there is
    /// no method `is_empty`.
    #[expect(clippy::len_without_is_empty, reason = "never empty, by construction")]
    pub fn len(&self) -> usize {
        if self.config.drop_last {
            self.dataset.len() / self.config.batch_size
        } else {
            self.dataset.len().div_ceil(self.config.batch_size)
        }
    }

    /// Returns the windows.
    pub fn dataset(&self) -> &GptDataset {
        &self.dataset
    }

    /// Returns the configuration.
    pub fn config(&self) -> DataLoaderConfig {
        self.config
    }

    /// Returns the number of windows in a full batch.
    pub fn batch_size(&self) -> usize {
        self.config.batch_size
    }

    /// Begins an epoch, like `iter(loader)` in Python. At this point, PyTorch draws random numbers
    /// from its global generator. This method draws the same numbers from `rng`.
    #[must_use = "it has drawn from the generator"]
    pub fn epoch(&self, rng: &mut TorchRng) -> Epoch {
        let windows = self.dataset.len();
        let order = match self.config.shuffle {
            true => Order::Shuffled(rng.data_loader_order(windows, true)),
            false => {
                // Even without shuffling, PyTorch's data loader draws random numbers, so this
                // method must draw the same ones. Without shuffling, these numbers don't depend on
                // the number of windows. Therefore, 0 is passed as the number of windows, which
                // avoids creating a list of indices that isn't used.
                rng.data_loader_order(0, false);
                Order::Sequential(windows)
            }
        };
        Epoch::new(
            self.dataset.clone(),
            order,
            self.config.batch_size,
            self.len(),
        )
    }
}

/// Configuration of a [`DataLoader`]. The fields are the arguments of `create_dataloader_v1` in the
/// book, and they have the same default values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct DataLoaderConfig {
    /// Number of windows in a batch. The default is 4.
    pub batch_size: usize,
    /// Number of input tokens in a window. The default is 256.
    pub max_length: usize,
    /// Number of tokens from the beginning of one window to the beginning of the next. The default
    /// is 128.
    pub stride: usize,
    /// Whether the windows are shuffled again at the beginning of each epoch. The default is true.
    pub shuffle: bool,
    /// Whether the last batch of an epoch is omitted if it has fewer than `batch_size` windows. The
    /// default is true.
    pub drop_last: bool,
}

impl Default for DataLoaderConfig {
    fn default() -> Self {
        Self {
            batch_size: 4,
            max_length: 256,
            stride: 128,
            shuffle: true,
            drop_last: true,
        }
    }
}

/// Creates a loader for a text, like `create_dataloader_v1` in the book (listing 2.6), but with any
/// tokenizer. As in the book, the tokenizer recognizes `<|endoftext|>` in the text as a special
/// token.
///
/// ```
/// use dataloader::{DataLoaderConfig, create_dataloader_v1};
/// use tokenizer::Gpt2Tokenizer;
/// use torch_rng::TorchRng;
///
/// let text = "In the sunlit terraces of the palace the bell rang twice.";
/// let config = DataLoaderConfig {
///     batch_size: 2, max_length: 4, stride: 4, shuffle: false, drop_last: true,
/// };
/// let loader = create_dataloader_v1(text, &Gpt2Tokenizer::new(), config)?;
/// let batch = loader.epoch(&mut TorchRng::manual_seed(123)).next().expect("a batch")?;
/// assert_eq!(batch.input_ids.dim(), (2, 4));
/// assert_eq!(batch.target_ids[[0, 0]], batch.input_ids[[0, 1]]); // the next token
/// # Ok::<(), dataloader::DataLoaderError>(())
/// ```
///
/// # Errors
///
/// Returns the errors of [`Corpus::from_text`] and [`DataLoader::new`].
#[cfg(feature = "text")]
pub fn create_dataloader_v1(
    text: &str,
    tokenizer: &(impl Tokenizer + ?Sized),
    config: DataLoaderConfig,
) -> Result<DataLoader, DataLoaderError> {
    let corpus = Corpus::from_text(text, tokenizer)?;
    DataLoader::new(&corpus, config)
}
