//! The events of a training run, from which a program can create progress bars, logs and plots.

use std::path::Path;

use gpt::GptModel;
use serde::{Deserialize, Serialize};

use crate::TrainError;

/// Something that has happened or is about to happen in a training run. Each event is passed to the
/// closure of [`Trainer::run`](crate::Trainer::run).
///
/// To continue training, the closure returns `ControlFlow::Continue(())`. If it returns
/// `Break(())`, the run finishes the work that is due after the current step, saves a checkpoint if
/// it has a folder, and returns [`Outcome::Stopped`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A batch was used to update the weights. Only
    /// [`train_model_simple`](crate::train_model_simple) reports this event.
    Batch {
        /// Mean loss of the batch, with dropout.
        loss: f32,
    },
    /// An optimizer step has updated the weights.
    Step(&'a StepReport),
    /// The losses were evaluated.
    Evaluation(&'a Evaluation),
    /// A sample of text is due. The closure can generate it with the model, and the run continues
    /// when the closure returns.
    SampleDue {
        /// Number of optimizer steps so far.
        steps_done: u64,
        /// Model after the last step.
        model: &'a GptModel,
    },
    /// An evaluation is about to compute its next batch. If the closure returns `Break(())`, the
    /// evaluation is canceled. It is repeated when the run is resumed.
    EvaluationBatch,
    /// A checkpoint is complete and stored on disk.
    Saved {
        /// Number of optimizer steps in the checkpoint.
        steps_done: u64,
        /// Path to the folder of the checkpoint.
        path: &'a Path,
        /// Errors that occurred while older checkpoints were being deleted. The next save tries to
        /// delete these checkpoints again.
        not_deleted: &'a [TrainError],
    },
}

/// The result of [`Trainer::run`](crate::Trainer::run).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// All steps have been completed.
    Finished,
    /// The closure stopped the run before it was completed.
    Stopped,
}

/// The results of one optimizer step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct StepReport {
    /// Index of the step. The first step has index 0.
    pub step: u64,
    /// Index of the epoch from which the last batch of the step was taken. The first epoch has
    /// index 0.
    pub epoch: u64,
    /// Mean loss of the step's batches, with dropout.
    pub loss: f32,
    /// Learning rate of the step.
    pub learning_rate: f64,
    /// Norm of the gradient before clipping.
    pub grad_norm: f64,
    /// Number of input tokens that the run has processed so far.
    pub tokens_seen: u64,
}

/// The results of one evaluation, which are computed without dropout.
///
/// The losses of a [`Trainer`](crate::Trainer) are means over tokens. Those of
/// [`train_model_simple`](crate::train_model_simple) are means over batches, as in the book.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Evaluation {
    /// Number of optimizer steps so far.
    pub steps_done: u64,
    /// Index of the epoch of the last step. The first epoch has index 0.
    pub epoch: u64,
    /// Mean loss over the first batches of the training data, in a new pass over the data.
    pub train_loss: f64,
    /// Mean loss over the first batches of the validation data, in a new pass over the data. `None`
    /// means that there is no validation data.
    pub val_loss: Option<f64>,
    /// Number of input tokens that the run has processed so far.
    pub tokens_seen: u64,
}
