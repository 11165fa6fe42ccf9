//! The learning rate of each step: linear warmup and cosine decay (book appendix D.1 and D.2).
//!
//! ```text
//! step < warmup_steps:  lr = initial_lr + step (peak_lr - initial_lr) / warmup_steps
//! after:                lr = min_lr + (peak_lr - min_lr) (1 + cos(pi progress)) / 2
//!                       progress = (step - warmup_steps) / (total_steps - warmup_steps)
//! ```
//!
//! No restarts: from `total_steps` on, the rate stays at `min_lr`.

use std::f64::consts::PI;

use serde::{Deserialize, Serialize};

use crate::TrainError;

/// A learning rate that rises from `initial_lr` to the optimizer's `lr` in equal increments, then
/// falls to `min_lr` along half a cosine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Schedule {
    /// Steps of the first part; 0 for none.
    #[serde(default)]
    pub warmup_steps: u64,
    /// Steps of both parts; more than `warmup_steps`.
    pub total_steps: u64,
    /// The rate at the start of the warmup.
    #[serde(default)]
    pub initial_lr: f64,
    /// The rate at the end of the decay.
    #[serde(default)]
    pub min_lr: f64,
}

impl Schedule {
    /// The learning rate of step `step`, counted from 0, with `peak_lr` the optimizer's own.
    ///
    /// ```
    /// // Appendix D: 9 batches, 15 epochs, a fifth of the steps to warm up.
    /// let total_steps = 9 * 15;
    /// let schedule = train::Schedule {
    ///     warmup_steps: (0.2 * total_steps as f64) as u64, // prints 27
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
            let expected = format!("more than warmup_steps, which is {warmup}");
            return Err(TrainError::config("total_steps", total as f64, expected));
        }
        TrainError::check_not_negative("initial_lr", self.initial_lr)?;
        TrainError::check_not_negative("min_lr", self.min_lr)
    }
}
