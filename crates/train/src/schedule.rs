//! The learning rate of each step: constant, or linear warmup and cosine decay (book appendix D.1
//! and D.2).
//!
//! ```text
//! step < warmup_steps:  lr = initial_lr + step (peak_lr - initial_lr) / warmup_steps
//! after:                lr = min_lr + (peak_lr - min_lr) (1 + cos(pi progress)) / 2
//!                       progress = (step - warmup_steps) / (total_steps - warmup_steps)
//! ```
//!
//! There are no restarts; from `total_steps` on it stays at `min_lr`.

use serde::{Deserialize, Serialize};

use crate::TrainError;

/// A learning rate's change from step to step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub enum Schedule {
    /// The optimizer's `lr` all the time, as in chapter 5.
    #[default]
    Constant,
    /// From `initial_lr` up to the optimizer's `lr` in equal increments, then down to `min_lr`
    /// along half a cosine.
    WarmupCosine {
        /// Steps of the first part; 0 for none.
        warmup_steps: u64,
        /// Steps of both parts; more than `warmup_steps`.
        total_steps: u64,
        /// The rate at the start of the warmup.
        initial_lr: f64,
        /// The rate at the end of the decay.
        min_lr: f64,
    },
}

impl Schedule {
    /// The learning rate of step `step`, counted from 0, with `peak_lr` the optimizer's own.
    ///
    /// ```
    /// // Appendix D: 9 batches, 15 epochs, a fifth of the steps to warm up.
    /// let total_steps = 9 * 15;
    /// let schedule = train::Schedule::WarmupCosine {
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
        match *self {
            Self::Constant => peak_lr,
            Self::WarmupCosine {
                warmup_steps,
                total_steps,
                initial_lr,
                min_lr,
            } => {
                if step < warmup_steps {
                    let increment = (peak_lr - initial_lr) / warmup_steps as f64;
                    return initial_lr + step as f64 * increment;
                }
                if step >= total_steps {
                    return min_lr;
                }
                let progress = (step - warmup_steps) as f64 / (total_steps - warmup_steps) as f64;
                min_lr + (peak_lr - min_lr) * 0.5 * (1.0 + (std::f64::consts::PI * progress).cos())
            }
        }
    }

    pub(crate) fn validate(&self) -> Result<(), TrainError> {
        let Self::WarmupCosine {
            warmup_steps,
            total_steps,
            initial_lr,
            min_lr,
        } = *self
        else {
            return Ok(());
        };
        if total_steps <= warmup_steps {
            let expected = format!("more than warmup_steps, which is {warmup_steps}");
            return Err(TrainError::config(
                "total_steps",
                total_steps as f64,
                expected,
            ));
        }
        TrainError::check_not_negative("initial_lr", initial_lr)?;
        TrainError::check_not_negative("min_lr", min_lr)
    }
}
