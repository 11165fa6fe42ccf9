//! Batches of windows in PyTorch's order: `DataLoader(dataset, batch_size, shuffle, drop_last)`
//! with `num_workers=0`, and the book's `create_dataloader_v1` (listing 2.6).
//!
//! Each epoch draws from the generator like PyTorch's iterator, even without shuffling. So every
//! iteration over a loader, including an evaluation, changes the later random numbers of a seed.
//! There are no workers.

#[cfg(feature = "text")]
use tokenizer::Tokenizer;
use torch_rng::TorchRng;

use crate::corpus::Corpus;
use crate::dataset::{GptDataset, WindowConfig};
use crate::epoch::{Epoch, Order};
use crate::error::DataLoaderError;

/// Makes epochs of batches; each has at least one.
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
    /// Batches of the windows of a corpus.
    ///
    /// # Errors
    /// Those of [`GptDataset::new`]; [`DataLoaderError::ZeroBatchSize`];
    /// [`DataLoaderError::BatchLargerThanDataset`] if `drop_last` would leave nothing.
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

    /// Returns the number of batches in an epoch, at least one (so `is_empty` isn't needed).
    #[expect(clippy::len_without_is_empty, reason = "never empty, by construction")]
    pub fn len(&self) -> usize {
        if self.config.drop_last {
            self.dataset.len() / self.config.batch_size
        } else {
            self.dataset.len().div_ceil(self.config.batch_size)
        }
    }

    /// The windows.
    pub fn dataset(&self) -> &GptDataset {
        &self.dataset
    }

    /// The settings of the batches.
    pub fn config(&self) -> DataLoaderConfig {
        self.config
    }

    /// Returns the number of windows in a full batch.
    pub fn batch_size(&self) -> usize {
        self.config.batch_size
    }

    /// Returns a new epoch: Python's `iter(loader)`, with its draws from the global generator.
    #[must_use = "it has drawn from the generator"]
    pub fn epoch(&self, rng: &mut TorchRng) -> Epoch {
        let windows = self.dataset.len();
        let order = match self.config.shuffle {
            true => Order::Shuffled(rng.data_loader_order(windows, true)),
            false => {
                rng.data_loader_order(0, false); // draws as for any number of windows
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

/// The arguments of the book's `create_dataloader_v1`, and their defaults.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct DataLoaderConfig {
    /// Windows in a batch.
    pub batch_size: usize,
    /// Tokens in a window.
    pub max_length: usize,
    /// Tokens between the starts of two windows.
    pub stride: usize,
    /// Each epoch has a new order.
    pub shuffle: bool,
    /// A last batch that is not full is left out.
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

/// Makes a loader from a text, with any tokenizer, like the book's function; `<|endoftext|>` in the
/// text is special.
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
/// Those of [`Corpus::from_text`] and [`DataLoader::new`].
#[cfg(feature = "text")]
pub fn create_dataloader_v1(
    text: &str,
    tokenizer: &(impl Tokenizer + ?Sized),
    config: DataLoaderConfig,
) -> Result<DataLoader, DataLoaderError> {
    let corpus = Corpus::from_text(text, tokenizer)?;
    DataLoader::new(&corpus, config)
}
