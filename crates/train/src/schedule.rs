//! A learning rate schedule that consists of a linear warmup and a cosine decay (appendices D.1 and
//! D.2 of the book).
//!
//! ```text
//! if step < warmup_steps:  lr = initial_lr + step (peak_lr - initial_lr) / warmup_steps
//! otherwise:               lr = min_lr + (peak_lr - min_lr) (1 + cos(pi progress)) / 2
//!                          progress = (step - warmup_steps) / (total_steps - warmup_steps)
//! ```
//!
//! There is only one cosine decay. After it has ended at step `total_steps`, the learning rate
//! remains at `min_lr`.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use crate::TrainError;

/// A learning rate schedule. The learning rate first rises linearly from `initial_lr` to the `lr`
/// of the optimizer. It then falls to `min_lr` along half a period of a cosine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Number of warmup steps, in which the learning rate rises. If this is 0, there is no warmup.
    #[serde(default)]
    pub warmup_steps: u64,
    /// Total number of steps of the warmup and the decay. It must be greater than `warmup_steps`.
    pub total_steps: u64,
    /// Learning rate of the first step if there is a warmup.
    #[serde(default)]
    pub initial_lr: f64,
    /// Learning rate after the decay, which applies to step `total_steps` and all later steps.
    #[serde(default)]
    pub min_lr: f64,
}

impl Schedule {
    /// Returns the learning rate of the step with index `step`, where the first step has index 0.
    /// `peak_lr` is the learning rate at the end of the warmup, for which
    /// [`Trainer`](crate::Trainer) uses the `lr` of its optimizer settings.
    ///
    /// ```
    /// // In appendix D, there are 15 epochs of 9 batches, and a fifth of the steps is the warmup.
    /// let total_steps = 9 * 15;
    /// let schedule = train::Schedule {
    ///     warmup_steps: (0.2 * total_steps as f64) as u64, // 27 steps
    ///     total_steps,
    ///     initial_lr: 0.0001,
    ///     min_lr: 0.1 * 0.0001,
    /// };
    /// assert_eq!(schedule.learning_rate(0, 0.01), 0.0001);
    /// assert_eq!(schedule.learning_rate(27, 0.01), 0.01);
    /// assert!(schedule.learning_rate(134, 0.01) < 2e-5);
    /// ```
    #[must_use]
    pub fn learning_rate(&self, step: u64, peak_lr: f64) -> f64 {
        let Self {
            warmup_steps,
            total_steps,
            initial_lr,
            min_lr,
        } = *self;
        if step < warmup_steps {
            let increment = (peak_lr - initial_lr) / warmup_steps as f64;
            return initial_lr + step as f64 * increment;
        }
        if step >= total_steps {
            return min_lr;
        }
        let progress = (step - warmup_steps) as f64 / (total_steps - warmup_steps) as f64;
        min_lr + (peak_lr - min_lr) * 0.5 * (1.0 + (PI * progress).cos())
    }

    pub(crate) fn validate(&self) -> Result<(), TrainError> {
        let (warmup, total) = (self.warmup_steps, self.total_steps);
        if total <= warmup {
            let expected = format!("greater than warmup_steps ({warmup})");
            return Err(TrainError::config("total_steps", total as f64, expected));
        }
        TrainError::check_not_negative("initial_lr", self.initial_lr)?;
        TrainError::check_not_negative("min_lr", self.min_lr)
    }
}
