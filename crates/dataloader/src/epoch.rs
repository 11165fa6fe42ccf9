//! An epoch, which is a single pass over the windows of a data loader. Its batches are created one
//! at a time, and the epoch can be resumed at any batch.
//!
//! The windows are shuffled before the first batch is created. Creating the batches draws no random
//! numbers, so it doesn't affect other uses of the generator, such as dropout.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::Range;

use ndarray::Array2;

use crate::dataset::GptDataset;
use crate::error::DataLoaderError;

/// A batch of windows: one matrix with the inputs and one with the targets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// Token IDs that are the input of the model, with the shape `(batch, max_length)`.
    pub input_ids: Array2<u32>,
    /// Token IDs that the model should predict, with the shape `(batch, max_length)`. There is one
    /// for each input token: the ID of the token that follows this input token in the corpus.
    pub target_ids: Array2<u32>,
}

/// An iterator over the batches of one epoch. If the corpus is in memory, the iterator never
/// returns an error.
///
/// To be able to resume an epoch, clone the random number generator before you create the epoch,
/// and save the epoch's [`position`](Self::position). To resume the epoch, create a new one with
/// the cloned generator, which shuffles the windows in the same way, and pass the saved position to
/// [`seek`](Self::seek). [`Batches`](crate::Batches) performs these steps for you and continues
/// with the next epoch.
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
    // A clone of the data set of the loader that created this epoch. The clone shares the token IDs
    // instead of copying them.
    dataset: GptDataset,
    order: Order,
    batch_size: usize,
    batches: usize,
    position: usize, // index of the next batch
}

/// The order in which an epoch visits the windows.
#[derive(Clone)]
pub(crate) enum Order {
    /// The order in which the windows occur in the corpus, without shuffling. Only the number of
    /// windows is stored, because a list of indices would require more memory.
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

    /// Returns the index of the batch that this epoch returns next. The index is also the number of
    /// batches that have been returned or skipped so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Moves to the batch with the index `position`, so that this batch is returned next. If
    /// `position` is equal to the number of batches in the epoch, moves to the end of the epoch.
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

    /// Creates a batch from consecutive windows of this epoch. `windows` is a range of positions in
    /// `self.order`, which contains, for each position, the index of a window in the data set.
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

/// Iterates over the batches that [`try_next`](Epoch::try_next) returns. If reading a batch fails,
/// the iterator returns the error and then ends.
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

/// The debug output omits the order of the windows, which can have millions of elements.
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
