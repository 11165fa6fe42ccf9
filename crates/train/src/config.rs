//! The settings of a training run: the optimizer, the learning rate schedule, and how often to
//! evaluate, sample and save.
//!
//! The model has its own configuration, `gpt::GptConfig`. The data is described by the loaders, and
//! the place where checkpoints are saved by [`RunFolder`](crate::RunFolder).

use serde::{Deserialize, Serialize};
use tensor_ops::Dtype;

use crate::{AdamWConfig, Schedule, TrainError};

/// The settings of a [`Trainer`](crate::Trainer). The defaults are those of chapter 5 of the book.
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
    /// Number of optimizer steps of the whole run.
    pub max_steps: u64,
    /// Settings of AdamW. If there is a schedule, `lr` is the highest learning rate.
    pub optimizer: AdamWConfig,
    /// Schedule of the learning rate. `None` means that the learning rate is always the optimizer's
    /// `lr`, as in chapter 5.
    pub schedule: Option<Schedule>,
    /// Largest norm that the gradient can have. If the norm is larger, the gradient is scaled down
    /// to it. `None` means that gradients aren't clipped.
    pub max_grad_norm: Option<f64>,
    /// Number format to which the operands of the linear layers' matrix products are rounded, in
    /// training and in evaluation ([`GptModel::set_dtype`](gpt::GptModel::set_dtype)). It must be
    /// float32 or bfloat16.
    pub dtype: Dtype,
    /// Number of batches whose gradients are averaged for each optimizer step.
    pub accumulation: u64,
    /// Whether an optimizer step ends at the end of an epoch. If this is true and fewer than
    /// `accumulation` batches are left, the step averages only those. Otherwise, the step continues
    /// with batches of the next epoch.
    pub whole_epochs: bool,
    /// Number of steps between two evaluations. `None` means that the run isn't evaluated.
    pub eval_every: Option<u64>,
    /// Number of batches per loader over which an evaluation averages. If a loader has fewer
    /// batches, all of them are used.
    pub eval_batches: usize,
    /// Number of steps between two samples of text. The closure that receives
    /// [`Event::SampleDue`](crate::Event::SampleDue) generates the text. `None` means that there
    /// are no samples.
    pub sample_every: Option<u64>,
    /// Number of steps between two checkpoints. `None` means that no checkpoints are saved at
    /// regular intervals. In both cases, a checkpoint is saved when an evaluation returns the
    /// lowest validation loss so far, when the run is stopped, and at the end of the run.
    pub save_every: Option<u64>,
    /// Number of newest checkpoints that are kept, which must be at least 1. The checkpoint with
    /// the lowest validation loss is kept in addition to these.
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
    /// Checks that each setting is in its range.
    ///
    /// # Errors
    ///
    /// Returns [`TrainError::Config`], which contains the first invalid setting, its value and the
    /// valid values.
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

    /// Returns only the settings on which the weights and losses of a run depend. A resumed run
    /// must have the same values for these. All other settings are replaced by 0 or `None`.
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
