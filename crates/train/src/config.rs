//! The settings of a training run: the optimizer, the learning rate schedule, and how often to
//! evaluate, sample and save.
//!
//! The model, the data and the folder for checkpoints aren't part of these settings. Instead,
//! `gpt::GptConfig` describes the model, the data loaders describe the data, and
//! [`RunFolder`](crate::RunFolder) represents the folder.

use serde::{Deserialize, Serialize};
use tensor_ops::Dtype;

use crate::{AdamWConfig, Schedule, TrainError};

/// The settings of a [`Trainer`](crate::Trainer). The defaults are the values that chapter 5 of the
/// book uses.
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
    /// Total number of optimizer steps of the run. The default is 90.
    pub max_steps: u64,
    /// Settings of the optimizer AdamW. If `schedule` is set, the `lr` of these settings is the
    /// highest learning rate of the schedule. The default is [`AdamWConfig::default`].
    pub optimizer: AdamWConfig,
    /// Learning rate schedule. If it is `None`, the learning rate remains at the `lr` of
    /// `optimizer`, as in chapter 5 of the book. The default is `None`.
    pub schedule: Option<Schedule>,
    /// Maximum norm of the gradient. If the norm of a gradient is larger, the gradient is scaled
    /// down to this norm. `None`, the default, means that gradients aren't clipped.
    pub max_grad_norm: Option<f64>,
    /// Number format to which the linear layers round the operands of their matrix products, both
    /// in training and in evaluation (see [`GptModel::set_dtype`](gpt::GptModel::set_dtype)). It
    /// must be float32 or bfloat16. The default is float32.
    pub dtype: Dtype,
    /// Number of batches whose gradients are averaged for each optimizer step. The default is 1.
    pub accumulation: u64,
    /// Whether all batches of an optimizer step must belong to the same epoch. If this is true and
    /// fewer than `accumulation` batches are left in an epoch, the last step of the epoch averages
    /// only the gradients of these batches. If this is false, the step also uses batches of the
    /// next epoch. The default is false.
    pub whole_epochs: bool,
    /// Number of optimizer steps between two evaluations. `None` means that there are no regular
    /// evaluations. The default is 5.
    pub eval_every: Option<u64>,
    /// Maximum number of batches of each data loader (training and validation) that an evaluation
    /// uses. A data loader that contains fewer batches is evaluated on all of them. The default is
    /// 5.
    pub eval_batches: usize,
    /// Number of optimizer steps between two samples of text. The run doesn't generate a sample
    /// itself, but passes the event [`Event::SampleDue`](crate::Event::SampleDue) to its closure,
    /// which can generate one. `None`, the default, means that this event never occurs.
    pub sample_every: Option<u64>,
    /// Number of optimizer steps between two checkpoints. `None`, the default, means that no
    /// checkpoints are saved at regular intervals. Regardless of this setting, a checkpoint is
    /// saved when an evaluation finds the lowest validation loss so far, when the run is stopped,
    /// and at the end of the run.
    pub save_every: Option<u64>,
    /// Number of recent checkpoints that the run keeps, which must be at least 1. The checkpoint
    /// with the lowest validation loss is always kept, even if it is older. The default is 1.
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
    /// Checks that each setting is within its valid range.
    ///
    /// # Errors
    ///
    /// Returns [`TrainError::Config`] if a setting is outside its range. The error contains the
    /// name and the value of the first invalid setting, and describes the valid values.
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
                "a finite number greater than 0",
            ));
        }
        self.optimizer.validate()?;
        self.schedule.map_or(Ok(()), |schedule| schedule.validate())
    }

    /// Returns a copy that contains only the settings that influence the weights and losses of a
    /// run. These settings must have the same values when the run is resumed. All other settings
    /// are replaced by 0 or `None`.
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
