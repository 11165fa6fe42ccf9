//! The events of a run, as values: progress bars, logs and plots are made of them elsewhere.

use std::path::Path;

use gpt::GptModel;
use serde::{Deserialize, Serialize};

/// Something that has just happened; given to the closure of
/// [`Trainer::run`](crate::Trainer::run).
///
/// The closure goes on with `ControlFlow::Continue(())`; after `Break(())` the run finishes what is
/// due after this batch or step, saves, and returns [`Outcome::Stopped`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A batch has been through the model, forward and backward.
    Batch(&'a BatchReport),
    /// The weights have been updated.
    Step(&'a StepReport),
    /// The losses of both loaders.
    Evaluation(&'a Evaluation),
    /// Time for a sample of text, which the closure makes with the model, or not: the run goes on
    /// when it returns.
    SampleDue {
        /// Optimizer steps so far.
        steps_done: u64,
        /// The model as it is now.
        model: &'a GptModel,
    },
    /// All batches of an epoch have been used.
    EpochEnd {
        /// Counted from 0.
        epoch: u64,
    },
    /// A batch of an evaluation comes next; breaking here leaves the evaluation to the resumed run.
    Waiting,
    /// A checkpoint is complete and on the disk.
    Saved {
        /// Optimizer steps so far.
        steps_done: u64,
        /// Its folder.
        path: &'a Path,
    },
}

/// The end of [`Trainer::run`](crate::Trainer::run).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// All steps are done.
    Finished,
    /// The closure asked to stop.
    Stopped,
}

/// One batch, forward and backward.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BatchReport {
    /// The optimizer step it belongs to, counted from 0.
    pub step: u64,
    /// Its place among the accumulated batches of the step, counted from 0.
    pub micro_step: u64,
    /// The epoch, counted from 0.
    pub epoch: u64,
    /// The batch's mean loss, with dropout; `None` if another rank computed it.
    pub loss: Option<f32>,
    /// Input tokens of the batch.
    pub tokens: u64,
}

/// One optimizer step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StepReport {
    /// Counted from 0.
    pub step: u64,
    /// The epoch of its last batch, counted from 0.
    pub epoch: u64,
    /// The mean loss of its batches, with dropout.
    pub loss: f32,
    /// The learning rate that was used.
    pub learning_rate: f64,
    /// The gradient's norm before clipping.
    pub grad_norm: f64,
    /// Input tokens of the whole run so far.
    pub tokens_seen: u64,
}

/// One evaluation: nothing is dropped.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evaluation {
    /// Optimizer steps so far.
    pub steps_done: u64,
    /// The epoch of the last of them, counted from 0.
    pub epoch: u64,
    /// Mean loss of a token in the first batches of a new pass over the training loader.
    pub train_loss: f64,
    /// The same of the validation loader; none without one.
    pub val_loss: Option<f64>,
    /// Input tokens of the whole run so far.
    pub tokens_seen: u64,
}
