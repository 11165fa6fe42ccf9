//! The settings of a run: optimizer, schedule, how often to evaluate, to sample and to save.
//!
//! The model's own configuration is `gpt::GptConfig`, the data's are the loaders; where a run is
//! kept is [`RunFolder`](crate::RunFolder).

use dataloader::DataLoader;
use gpt::{GptConfig, GptError, GptModel, check_vocabulary};
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
    /// The learning rate's change.
    pub schedule: Schedule,
    /// The gradient's norm is clipped to this; `None` leaves it alone.
    pub max_grad_norm: Option<f64>,
    /// Batches whose gradients are averaged before one optimizer step.
    pub accumulation: u64,
    /// If true, the last step of an epoch takes the batches that are left, averaged by their
    /// number; otherwise it goes on with those of the next epoch.
    pub whole_epochs: bool,
    /// Steps from one evaluation to the next; `None` for no evaluations.
    pub eval_every: Option<u64>,
    /// Steps before the first evaluation: 1 in the book, whose loop evaluates after steps 0, 5, ...
    pub eval_first: u64,
    /// Batches an evaluation averages over, of each loader; fewer if the loader has fewer.
    pub eval_batches: usize,
    /// When a sample of text is due, and of what; `None` never.
    pub sample: Option<SampleConfig>,
    /// Save after every so many steps, counted from 1; `None` for no such saves. A run saves
    /// besides when an evaluation finds the lowest validation loss so far, at its end, and when it
    /// is stopped.
    pub save_every: Option<u64>,
    /// The number of checkpoints to keep, the newest; at least 1. The one with the lowest
    /// validation loss stays too.
    pub keep: usize,
}

/// A sample of text, which who listens to [`Event::SampleDue`](crate::Event::SampleDue) makes.
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

/// The book's sample after each epoch: 50 tokens behind "Every effort moves you" in GPT-2's
/// vocabulary.
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
            whole_epochs: false,
            eval_every: Some(5),
            eval_first: 1,
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
    /// [`TrainError::Config`] names the first setting that is wrong, its value and what is
    /// expected.
    pub fn validate(&self) -> Result<(), TrainError> {
        let at_least_one = |name, value: u64| match value {
            0 => Err(TrainError::config(name, 0, "at least 1")),
            _ => Ok(()),
        };
        at_least_one("max_steps", self.max_steps)?;
        at_least_one("accumulation", self.accumulation)?;
        at_least_one("eval_every", self.eval_every.unwrap_or(1))?;
        at_least_one("eval_first", self.eval_first)?;
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

    /// Checks, before the first step is computed, that the model can take the windows and knows the
    /// sample's prompt.
    pub(crate) fn check_fits(
        &self,
        model: &GptModel,
        train_loader: &DataLoader,
        val_loader: Option<&DataLoader>,
    ) -> Result<(), TrainError> {
        let GptConfig {
            context_length,
            vocab_size,
            ..
        } = *model.config();
        for loader in std::iter::once(train_loader).chain(val_loader) {
            let num_tokens = loader.dataset().max_length();
            if num_tokens > context_length {
                return Err(TrainError::Gpt(GptError::TooLong {
                    num_tokens,
                    context_length,
                }));
            }
        }
        let prompt = self.sample.iter().flat_map(|sample| &sample.prompt);
        Ok(check_vocabulary(vocab_size, 0, 0, prompt.copied())?)
    }

    /// The settings that decide the run's numbers; the others are 0 or none.
    pub(crate) fn fixed(&self) -> Self {
        Self {
            max_steps: 0,
            sample: None,
            save_every: None,
            keep: 0,
            ..self.clone()
        }
    }
}
