//! Endless streams of batches, from one loader or from a weighted mix of several loaders. A stream
//! can be resumed at a saved position.
//!
//! When an epoch (one pass over all windows of a corpus) ends, the next epoch begins automatically.
//! A saved position contains the state that the random number generator had before the windows were
//! shuffled for the current epoch. When a stream is resumed, it uses this state to shuffle the
//! windows again. Therefore, a saved position doesn't need to contain the order of the windows,
//! which can have millions of elements.

use torch_rng::TorchRng;

use crate::epoch::{Batch, Epoch};
use crate::error::DataLoaderError;
use crate::loader::DataLoader;

/// An endless stream of batches whose position can be saved. [`Batches`] and [`Mix`] implement this
/// trait. You can also implement it for your own stream, such as one that pads the sequences of a
/// batch to the same length.
pub trait BatchSource {
    /// Type of a saved position, such as the number of the epoch and of the next batch. If the
    /// position is passed to [`seek`](Self::seek) on another stream over the same data, that stream
    /// continues with the same batches as this one, provided that the random number generators of
    /// both are in the same state.
    type Position;

    /// Returns the next batch. Random numbers are drawn from `rng`.
    ///
    /// # Errors
    ///
    /// Returns an error if the data can't be read.
    fn next_batch(&mut self, rng: &mut TorchRng) -> Result<Batch, DataLoaderError>;

    /// Returns the position after the most recently returned batch.
    fn position(&self) -> Self::Position;

    /// Moves the stream to a position that was saved with [`position`](Self::position), so that it
    /// continues with the batch that follows this position. The position must have been saved from
    /// a stream over the same data.
    ///
    /// # Errors
    ///
    /// Returns an error if the position isn't valid for this data, for example because it is past
    /// the end of an epoch. In this case, the stream remains at its current position.
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

    /// Creates a stream that resumes at a position that was saved with
    /// [`position`](Self::position). If `position` is `None`, the stream starts with the first
    /// batch.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::PositionPastEnd`] if [`EpochPosition::position`] is greater than
    /// the number of batches in an epoch of this loader.
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

    /// Returns the next batch. If the current epoch is over or no epoch has begun, a new epoch
    /// begins, which draws random numbers from `rng` (see [`DataLoader::epoch`]). Otherwise, no
    /// random numbers are drawn.
    ///
    /// # Errors
    ///
    /// Returns an error if the corpus is stored in a file and reading the file fails (see
    /// [`Corpus::read`](crate::Corpus::read)). In this case, neither the stream nor `rng` advances,
    /// so the next call tries to read the same batch again.
    pub fn next_batch(&mut self, rng: &mut TorchRng) -> Result<Batch, DataLoaderError> {
        if let Some((epoch, position)) = &mut self.current
            && epoch.len() > 0
        {
            let batch = epoch.try_next()?.expect("an epoch has a batch left");
            position.position += 1;
            return Ok(batch);
        }
        let before = rng.clone();
        let mut epoch = self.loader.epoch(rng);
        let batch = epoch.try_next().inspect_err(|_| rng.clone_from(&before))?;
        let last = self.current.as_ref().map(|(_, last)| last.number);
        let position = EpochPosition {
            number: last.map_or(0, |last| last.saturating_add(1)),
            drawn_from: before,
            position: 1,
        };
        self.current = Some((epoch, position));
        Ok(batch.expect("an epoch has a batch"))
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

    /// Returns the number of batches that remain in the current epoch. If the current epoch is over
    /// or no epoch has begun, returns the number of batches in a whole epoch.
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
/// Each loader repeats its own epochs independently of the other loaders. For example, if two
/// loaders have the same weight, they return about the same number of batches, so the loader with
/// the smaller data set completes more epochs.
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
    /// Cumulative probabilities, with one element for each loader in `sources`. Each element is the
    /// probability that a batch comes from this loader or from one of the loaders before it. For
    /// example, the weights 3 and 1 result in the elements 0.75 and 1.0. Because of rounding, the
    /// last element can differ slightly from 1.0.
    cumulative: Vec<f64>,
}

/// A position in a [`Mix`]. It consists of one position for each loader, in the order in which the
/// loaders were passed to [`Mix::new`]. The position of a loader is `None` if the mix hasn't
/// returned a batch of this loader yet.
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

    /// Moves the mix to a position that was saved with [`position`](Self::position). The position
    /// must have been saved from a mix of the same loaders, in the same order and with the same
    /// weights.
    ///
    /// # Errors
    ///
    /// Returns [`DataLoaderError::OtherSources`] if the number of loaders in `position` differs
    /// from the number of loaders in this mix. Returns [`DataLoaderError::PositionPastEnd`] if
    /// `position` is past the end of an epoch of one of the loaders. In both cases, the mix remains
    /// at its current position.
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

    /// Returns the next batch of a randomly chosen loader. Choosing the loader draws one 32-bit
    /// number from `rng`. If the chosen loader begins a new epoch, the epoch draws more numbers
    /// (see [`DataLoader::epoch`]).
    ///
    /// # Errors
    ///
    /// Returns an error if the corpus of the chosen loader is stored in a file and reading the file
    /// fails (see [`Corpus::read`](crate::Corpus::read)). In this case, neither the mix nor `rng`
    /// advances, so the next call tries to read the same batch again.
    pub fn next_batch(&mut self, rng: &mut TorchRng) -> Result<Batch, DataLoaderError> {
        let before = rng.clone();
        let draw = f64::from(rng.rand(1)[0]);
        let chosen = self.cumulative.partition_point(|&end| end <= draw);
        // Because of rounding, the last cumulative probability can be slightly less than 1, and the
        // random number `draw` can be equal to or greater than it. In this case, the last loader is
        // chosen.
        let last = self.sources.len() - 1;
        let batch = self.sources[chosen.min(last)].next_batch(rng);
        batch.inspect_err(|_| *rng = before)
    }

    /// Returns the position after the most recently returned batch. To continue from this position
    /// later, pass it to [`seek`](Self::seek).
    pub fn position(&self) -> MixPosition {
        self.sources.iter().map(Batches::position).collect()
    }
}
