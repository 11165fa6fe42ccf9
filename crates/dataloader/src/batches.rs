//! Endless streams of batches, from one loader or from a weighted mix of several loaders. The
//! position in a stream can be saved, and the stream can be resumed there.
//!
//! When an epoch ends, the next one begins automatically. A position contains the state of the
//! generator before its epoch was drawn, from which the order of the windows can be recomputed. The
//! order itself isn't saved because a large corpus has many windows.

use torch_rng::TorchRng;

use crate::epoch::{Batch, Epoch};
use crate::error::DataLoaderError;
use crate::loader::DataLoader;

/// An endless stream of batches whose position can be saved. [`Batches`] and [`Mix`] implement this
/// trait. You can implement it for a stream of your own, for example one of padded texts.
pub trait BatchSource {
    /// Position in the stream. It contains everything that another stream over the same data needs
    /// to continue with the same batches.
    type Position;

    /// Returns the next batch. Random numbers are drawn from `rng`.
    ///
    /// # Errors
    ///
    /// Returns an error if the data can't be read.
    fn next_batch(&mut self, rng: &mut TorchRng) -> Result<Batch, DataLoaderError>;

    /// Returns the position after the last batch that was returned.
    fn position(&self) -> Self::Position;

    /// Moves to the given position, which [`position`](Self::position) must have returned for a
    /// stream over the same data.
    ///
    /// # Errors
    ///
    /// Returns an error if the position isn't valid for this data. The stream isn't changed in this
    /// case.
    fn seek(&mut self, position: Self::Position) -> Result<(), DataLoaderError>;
}

impl BatchSource for Batches {
    type Position = Option<EpochPosition>;

    fn next_batch(&mut self, rng: &mut TorchRng) -> Result<Batch, DataLoaderError> {
        Self::next_batch(self, rng)
    }

    fn position(&self) -> Self::Position {
        Self::position(self)
    }

    fn seek(&mut self, position: Self::Position) -> Result<(), DataLoaderError> {
        *self = Self::resume(self.loader.clone(), position)?;
        Ok(())
    }
}

impl BatchSource for Mix {
    type Position = MixPosition;

    fn next_batch(&mut self, rng: &mut TorchRng) -> Result<Batch, DataLoaderError> {
        Self::next_batch(self, rng)
    }

    fn position(&self) -> MixPosition {
        Self::position(self)
    }

    fn seek(&mut self, position: MixPosition) -> Result<(), DataLoaderError> {
        Self::seek(self, position)
    }
}

/// The batches of a loader, epoch after epoch.
///
/// ```
/// use dataloader::{Batches, Corpus, DataLoader, DataLoaderConfig, torch_rng::TorchRng};
/// let corpus = Corpus::from_ids((0..50).collect::<Vec<u32>>());
/// let windows = DataLoaderConfig {
///     batch_size: 2, max_length: 4, stride: 4, ..DataLoaderConfig::default()
/// };
/// let loader = DataLoader::new(&corpus, windows)?;
///
/// let mut rng = TorchRng::manual_seed(123);
/// let mut batches = Batches::new(loader.clone());
/// for _ in 0..10 {
///     batches.next_batch(&mut rng)?; // an epoch has 6 batches, so the second epoch has begun
/// }
/// // A checkpoint stores these two values, and a resumed run continues from them.
/// let (saved, mut resumed_rng) = (batches.position(), rng.clone());
/// let mut resumed = Batches::resume(loader, saved)?;
/// assert_eq!(resumed.next_batch(&mut resumed_rng)?, batches.next_batch(&mut rng)?);
/// # Ok::<(), dataloader::DataLoaderError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Batches {
    loader: DataLoader,
    current: Option<(Epoch, EpochPosition)>,
}

/// A position in the batches of a loader.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct EpochPosition {
    /// Number of the epoch, counted from 0.
    pub number: u64,
    /// State of the generator before the epoch was drawn.
    pub drawn_from: TorchRng,
    /// Number of batches of the epoch that have been returned.
    pub position: usize,
}

impl Batches {
    /// Creates a stream that begins with the first batch.
    pub fn new(loader: DataLoader) -> Self {
        Self {
            loader,
            current: None,
        }
    }

    /// Creates a stream that continues at a position that [`position`](Self::position) returned.
    /// `None` is the beginning.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::PositionPastEnd`] if an epoch of the loader has fewer batches.
    pub fn resume(
        loader: DataLoader,
        position: Option<EpochPosition>,
    ) -> Result<Self, DataLoaderError> {
        let mut current = None;
        if let Some(begun) = position {
            let mut epoch = loader.epoch(&mut begun.drawn_from.clone());
            epoch.seek(begun.position)?;
            current = Some((epoch, begun));
        }
        Ok(Self { loader, current })
    }

    /// Returns the next batch. If the previous epoch is over, the next one is drawn from `rng`
    /// first.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Corpus::read`](crate::Corpus::read) if the corpus is in a file that
    /// can't be read. The next call tries to read the same batch again.
    pub fn next_batch(&mut self, rng: &mut TorchRng) -> Result<Batch, DataLoaderError> {
        let is_over = |(epoch, _): &(Epoch, _)| epoch.len() == 0;
        if self.current.as_ref().is_none_or(is_over) {
            let last = self.current.take();
            let position = EpochPosition {
                number: last.map_or(0, |(_, last)| last.number.saturating_add(1)),
                drawn_from: rng.clone(),
                position: 0,
            };
            self.current = Some((self.loader.epoch(rng), position));
        }
        let (epoch, position) = self.current.as_mut().expect("an epoch has begun");
        let batch = epoch.try_next()?.expect("an epoch has a batch left");
        position.position += 1;
        Ok(batch)
    }

    /// Returns the position after the last batch that was returned, or `None` before the first
    /// batch.
    pub fn position(&self) -> Option<EpochPosition> {
        self.current.as_ref().map(|(_, position)| position.clone())
    }

    /// Returns the number of the epoch to which the last batch belongs, counted from 0. Before the
    /// first batch, it is 0.
    pub fn epoch_number(&self) -> u64 {
        self.current.as_ref().map_or(0, |(_, at)| at.number)
    }

    /// Returns the number of batches before the next epoch begins. If the current epoch is over or
    /// no epoch has begun, this is the number of batches in a whole epoch.
    pub fn left_in_epoch(&self) -> usize {
        match self.current.as_ref().map_or(0, |(epoch, _)| epoch.len()) {
            0 => self.loader.len(),
            left => left,
        }
    }

    /// Returns the loader.
    pub fn loader(&self) -> &DataLoader {
        &self.loader
    }
}

/// A weighted mix of several loaders. For each batch, one of the loaders is chosen at random with a
/// probability proportional to its weight.
///
/// Each loader has its own epochs, so a small data set is repeated more often than a large one.
///
/// ```
/// use dataloader::{Corpus, DataLoader, DataLoaderConfig, Mix, torch_rng::TorchRng};
/// let windows = DataLoaderConfig {
///     batch_size: 1, max_length: 2, stride: 2, ..DataLoaderConfig::default()
/// };
/// let loader = |id| DataLoader::new(&Corpus::from_ids(vec![id; 20]), windows);
/// let (prose, code) = (loader(1)?, loader(2)?);
///
/// let mut rng = TorchRng::manual_seed(123);
/// // Nine of ten batches are prose, and the others are code.
/// let mut mix = Mix::new(vec![(prose, 0.9), (code, 0.1)])?;
/// let mut of_code = 0;
/// for _ in 0..1000 {
///     let batch = mix.next_batch(&mut rng)?;
///     of_code += usize::from(batch.input_ids[[0, 0]] == 2);
/// }
/// assert!((80..120).contains(&of_code));
/// # Ok::<(), dataloader::DataLoaderError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Mix {
    sources: Vec<Batches>,
    /// Cumulative probabilities: the probability of each source plus those of all sources before
    /// it. The last element is 1, apart from rounding.
    cumulative: Vec<f64>,
}

/// A position in a mix, which consists of the position in each source.
pub type MixPosition = Vec<Option<EpochPosition>>;

impl Mix {
    /// Creates a mix of loaders with the given weights. The weights don't have to add up to 1.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::NoSource`] if there are no loaders, and
    /// [`DataLoaderError::Weight`] if a weight isn't a positive finite number.
    pub fn new(sources: Vec<(DataLoader, f64)>) -> Result<Self, DataLoaderError> {
        let (sources, weights): (Vec<_>, Vec<f64>) = sources.into_iter().unzip();
        let is_wrong = |weight: &f64| !(*weight > 0.0 && weight.is_finite());
        if let Some(index) = weights.iter().position(is_wrong) {
            let weight = weights[index];
            return Err(DataLoaderError::Weight { index, weight });
        }
        if sources.is_empty() {
            return Err(DataLoaderError::NoSource);
        }
        let total: f64 = weights.iter().sum();
        let cumulative = weights.iter().scan(0.0, |sum, weight| {
            *sum += weight / total;
            Some(*sum)
        });
        Ok(Self {
            cumulative: cumulative.collect(),
            sources: sources.into_iter().map(Batches::new).collect(),
        })
    }

    /// Moves to the given position, which [`position`](Self::position) must have returned for a mix
    /// of the same loaders with the same weights.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::OtherSources`] if the position has a different number of sources,
    /// and [`DataLoaderError::PositionPastEnd`] if an epoch of a loader has fewer batches. The mix
    /// isn't changed in these cases.
    pub fn seek(&mut self, position: MixPosition) -> Result<(), DataLoaderError> {
        if position.len() != self.sources.len() {
            return Err(DataLoaderError::OtherSources {
                positions: position.len(),
                sources: self.sources.len(),
            });
        }
        let sources = self.sources.iter().zip(position);
        let sources = sources.map(|(source, at)| Batches::resume(source.loader.clone(), at));
        self.sources = sources.collect::<Result<_, _>>()?;
        Ok(())
    }

    /// Chooses a source, which takes one 32-bit draw from `rng`, and returns the next batch of this
    /// source.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`Corpus::read`](crate::Corpus::read) if the corpus is in a file that
    /// can't be read.
    pub fn next_batch(&mut self, rng: &mut TorchRng) -> Result<Batch, DataLoaderError> {
        let draw = f64::from(rng.rand(1)[0]);
        let chosen = self.cumulative.partition_point(|&end| end <= draw);
        // The sum of the probabilities can be slightly less than 1 because of rounding.
        let last = self.sources.len() - 1;
        self.sources[chosen.min(last)].next_batch(rng)
    }

    /// Returns the position after the last batch that was returned, for [`seek`](Self::seek).
    pub fn position(&self) -> MixPosition {
        self.sources.iter().map(Batches::position).collect()
    }
}
