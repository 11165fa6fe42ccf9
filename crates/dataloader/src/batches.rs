//! Batches without end, from one loader or from a weighted mix of several, with positions that are
//! saved and resumed.
//!
//! When an epoch is over, the next one begins. A position holds the generator from before its epoch
//! was drawn, not the epoch's order, which a large corpus makes long.

use torch_rng::TorchRng;

use crate::epoch::{Batch, Epoch};
use crate::error::DataLoaderError;
use crate::loader::DataLoader;

/// Batches without end, with a position that can be saved: [`Batches`], [`Mix`], or a source of
/// your own, for example of padded texts.
pub trait BatchSource {
    /// All that a source of the same data needs to continue with the same batches.
    type Position;

    /// Returns the next batch; `rng` is the generator of its random draws.
    ///
    /// # Errors
    /// If the data can't be read.
    fn next_batch(&mut self, rng: &mut TorchRng) -> Result<Batch, DataLoaderError>;

    /// Returns the position behind the last batch.
    fn position(&self) -> Self::Position;

    /// Goes to a [`position`](Self::position) of a source of the same data.
    ///
    /// # Errors
    /// If the position doesn't fit the data. Then the source stays where it was.
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
///     batches.next_batch(&mut rng)?; // 10 batches: an epoch of 6 and a part of the next
/// }
/// // What a checkpoint stores, and what a resumed run does with it.
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
    /// The number of the epoch, counted from 0.
    pub number: u64,
    /// The generator from before the epoch was drawn.
    pub drawn_from: TorchRng,
    /// The number of batches that the epoch has given out.
    pub position: usize,
}

impl Batches {
    /// Returns the batches of a loader from the first one on.
    pub fn new(loader: DataLoader) -> Self {
        Self {
            loader,
            current: None,
        }
    }

    /// Returns the batches from a [`position`](Self::position) on.
    ///
    /// # Errors
    /// [`DataLoaderError::PositionPastEnd`] if the loader's epoch has fewer batches.
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

    /// Returns the next batch. At the end of an epoch, `rng` draws the next epoch first.
    ///
    /// # Errors
    /// If the corpus's file can no longer be read. The next call tries the same batch again.
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

    /// Returns the position behind the last batch, or `None` before the first one.
    pub fn position(&self) -> Option<EpochPosition> {
        self.current.as_ref().map(|(_, position)| position.clone())
    }

    /// Returns the number of the epoch of the last batch, counted from 0.
    pub fn epoch_number(&self) -> u64 {
        self.current.as_ref().map_or(0, |(_, at)| at.number)
    }

    /// Returns the number of batches before the next epoch is drawn.
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

/// A mix of several loaders: each batch comes from one of them, chosen at random by its weight.
///
/// Each source has its own epochs, so a small one is repeated more often than a large one.
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
/// // Nine batches of prose to one of code.
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
    /// The share of each source plus the shares of the sources before it, so the last one is 1.
    cumulative: Vec<f64>,
}

/// A position in a mix, source by source.
pub type MixPosition = Vec<Option<EpochPosition>>;

impl Mix {
    /// Returns a mix of loaders with their weights, which needn't add up to 1.
    ///
    /// # Errors
    /// [`DataLoaderError::NoSource`] without a loader; [`DataLoaderError::Weight`] if a weight
    /// isn't a positive number.
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

    /// Goes to a [`position`](Self::position) of a mix of the same loaders and weights.
    ///
    /// # Errors
    /// [`DataLoaderError::OtherSources`] if the position is for another number of sources;
    /// [`DataLoaderError::PositionPastEnd`] if an epoch of a loader has fewer batches. The mix
    /// stays where it was.
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

    /// Draws a source, which takes one 32-bit number from `rng`, and returns its next batch.
    ///
    /// # Errors
    /// If the corpus's file can no longer be read.
    pub fn next_batch(&mut self, rng: &mut TorchRng) -> Result<Batch, DataLoaderError> {
        let draw = f64::from(rng.rand(1)[0]);
        let chosen = self.cumulative.partition_point(|&end| end <= draw);
        let last = self.sources.len() - 1; // rounding may leave the sum of the shares below 1
        self.sources[chosen.min(last)].next_batch(rng)
    }

    /// Returns the position behind the last batch, for [`seek`](Self::seek).
    pub fn position(&self) -> MixPosition {
        self.sources.iter().map(Batches::position).collect()
    }
}
