//! The state in a checkpoint beside the tensors: settings, counters, random state, place in the
//! data.
//!
//! It doesn't grow with the run. An epoch is kept as the random state that it was drawn from, not
//! as its order, which a large corpus makes long.

use std::path::Path;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use torch_rng::{RngState, TorchRng};

use crate::fingerprint::Fingerprint;
use crate::manifest::hex;
use crate::{Evaluation, StepReport, TrainConfig, TrainError};

/// The most that a counter may be: f64 is exact to here.
const MOST: u64 = 1 << 53;

/// state.json.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrainState {
    pub(crate) config: TrainConfig,
    pub(crate) counters: Counters,
    /// Steps of the optimizer, which may have had some before the run.
    pub(crate) optimizer_steps: u64,
    pub(crate) epoch_in_progress: Option<EpochState>,
    /// The generator, in hexadecimal.
    pub(crate) rng: String,
    pub(crate) train_data: Fingerprint,
    pub(crate) val_data: Option<Fingerprint>,
}

/// The progress of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
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
    /// The fields with their values in JSON, for ranks to compare.
    pub(crate) fn fields(&self) -> Vec<(String, String)> {
        let Ok(Value::Object(state)) = serde_json::to_value(self) else {
            unreachable!("a state is plain data");
        };
        let fields = state.into_iter();
        fields
            .map(|(name, value)| (name, value.to_string()))
            .collect()
    }

    /// Refuses other settings and other data than those of the checkpoint `path`.
    pub(crate) fn refuse_another_run(
        &self,
        path: &Path,
        config: &TrainConfig,
        (train_data, val_data): &(Fingerprint, Option<Fingerprint>),
    ) -> Result<(), TrainError> {
        same(path, "", &self.config.fixed(), &config.fixed())?;
        let words = |data: Option<&Fingerprint>| data.map_or("none".into(), ToString::to_string);
        let saved = [Some(&self.train_data), self.val_data.as_ref()];
        let found = [Some(train_data), val_data.as_ref()];
        for (i, part) in ["training", "validation"].into_iter().enumerate() {
            if saved[i] != found[i] {
                return Err(TrainError::OtherData {
                    path: path.to_owned(),
                    part,
                    saved: words(saved[i]),
                    found: words(found[i]),
                });
            }
        }
        Ok(())
    }

    /// Something in it that no run leaves, if there is.
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

/// Checks that what was saved in `path` is what there is now.
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

/// Finds the first value in which two differ: its name, and both in words.
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
