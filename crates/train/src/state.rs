//! state.json: everything of a run except tensors, in the trainer and in a checkpoint.
//!
//! It doesn't grow with the run. An epoch is kept as the random state that it was drawn from, not
//! as its order, which a large corpus makes long.

use std::iter::once;
use std::path::Path;

use dataloader::DataLoader;
use gpt::{GptConfig, GptError};
use serde::{Deserialize, Serialize};
use torch_rng::TorchRng;

use crate::diff::{difference, fields};
use crate::fingerprint::Fingerprint;
use crate::hex::hex;
use crate::{Evaluation, StepReport, TrainConfig, TrainError};

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TrainState {
    pub(crate) settings: Settings,
    #[serde(with = "hexadecimal")]
    pub(crate) rng: TorchRng,
    /// None before the first batch.
    pub(crate) epoch: Option<EpochState>,
    pub(crate) last_step: Option<StepReport>,
    pub(crate) last_evaluation: Option<Evaluation>,
}

/// The settings of a run, by which a resumed one is known.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// The model's configuration.
    pub model: GptConfig,
    /// The run's settings.
    pub config: TrainConfig,
    pub(crate) training_data: Fingerprint,
    pub(crate) validation_data: Option<Fingerprint>,
}

/// The epoch of the last batch.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EpochState {
    /// Counted from 0.
    pub(crate) number: u64,
    /// The generator before the epoch was drawn.
    #[serde(with = "hexadecimal")]
    pub(crate) drawn_from: TorchRng,
    /// The next batch.
    pub(crate) position: usize,
}

impl TrainState {
    /// Optimizer steps so far.
    pub(crate) fn steps_done(&self) -> u64 {
        self.last_step.map_or(0, |last| last.step.saturating_add(1))
    }

    /// The evaluation of the current model, if there was one.
    pub(crate) fn evaluation_now(&self) -> Option<&Evaluation> {
        let last = self.last_evaluation.as_ref();
        last.filter(|last| last.steps_done == self.steps_done())
    }
}

impl Settings {
    /// These settings, if they are possible.
    pub(crate) fn new(
        config: TrainConfig,
        model: GptConfig,
        train_loader: &DataLoader,
        val_loader: Option<&DataLoader>,
    ) -> Result<Self, TrainError> {
        config.validate()?;
        let context_length = model.context_length;
        for loader in once(train_loader).chain(val_loader) {
            let num_tokens = loader.dataset().max_length();
            if num_tokens > context_length {
                return Err(TrainError::Gpt(GptError::TooLong {
                    num_tokens,
                    context_length,
                }));
            }
        }
        Ok(Self {
            model,
            config,
            training_data: Fingerprint::of(train_loader)?,
            validation_data: val_loader.map(Fingerprint::of).transpose()?,
        })
    }

    /// Refuses others than these, which `checkpoint` was saved with.
    pub(crate) fn refuse_others(&self, checkpoint: &Path, now: &Self) -> Result<(), TrainError> {
        let fields = |settings: &Self| {
            fields(&Self {
                config: settings.config.fixed(),
                ..settings.clone()
            })
        };
        match difference(&fields(self), &fields(now)) {
            None => Ok(()),
            Some((name, saved, now)) => Err(TrainError::OtherRun {
                path: checkpoint.to_owned(),
                name,
                saved,
                now,
            }),
        }
    }
}

/// A generator in JSON: its state in hexadecimal digits.
mod hexadecimal {
    use serde::de::{Deserialize, Deserializer, Error};
    use serde::ser::Serializer;
    use torch_rng::{RngState, TorchRng};

    pub(super) fn serialize<S: Serializer>(rng: &TorchRng, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&super::hex(&rng.state().to_bytes()))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<TorchRng, D::Error> {
        let text = String::deserialize(from)?;
        let byte = |at| u8::from_str_radix(text.get(at..at + 2)?, 16).ok();
        let bytes: Option<Vec<u8>> = (0..text.len()).step_by(2).map(byte).collect();
        bytes
            .and_then(|bytes| TorchRng::from_state(&RngState::from_bytes(&bytes).ok()?).ok())
            .ok_or_else(|| D::Error::custom("a random state is damaged"))
    }
}
