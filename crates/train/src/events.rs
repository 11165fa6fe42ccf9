//! The events of a run, as values: progress bars, logs and plots are made of them elsewhere.

use std::path::Path;

use gpt::GptModel;
use serde::{Deserialize, Serialize};

use crate::TrainError;

/// Something that has just happened; given to the closure of
/// [`Trainer::run`](crate::Trainer::run).
///
/// The closure continues with `ControlFlow::Continue(())`; after `Break(())` the run finishes the
/// actions due after this step, saves, and returns [`Outcome::Stopped`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A batch of [`train_model_simple`](crate::train_model_simple) has changed the weights.
    Batch {
        /// Its mean loss, with dropout.
        loss: f32,
    },
    /// The weights have been updated.
    Step(&'a StepReport),
    /// The losses of both loaders.
    Evaluation(&'a Evaluation),
    /// A sample of text is due, which the closure may make with the model; the run continues when
    /// it returns.
    SampleDue {
        /// Optimizer steps so far.
        steps_done: u64,
        /// The current model.
        model: &'a GptModel,
    },
    /// A batch of an evaluation comes next; breaking here leaves the evaluation to the resumed run.
    EvaluationBatch,
    /// A checkpoint is complete and on the disk.
    Saved {
        /// Optimizer steps so far.
        steps_done: u64,
        /// Its folder.
        path: &'a Path,
        /// Why older checkpoints couldn't be deleted; the next save tries again.
        not_deleted: &'a [TrainError],
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
