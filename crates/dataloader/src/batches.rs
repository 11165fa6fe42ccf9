//! Endless streams of batches, from one loader or from a weighted mix of several loaders. A stream
//! can be resumed at a saved position.
//!
//! When an epoch (one pass over all windows of a corpus) ends, the next one begins automatically. A
//! saved position contains the state of the random number generator from before the windows of its
//! epoch were shuffled. When a stream is resumed, they are shuffled again from this state.
//! Therefore, their order, which can have millions of elements, doesn't have to be saved.

use torch_rng::TorchRng;

use crate::epoch::{Batch, Epoch};
use crate::error::DataLoaderError;
use crate::loader::DataLoader;

/// An endless stream of batches whose position can be saved. [`Batches`] and [`Mix`] implement this
/// trait. You can also implement it for your own stream, such as one that pads the sequences of a
/// batch to the same length.
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

    /// Returns the position after the most recently returned batch.
    fn position(&self) -> Self::Position;

    /// Moves the stream to a position that [`position`](Self::position) returned for a stream over
    /// the same data.
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

/// An endless stream of the batches of a loader. When an epoch ends, the next one begins.
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

/// A position in the stream of batches that [`Batches`] returns.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct EpochPosition {
    /// Number of the epoch, counted from 0.
    pub number: u64,
    /// State of the random number generator before the epoch began.
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

    /// Creates a stream that continues at a position that [`position`](Self::position) returned. If
    /// the position is `None`, the stream starts at the beginning.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::PositionPastEnd`] if the position is past the end of an epoch of
    /// this loader.
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

    /// Returns the next batch. If it is the first batch of an epoch, the epoch begins with random
    /// numbers from `rng` (see [`DataLoader::epoch`]).
    ///
    /// # Errors
    ///
    /// Returns an error if the corpus is stored in a file and reading the file fails (see
    /// [`Corpus::read`](crate::Corpus::read)). The next call tries to read the same batch again.
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

    /// Returns the position after the most recently returned batch, or `None` if no batch has been
    /// returned yet.
    pub fn position(&self) -> Option<EpochPosition> {
        self.current.as_ref().map(|(_, position)| position.clone())
    }

    /// Returns the number of the epoch to which the most recently returned batch belongs, counted
    /// from 0. Returns 0 if no batch has been returned yet.
    pub fn epoch_number(&self) -> u64 {
        self.current.as_ref().map_or(0, |(_, at)| at.number)
    }

    /// Returns the number of batches that are left in the current epoch. If this epoch is over or
    /// no epoch has begun, returns the number of batches in a whole epoch.
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
/// Each loader has its own epochs. If two loaders have the same weight, the smaller data set is
/// therefore repeated more often.
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
    /// Cumulative probabilities of the sources. If the weights are 3 and 1, for example, the
    /// elements are 0.75 and 1.0. Because of rounding, the last element can differ slightly from
    /// 1.0.
    cumulative: Vec<f64>,
}

/// A position in a [`Mix`], which consists of the position in the batches of each loader. An
/// element is `None` if the loader hasn't returned a batch yet.
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

    /// Moves the mix to a position that [`position`](Self::position) returned for a mix of the same
    /// loaders with the same weights.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::OtherSources`] if the position is for a different number of
    /// loaders, and [`DataLoaderError::PositionPastEnd`] if it is past the end of an epoch of one
    /// of the loaders. In these cases, the mix isn't changed.
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

    /// Chooses a loader at random, for which one 32-bit number is drawn from `rng`, and returns the
    /// next batch of this loader.
    ///
    /// # Errors
    ///
    /// Returns an error if the corpus of the loader is stored in a file and reading the file fails
    /// (see [`Corpus::read`](crate::Corpus::read)).
    pub fn next_batch(&mut self, rng: &mut TorchRng) -> Result<Batch, DataLoaderError> {
        let draw = f64::from(rng.rand(1)[0]);
        let chosen = self.cumulative.partition_point(|&end| end <= draw);
        // Because of rounding, the last cumulative probability can be slightly less than 1, and
        // `draw` can be greater than it.
        let last = self.sources.len() - 1;
        self.sources[chosen.min(last)].next_batch(rng)
    }

    /// Returns the position after the most recently returned batch, from which [`seek`](Self::seek)
    /// can continue.
    pub fn position(&self) -> MixPosition {
        self.sources.iter().map(Batches::position).collect()
    }
}
