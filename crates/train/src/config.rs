//! What a run is: optimizer, schedule, how often to evaluate, to sample and to save.
//!
//! The model's own configuration is `gpt::GptConfig`, the data's are the loaders; where a run is kept is [`RunFolder`](crate::RunFolder).

use serde::{Deserialize, Serialize};

use crate::{AdamWConfig, Schedule, TrainError};

/// The settings of a [`Trainer`](crate::Trainer); the defaults are those of the book's chapter 5.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// Optimizer steps of the whole run.
    pub max_steps: u64,
    /// AdamW's settings; its `lr` is the peak of the schedule.
    pub optimizer: AdamWConfig,
    /// How the learning rate changes.
    pub schedule: Schedule,
    /// The gradient's norm is clipped to this; `None` leaves it alone.
    pub max_grad_norm: Option<f64>,
    /// Batches whose gradients are averaged before one optimizer step.
    pub accumulation: u64,
    /// Evaluate after each step whose number, counted from 0, is a multiple of this, as the book's loop does; `None` never.
    pub eval_every: Option<u64>,
    /// Batches an evaluation averages over, of each loader; fewer if the loader has fewer.
    pub eval_batches: usize,
    /// Generate a sample while training; `None` never.
    pub sample: Option<SampleConfig>,
    /// Save after every so many steps, counted from 1, and at the end; `None` only at the end.
    pub save_every: Option<u64>,
    /// How many checkpoints to keep, the newest; at least 1. The one with the lowest validation loss stays too.
    pub keep: usize,
}

/// A greedy sample: it draws nothing, so it doesn't change the run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleConfig {
    /// The ids to continue: at least one.
    pub prompt: Vec<u32>,
    /// Tokens to generate.
    pub max_new_tokens: usize,
    /// After every so many steps, counted from 1; `None` after each epoch, as the book does.
    pub every: Option<u64>,
}

/// The book's sample after each epoch: 50 tokens behind "Every effort moves you" in GPT-2's vocabulary.
impl Default for SampleConfig {
    fn default() -> Self {
        Self {
            prompt: vec![6109, 3626, 6100, 345],
            max_new_tokens: 50,
            every: None,
        }
    }
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            max_steps: 90,
            optimizer: AdamWConfig::default(),
            schedule: Schedule::Constant,
            max_grad_norm: None,
            accumulation: 1,
            eval_every: Some(5),
            eval_batches: 5,
            sample: None,
            save_every: None,
            keep: 1,
        }
    }
}

impl TrainConfig {
    /// Checks what the types can't.
    ///
    /// # Errors
    /// [`TrainError::Config`] names the first setting that is wrong, its value and what is expected.
    pub fn validate(&self) -> Result<(), TrainError> {
        let at_least_one = |name, value: u64| match value {
            0 => Err(TrainError::config(name, 0, "at least 1")),
            _ => Ok(()),
        };
        at_least_one("max_steps", self.max_steps)?;
        at_least_one("accumulation", self.accumulation)?;
        at_least_one("eval_every", self.eval_every.unwrap_or(1))?;
        at_least_one("eval_batches", self.eval_batches as u64)?;
        at_least_one("save_every", self.save_every.unwrap_or(1))?;
        at_least_one("keep", self.keep as u64)?;
        if let Some(sample) = &self.sample {
            at_least_one("sample.every", sample.every.unwrap_or(1))?;
            at_least_one("tokens in sample.prompt", sample.prompt.len() as u64)?;
        }
        if let Some(norm) = self.max_grad_norm
            && !(norm > 0.0 && norm.is_finite())
        {
            return Err(TrainError::config(
                "max_grad_norm",
                norm,
                "a finite number over 0",
            ));
        }
        self.optimizer.validate()?;
        self.schedule.validate()
    }

    /// The first setting that decides the run's numbers and differs: its name, and both values.
    pub(crate) fn first_difference(&self, other: &Self) -> Option<(&'static str, String, String)> {
        fn pair<T: std::fmt::Debug + PartialEq>(
            name: &'static str,
            ours: &T,
            theirs: &T,
        ) -> Option<(&'static str, String, String)> {
            (ours != theirs).then(|| (name, format!("{ours:?}"), format!("{theirs:?}")))
        }
        let (a, b) = (self, other);
        pair("optimizer", &a.optimizer, &b.optimizer)
            .or_else(|| pair("schedule", &a.schedule, &b.schedule))
            .or_else(|| pair("max_grad_norm", &a.max_grad_norm, &b.max_grad_norm))
            .or_else(|| pair("accumulation", &a.accumulation, &b.accumulation))
            .or_else(|| pair("eval_every", &a.eval_every, &b.eval_every))
            .or_else(|| pair("eval_batches", &a.eval_batches, &b.eval_batches))
    }
}
