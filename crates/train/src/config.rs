//! The settings of a run: optimizer, schedule, how often to evaluate, to sample and to save.
//!
//! The model's own configuration is `gpt::GptConfig`, the data's are the loaders; where a run is
//! kept is [`RunFolder`](crate::RunFolder).

use serde::{Deserialize, Serialize};
use tensor_ops::Dtype;

use crate::{AdamWConfig, Schedule, TrainError};

/// The settings of a [`Trainer`](crate::Trainer); the defaults are from the book's chapter 5.
///
/// ```
/// use train::{AdamWConfig, Schedule, TrainConfig};
/// let config = TrainConfig {
///     max_steps: 1000,
///     optimizer: AdamWConfig { lr: 6e-4, ..AdamWConfig::default() },
///     schedule: Some(Schedule {
///         warmup_steps: 100, total_steps: 1000, initial_lr: 6e-6, min_lr: 6e-5,
///     }),
///     max_grad_norm: Some(1.0),
///     save_every: Some(100),
///     ..TrainConfig::default()
/// };
/// config.validate()?;
/// # Ok::<(), train::TrainError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TrainConfig {
    /// Optimizer steps of the whole run.
    pub max_steps: u64,
    /// AdamW's settings; its `lr` is the peak of the schedule.
    pub optimizer: AdamWConfig,
    /// The learning rate's change; `None` for the optimizer's `lr` all the time, as in chapter 5.
    pub schedule: Option<Schedule>,
    /// The gradient's norm is clipped to this; `None` leaves it alone.
    pub max_grad_norm: Option<f64>,
    /// The format of the operands of linear layers' products while the model trains and is
    /// evaluated ([`GptModel::set_dtype`](gpt::GptModel::set_dtype)): float32 or bfloat16.
    pub dtype: Dtype,
    /// Batches whose gradients are averaged before one optimizer step.
    pub accumulation: u64,
    /// If true, the last step of an epoch takes the remaining batches, averaged by their number;
    /// otherwise it continues with the next epoch's batches.
    pub whole_epochs: bool,
    /// Steps from one evaluation to the next; `None` for no evaluations.
    pub eval_every: Option<u64>,
    /// Batches an evaluation averages over, of each loader; fewer if the loader has fewer.
    pub eval_batches: usize,
    /// Steps from one sample of text to the next; the receiver of
    /// [`Event::SampleDue`](crate::Event::SampleDue) generates it. `None` for no samples.
    pub sample_every: Option<u64>,
    /// Steps from one save to the next; `None` for no such saves. A run saves besides when an
    /// evaluation finds the lowest validation loss so far, at its end, and when it is stopped.
    pub save_every: Option<u64>,
    /// The number of checkpoints to keep, the newest; at least 1. The one with the lowest
    /// validation loss stays too.
    pub keep: usize,
}

impl Default for TrainConfig {
    fn default() -> Self {
        Self {
            max_steps: 90,
            optimizer: AdamWConfig::default(),
            schedule: None,
            max_grad_norm: None,
            dtype: Dtype::Float32,
            accumulation: 1,
            whole_epochs: false,
            eval_every: Some(5),
            eval_batches: 5,
            sample_every: None,
            save_every: None,
            keep: 1,
        }
    }
}

impl TrainConfig {
    /// Checks what the types can't.
    ///
    /// # Errors
    /// [`TrainError::Config`] names the first wrong setting, its value and the expected values.
    pub fn validate(&self) -> Result<(), TrainError> {
        for (name, value) in [
            ("max_steps", self.max_steps),
            ("accumulation", self.accumulation),
            ("eval_every", self.eval_every.unwrap_or(1)),
            ("eval_batches", self.eval_batches as u64),
            ("sample_every", self.sample_every.unwrap_or(1)),
            ("save_every", self.save_every.unwrap_or(1)),
            ("keep", self.keep as u64),
        ] {
            if value == 0 {
                return Err(TrainError::config(name, 0, "at least 1"));
            }
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
        self.schedule.map_or(Ok(()), |schedule| schedule.validate())
    }

    /// The settings that decide the run's numbers; the others are 0 or none.
    pub(crate) fn fixed(&self) -> Self {
        Self {
            max_steps: 0,
            sample_every: None,
            save_every: None,
            keep: 0,
            ..*self
        }
    }
}
