//! What a checkpoint knows beside the tensors: settings, counters, random state, place in the data.
//!
//! It doesn't grow with the run. An epoch is kept as the random state it was drawn from, not as its
//! order, which a large corpus makes long; hashes of orders and data notice when that would lead
//! elsewhere. Version 1 had lists of all steps and evaluations, of which the last ones are read.

use std::path::Path;

use dataloader::{DataLoader, DataLoaderError};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};
use torch_rng::{RngState, TorchRng};

use crate::manifest::hex;
use crate::{Evaluation, StepReport, TrainConfig, TrainError};

/// The version of state.json that this crate writes; it reads those before, too.
pub(crate) const VERSION: u32 = 2;

/// More of anything no run counts, and above it f64 doesn't count in ones.
const MOST: u64 = 1 << 53;

/// state.json.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// The lists of version 1.
    #[serde(default, skip_serializing)]
    pub(crate) steps: Vec<StepReport>,
    #[serde(default, skip_serializing)]
    pub(crate) evaluations: Vec<Evaluation>,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    pub(crate) last_step: Option<StepReport>,
    pub(crate) last_evaluation: Option<Evaluation>,
}

impl TrainState {
    /// All of it by names for people.
    pub(crate) fn facts(&self) -> Vec<(String, String)> {
        let Ok(Value::Object(state)) = serde_json::to_value(self) else {
            unreachable!("a state is plain data");
        };
        let facts = state.into_iter();
        facts
            .map(|(name, value)| (name, value.to_string()))
            .collect()
    }

    /// As this version has it.
    pub(crate) fn upgraded(mut self) -> Self {
        if self.version == 1 {
            self.version = VERSION;
            self.counters.last_step = self.steps.pop();
            // An evaluation named the step it followed, counted from 0.
            self.counters.last_evaluation = self.evaluations.pop().map(|last| Evaluation {
                steps_done: last.steps_done.saturating_add(1),
                ..last
            });
            (self.steps, self.evaluations) = (Vec::new(), Vec::new());
        }
        self
    }

    /// That a run with these settings and data is the one that was saved in `path`.
    pub(crate) fn refuse_another_run(
        &self,
        path: &Path,
        config: &TrainConfig,
        data: &Fingerprints,
    ) -> Result<(), TrainError> {
        same(path, "", &self.config.fixed(), &config.fixed())?;
        same(path, "the training data", &self.train_data, &data.0)?;
        same(path, "the validation data", &self.val_data, &data.1)
    }

    /// What no run could have left, if there is something.
    pub(crate) fn contradiction(&self) -> Option<&'static str> {
        let Counters {
            steps_done,
            micro_step,
            tokens_seen,
            epoch,
            last_step,
            ..
        } = self.counters;
        let counts = [self.optimizer_steps, tokens_seen, epoch];
        if micro_step >= self.config.accumulation {
            Some("micro_step is not below accumulation")
        } else if last_step.map(|last| last.step) != steps_done.checked_sub(1) {
            Some("steps_done is not the number of the last step")
        } else if self.optimizer_steps < steps_done || counts.iter().any(|&n| n > MOST) {
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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fingerprint {
    pub(crate) windows: usize,
    pub(crate) max_length: usize,
    pub(crate) stride: usize,
    pub(crate) batch_size: usize,
    pub(crate) batches: usize,
    /// Of every id that is in a window, and of the order that seed 0 gives (which tells whether it
    /// shuffles).
    pub(crate) sha256: String,
}

/// Those of the training and the validation loader.
pub(crate) type Fingerprints = (Fingerprint, Option<Fingerprint>);

/// By what the loaders of a run are known again.
pub(crate) fn fingerprints(
    train_loader: &DataLoader,
    val_loader: Option<&DataLoader>,
) -> Result<Fingerprints, DataLoaderError> {
    let val_data = val_loader.map(Fingerprint::of).transpose()?;
    Ok((Fingerprint::of(train_loader)?, val_data))
}

impl Fingerprint {
    fn of(loader: &DataLoader) -> Result<Self, DataLoaderError> {
        let dataset = loader.dataset();
        let mut hasher = Sha256::new();
        let mut bytes = Vec::new();
        let fresh = dataset.stride().min(dataset.max_length());
        for i in 0..dataset.len() {
            let window = dataset.read(i)?; // (max_length + 1)
            // A window's first `stride` ids: the rest comes again in the next one, but for the
            // last.
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

/// That what was saved in `path` is what there is now.
///
/// # Errors
/// Names the first number in which they differ, deep inside, as one of `what`.
pub(crate) fn same<T: Serialize>(
    path: &Path,
    what: &str,
    saved: &T,
    now: &T,
) -> Result<(), TrainError> {
    let json = |value| serde_json::to_value(value).map_err(TrainError::json(path));
    match difference(what, &json(saved)?, &json(now)?) {
        None => Ok(()),
        Some((name, saved, asked)) => Err(TrainError::OtherConfig {
            path: path.to_owned(),
            name,
            saved,
            asked,
        }),
    }
}

/// The first value in which two differ: its name, and both in words.
fn difference(name: &str, saved: &Value, now: &Value) -> Option<(String, String, String)> {
    if let (Value::Object(saved), Value::Object(now)) = (saved, now)
        && saved.keys().eq(now.keys())
    {
        let mut values = saved.iter().zip(now.values());
        return values.find_map(|((key, saved), now)| {
            let name = match name {
                "" => key.clone(),
                of => format!("{key} of {of}"),
            };
            difference(&name, saved, now)
        });
    }
    let words = |value: &Value| match value {
        Value::Null => "none".to_owned(),
        Value::String(text) => text.clone(),
        Value::Object(one) if one.len() == 1 => one.keys().cloned().collect(),
        Value::Object(_) => "there".to_owned(),
        other => other.to_string(),
    };
    (saved != now).then(|| (name.to_owned(), words(saved), words(now)))
}

/// A generator as hexadecimal text.
pub(crate) fn rng_to_hex(rng: &TorchRng) -> String {
    hex(&rng.state().to_bytes())
}

/// The generator of a text that [`rng_to_hex`] made; none if the text is no such thing.
pub(crate) fn rng_from_hex(text: &str) -> Option<TorchRng> {
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let byte = |pair: &[u8; 2]| {
        // A sign, which is no digit, would be read as well.
        let digits = pair.iter().all(u8::is_ascii_hexdigit).then_some(pair)?;
        u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
    };
    let bytes: Option<Vec<u8>> = pairs.iter().map(byte).collect();
    let bytes = bytes.filter(|_| rest.is_empty())?;
    TorchRng::from_state(&RngState::from_bytes(&bytes).ok()?).ok()
}
