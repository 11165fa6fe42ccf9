//! One pass over the windows of a loader, batch by batch, with its position.
//!
//! It draws nothing itself.

use std::fmt;
use std::iter::FusedIterator;
use std::ops::Range;

use ndarray::Array2;

use crate::dataset::GptDataset;
use crate::error::DataLoaderError;

/// Some windows as two matrices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The model's input, (batch, max_length).
    pub input_ids: Array2<u32>,
    /// The next token at each place, (batch, max_length).
    pub target_ids: Array2<u32>,
}

/// An iterator over the batches of one epoch; one of a corpus in memory gives no error.
///
/// To resume an epoch, keep the generator from before it was drawn and its
/// [`position`](Self::position): an epoch drawn from that generator makes the same batches again
/// after a [`seek`](Self::seek). [`Batches`](crate::Batches) does this epoch after epoch.
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
    dataset: GptDataset, // shares the corpus's buffer
    order: Order,
    batch_size: usize,
    batches: usize,
    position: usize, // the next batch
}

/// The order in which an epoch visits the windows.
#[derive(Clone)]
pub(crate) enum Order {
    /// The order of the text, with the number of windows. It needs no memory.
    Sequential(usize),
    /// (n_windows)
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

    /// Returns the number of the next batch: so many have been given out.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Goes to a batch: 0 is the start, the number of batches the end.
    ///
    /// # Errors
    /// [`DataLoaderError::PositionPastEnd`] beyond the end; the epoch stays where it was.
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

    /// The next batch; none after the last.
    ///
    /// # Errors
    /// If the corpus's file can no longer be read; the epoch stays where it was.
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

    /// Returns the batch of a part of the order.
    fn batch(&self, windows: Range<usize>) -> Result<Batch, DataLoaderError> {
        let shape = (windows.len(), self.dataset.max_length()); // (batch, max_length)
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

/// The batches of [`try_next`](Epoch::try_next); one that can't be read is the last.
impl Iterator for Epoch {
    type Item = Result<Batch, DataLoaderError>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = self.try_next();
        if batch.is_err() {
            self.position = self.batches;
        }
        batch.transpose()
    }

    /// Skips without making the batches in between.
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

/// Without the order, which would fill a screen.
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
