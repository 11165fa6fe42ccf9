//! The part of a training run's state that a checkpoint stores in the file state.json. The weights
//! and the optimizer's moments are stored in other files.
//!
//! The size of state.json depends neither on the length of the run nor on the amount of data. In
//! particular, the file doesn't contain the order of the training windows in the current epoch.
//! Instead, it contains the state of the random number generator from which this order was drawn,
//! so that a resumed run can draw the same order again.

use std::iter::once;
use std::path::Path;

use dataloader::{DataLoader, EpochPosition};
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
    /// The epoch to which the last batch belongs, and the position in this epoch, or `None` if no
    /// batch has been read yet.
    pub(crate) epoch: Option<EpochState>,
    pub(crate) last_step: Option<StepReport>,
    pub(crate) last_evaluation: Option<Evaluation>,
}

/// The settings with which a checkpoint was saved. A run can be resumed only with the same
/// settings, except for settings that influence neither its weights nor its losses, such as
/// `max_steps`.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Settings {
    /// Configuration of the model.
    pub model: GptConfig,
    /// Settings of the trainer.
    pub config: TrainConfig,
    pub(crate) training_data: Fingerprint,
    pub(crate) validation_data: Option<Fingerprint>,
}

/// An [`EpochPosition`] in the format of state.json.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct EpochState {
    number: u64,
    #[serde(with = "hexadecimal")]
    drawn_from: TorchRng,
    position: usize,
}

impl From<EpochPosition> for EpochState {
    fn from(position: EpochPosition) -> Self {
        Self {
            number: position.number,
            drawn_from: position.drawn_from,
            position: position.position,
        }
    }
}

impl From<EpochState> for EpochPosition {
    fn from(state: EpochState) -> Self {
        Self {
            number: state.number,
            drawn_from: state.drawn_from,
            position: state.position,
        }
    }
}

impl TrainState {
    /// Returns the number of optimizer steps taken so far.
    pub(crate) fn steps_done(&self) -> u64 {
        self.last_step.map_or(0, |last| last.step.saturating_add(1))
    }
}

impl Settings {
    /// Combines all settings of a run in one value, and checks that they are valid.
    ///
    /// # Errors
    ///
    /// Returns an error if a setting is outside its range, if the windows of a data loader are
    /// longer than the context length of the model, or if the data can't be read.
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

    /// Checks that a run with the settings `now` may be resumed from `checkpoint`. `self` contains
    /// the settings with which this checkpoint was saved.
    ///
    /// # Errors
    ///
    /// Returns [`TrainError::OtherRun`] if a setting that must be the same differs. The error
    /// contains the first such setting.
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

/// Serializes the state of a random number generator as a string of hexadecimal digits.
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
            .ok_or_else(|| D::Error::custom("the state of a random number generator is damaged"))
    }
}
