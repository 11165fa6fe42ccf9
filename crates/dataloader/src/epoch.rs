//! An epoch, which is one pass over the windows of a data loader. The batches are created one at a
//! time, and the epoch can be resumed at any batch.
//!
//! The order of the windows is determined before the epoch begins, so no random numbers are drawn
//! during the epoch.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::Range;

use ndarray::Array2;

use crate::dataset::GptDataset;
use crate::error::DataLoaderError;

/// A batch of windows, as two matrices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Input of the model, with the shape `(batch, max_length)`.
    pub input_ids: Array2<u32>,
    /// Targets, with the shape `(batch, max_length)`. Each target is the token that follows the
    /// input token at the same position.
    pub target_ids: Array2<u32>,
}

/// An iterator over the batches of one epoch. If the corpus is in memory, the iterator never
/// returns an error.
///
/// To resume an epoch later, copy the random number generator before the epoch begins, and save the
/// [`position`](Self::position) in the epoch. A new epoch that is created with this copy visits the
/// windows in the same order, and [`seek`](Self::seek) moves it to the saved position.
/// [`Batches`](crate::Batches) does this automatically and continues with the next epoch.
///
/// ```
/// use dataloader::{Corpus, DataLoader, DataLoaderConfig, torch_rng::TorchRng};
/// let corpus = Corpus::from_ids((0..9).collect::<Vec<u32>>());
/// let config = DataLoaderConfig {
///     batch_size: 2,
///     max_length: 2,
///     stride: 2,
///     ..DataLoaderConfig::default()
/// };
/// let mut epoch = DataLoader::new(&corpus, config)?.epoch(&mut TorchRng::manual_seed(123));
/// assert_eq!(epoch.len(), 2);
/// let batch = epoch.next().expect("there are two")?;
/// assert_eq!(batch.target_ids, batch.input_ids + 1);
/// # Ok::<(), dataloader::DataLoaderError>(())
/// ```
#[derive(Clone)]
pub struct Epoch {
    // Cloned from the loader's data set. The token IDs aren't copied, because clones share them.
    dataset: GptDataset,
    order: Order,
    batch_size: usize,
    batches: usize,
    position: usize, // index of the next batch
}

/// The order in which an epoch visits the windows.
#[derive(Clone)]
pub(crate) enum Order {
    /// The windows are visited in the order of the text. The value is their number. A list of their
    /// indices isn't needed, so this variant takes no memory per window.
    Sequential(usize),
    /// A shuffled order, given as a list of window indices.
    Shuffled(Vec<usize>),
}

impl Order {
    fn len(&self) -> usize {
        match self {
            Self::Sequential(windows) => *windows,
            Self::Shuffled(order) => order.len(),
        }
    }

    fn get(&self, i: usize) -> usize {
        match self {
            Self::Sequential(_) => i,
            Self::Shuffled(order) => order[i],
        }
    }
}

impl Epoch {
    pub(crate) fn new(
        dataset: GptDataset,
        order: Order,
        batch_size: usize,
        batches: usize,
    ) -> Self {
        Self {
            dataset,
            order,
            batch_size,
            batches,
            position: 0,
        }
    }

    /// Returns the index of the next batch, which is also the number of batches that have been
    /// returned or skipped.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Moves to the batch with the index `position`. If `position` is equal to the number of
    /// batches, moves to the end of the epoch.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::PositionPastEnd`] if `position` is greater than the number of
    /// batches. In this case, the epoch stays at its current position.
    pub fn seek(&mut self, position: usize) -> Result<(), DataLoaderError> {
        if position > self.batches {
            return Err(DataLoaderError::PositionPastEnd {
                position,
                batches: self.batches,
            });
        }
        self.position = position;
        Ok(())
    }

    /// Returns the next batch, or `None` at the end of the epoch.
    ///
    /// # Errors
    ///
    /// Returns an error if the corpus is stored in a file and reading the file fails (see
    /// [`Corpus::read`](crate::Corpus::read)). In this case, the position doesn't change, so the
    /// next call tries to read the same batch again.
    pub fn try_next(&mut self) -> Result<Option<Batch>, DataLoaderError> {
        if self.position == self.batches {
            return Ok(None);
        }
        let start = self.position * self.batch_size;
        let end = start.saturating_add(self.batch_size).min(self.order.len());
        let batch = self.batch(start..end)?;
        self.position += 1;
        Ok(Some(batch))
    }

    /// Creates a batch from the windows at the given positions in the order.
    fn batch(&self, windows: Range<usize>) -> Result<Batch, DataLoaderError> {
        let shape = (windows.len(), self.dataset.max_length()); // shape: (batch, max_length)
        let mut inputs = Vec::with_capacity(shape.0 * shape.1);
        let mut targets = Vec::with_capacity(shape.0 * shape.1);
        for i in windows {
            let ids = self.dataset.read(self.order.get(i))?;
            inputs.extend_from_slice(&ids[..shape.1]);
            targets.extend_from_slice(&ids[1..]);
        }
        let matrix =
            |ids| Array2::from_shape_vec(shape, ids).expect("each window has max_length tokens");
        Ok(Batch {
            input_ids: matrix(inputs),
            target_ids: matrix(targets),
        })
    }
}

/// Iterates over the batches that [`try_next`](Epoch::try_next) returns. If a batch can't be read,
/// the error is the last item.
impl Iterator for Epoch {
    type Item = Result<Batch, DataLoaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.try_next();
        if batch.is_err() {
            self.position = self.batches;
        }
        batch.transpose()
    }

    /// Skips `n` batches without reading them.
    fn nth(&mut self, n: usize) -> Option<Self::Item> {
        self.position = self.position.saturating_add(n).min(self.batches);
        self.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.batches - self.position;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Epoch {}
impl FusedIterator for Epoch {}

/// Omits the order of the windows, which can have millions of elements.
impl fmt::Debug for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Epoch")
            .field("dataset", &self.dataset)
            .field("batch_size", &self.batch_size)
            .field("batches", &self.batches)
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}
