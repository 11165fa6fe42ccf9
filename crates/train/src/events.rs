//! The events that a training run reports. A program can use them to show progress bars, write logs
//! and create plots.

use std::path::Path;

use gpt::GptModel;
use serde::{Deserialize, Serialize};

use crate::TrainError;

/// An event of a training run, which has occurred or is about to occur. All events are passed to
/// the closure that the caller passes to [`Trainer::run`](crate::Trainer::run).
///
/// The closure returns `ControlFlow::Continue(())` to continue the training, or `Break(())` to stop
/// it. Before the run stops, it finishes the work that is due after the current step, and saves a
/// checkpoint if it has a folder. It then returns [`Outcome::Stopped`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Event<'a> {
    /// A batch was processed and the weights were updated. Only the function
    /// [`train_model_simple`](crate::train_model_simple) reports this event. A
    /// [`Trainer`](crate::Trainer) reports [`Event::Step`] instead.
    Batch {
        /// Mean loss of the batch, with dropout.
        loss: f32,
    },
    /// An optimizer step has updated the weights.
    Step(&'a StepReport),
    /// The losses were evaluated.
    Evaluation(&'a Evaluation),
    /// It is time to generate a sample of text. The closure can use the model to generate it. The
    /// run continues after the closure has returned.
    SampleDue {
        /// Number of optimizer steps taken so far.
        steps_done: u64,
        /// Model after the last step.
        model: &'a GptModel,
    },
    /// An evaluation is about to process its next batch. If the closure returns `Break(())`, the
    /// evaluation is canceled, and the run repeats it when it is resumed.
    EvaluationBatch,
    /// A checkpoint is complete and stored on disk.
    Saved {
        /// Number of optimizer steps in the checkpoint.
        steps_done: u64,
        /// Path to the folder of the checkpoint.
        path: &'a Path,
        /// Errors that occurred when the run tried to delete old or unfinished checkpoints. When
        /// the next checkpoint is saved, the run tries again to delete them.
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
    /// Index of the step, counted from 0.
    pub step: u64,
    /// Index of the epoch, counted from 0, to which the last batch of the step belongs.
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
/// In an evaluation by a [`Trainer`](crate::Trainer), each loss is the mean over all tokens. In an
/// evaluation by [`train_model_simple`](crate::train_model_simple), each loss is the mean over all
/// batches, as in the book.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Evaluation {
    /// Number of optimizer steps taken so far.
    pub steps_done: u64,
    /// Index of the epoch, counted from 0, in which the last optimizer step was taken.
    pub epoch: u64,
    /// Training loss, which is the mean loss over the batches of the training data that the
    /// evaluation used.
    pub train_loss: f64,
    /// Validation loss, which is the mean loss over the batches of the validation data that the
    /// evaluation used. `None` means that there is no validation data.
    pub val_loss: Option<f64>,
    /// Number of input tokens that the run has processed so far.
    pub tokens_seen: u64,
}
