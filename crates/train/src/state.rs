//! What a checkpoint knows beside the tensors: settings, counters, random state, place in the data, the losses so far.
//!
//! An epoch is kept as the random state it was drawn from, not as its order, which a large corpus makes long; hashes of orders and data notice when that would lead elsewhere.

use std::collections::BTreeMap;

use dataloader::{DataLoader, DataLoaderError};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use torch_rng::{RngState, TorchRng};

use crate::manifest::hex;
use crate::{Evaluation, StepReport, TrainConfig};

/// The version of state.json that this crate writes and reads.
pub(crate) const VERSION: u32 = 1;

/// More of anything no run counts, and above it f64 doesn't count in ones.
const MOST: u64 = 1 << 53;

/// state.json.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct TrainState {
    pub(crate) version: u32,
    pub(crate) config: TrainConfig,
    #[serde(flatten)]
    pub(crate) counters: Counters,
    /// Steps of the optimizer, which may have had some before the run.
    pub(crate) optimizer_steps: u64,
    pub(crate) epoch_in_progress: Option<EpochState>,
    /// The generator, in hexadecimal.
    pub(crate) rng: String,
    pub(crate) train_data: Fingerprint,
    pub(crate) val_data: Option<Fingerprint>,
    /// What no version has: flattening and `deny_unknown_fields` exclude each other.
    #[serde(flatten, skip_serializing)]
    pub(crate) unknown: BTreeMap<String, IgnoredAny>,
}

/// How far a run is, and what it has logged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Counters {
    /// Optimizer steps of the run.
    pub(crate) steps_done: u64,
    /// Batches accumulated since the last step.
    pub(crate) micro_step: u64,
    /// The sum of their losses.
    pub(crate) loss_sum: f64,
    pub(crate) tokens_seen: u64,
    /// The epoch in progress, or the next one.
    pub(crate) epoch: u64,
    pub(crate) steps: Vec<StepReport>,
    pub(crate) evaluations: Vec<Evaluation>,
}

impl TrainState {
    /// What no run could have left, if there is something.
    pub(crate) fn contradiction(&self) -> Option<&'static str> {
        let Counters {
            steps_done,
            micro_step,
            tokens_seen,
            epoch,
            steps,
            ..
        } = &self.counters;
        let numbered = steps.iter().zip(0..).all(|(report, i)| report.step == i);
        let counts = [self.optimizer_steps, *tokens_seen, *epoch];
        if *micro_step >= self.config.accumulation {
            Some("micro_step is not below accumulation")
        } else if steps.len() as u64 != *steps_done || !numbered {
            Some("steps_done is not the number of steps that are listed")
        } else if self.optimizer_steps < *steps_done || counts.iter().any(|&n| n > MOST) {
            Some("a counter is too small or too large")
        } else {
            None
        }
    }
}

/// An epoch that has begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EpochState {
    /// The generator before the epoch was drawn, in hexadecimal.
    pub(crate) rng: String,
    /// The next batch.
    pub(crate) position: usize,
}

/// By what a loader is known again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fingerprint {
    pub(crate) windows: usize,
    pub(crate) max_length: usize,
    pub(crate) stride: usize,
    pub(crate) batch_size: usize,
    pub(crate) batches: usize,
    /// Of every id that is in a window, and of the order that seed 0 gives (which tells whether it shuffles).
    pub(crate) sha256: String,
}

impl Fingerprint {
    pub(crate) fn of(loader: &DataLoader) -> Result<Self, DataLoaderError> {
        let dataset = loader.dataset();
        let mut hasher = Sha256::new();
        let mut bytes = Vec::new();
        let fresh = dataset.stride().min(dataset.max_length());
        for i in 0..dataset.len() {
            let window = dataset.read(i)?; // (max_length + 1)
            // A window's first `stride` ids: the rest comes again in the next one, but for the last.
            let ids = if i + 1 < dataset.len() {
                &window[..fresh]
            } else {
                &window[..dataset.max_length()]
            };
            bytes.clear();
            bytes.extend(ids.iter().flat_map(|id| id.to_le_bytes()));
            bytes.extend(window[dataset.max_length()].to_le_bytes());
            hasher.update(&bytes);
        }
        for &window in loader.epoch(&mut TorchRng::manual_seed(0)).order() {
            hasher.update((window as u64).to_le_bytes());
        }
        Ok(Self {
            windows: dataset.len(),
            max_length: dataset.max_length(),
            stride: dataset.stride(),
            batch_size: loader.batch_size(),
            batches: loader.len(),
            sha256: hex(&hasher.finalize()),
        })
    }
}

/// A generator as hexadecimal text.
pub(crate) fn rng_to_hex(rng: &TorchRng) -> String {
    hex(&rng.state().to_bytes())
}

/// The generator of a text that [`rng_to_hex`] made; none if the text is no such thing.
pub(crate) fn rng_from_hex(text: &str) -> Option<TorchRng> {
    let digits: Option<Vec<u8>> = text
        .bytes()
        .map(|digit| char::from(digit).to_digit(16).map(|digit| digit as u8))
        .collect();
    let digits = digits?;
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    let bytes: Vec<u8> = pairs.iter().map(|[high, low]| high << 4 | low).collect();
    TorchRng::from_state(&RngState::from_bytes(&bytes).ok()?).ok()
}
