//! The error type of this crate. Error messages contain the names and values that caused the
//! errors.

use std::io;
use std::path::{Path, PathBuf};

use atomic_file::FileError;
use checkpoint::{CheckpointError, one_line};
use dataloader::DataLoaderError;
use gpt::GptError;
use tensor_ops::UnsupportedDtype;
use thiserror::Error;

/// An error that can occur when a training run is started, continued, saved or resumed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A setting is outside its range.
    #[error("{name} must be {expected}, got {value}")]
    Config {
        /// Name of the setting.
        name: &'static str,
        /// Value of the setting.
        value: f64,
        /// Description of the valid values.
        expected: String,
    },
    /// Models can't be trained in this number format.
    #[error("dtype isn't supported for training: {0}")]
    Dtype(#[from] UnsupportedDtype),
    /// A loss or the norm of a gradient is NaN or infinite. If this happens during an optimizer
    /// step, the step doesn't change the weights.
    #[error(
        "the {what} is {value}, so training can't continue; set lr below {learning_rate:e}, use \
        warmup_steps, or set max_grad_norm to 1"
    )]
    NotFinite {
        /// Description of the value that isn't finite, such as "loss of step 3" (where steps are
        /// counted from 1) or "validation loss after step 3".
        what: String,
        /// Value of the number, which is NaN or infinite.
        value: f64,
        /// Learning rate of the last completed step. If no step has been completed yet, this is the
        /// learning rate of the first step.
        learning_rate: f64,
    },

    /// One of the processes (ranks) that share a training run has failed.
    #[error("rank {rank}: {source}")]
    OnRank {
        /// Number of the rank that failed, counted from 0.
        rank: usize,
        /// Error that occurred on this rank.
        source: Box<TrainError>,
    },
    /// The processes (ranks) that share a training run were started with different settings, data
    /// or weights.
    #[error(
        "rank {rank} differs from rank 0 in {name}: rank {rank} has {other}, but rank 0 has {first}; \
        start all ranks with the same settings and data"
    )]
    RanksDiffer {
        /// Name of the first value that differs.
        name: String,
        /// Number of a rank on which the value called `name` differs from the value on rank 0.
        rank: usize,
        /// Value on this rank.
        other: String,
        /// Value on rank 0.
        first: String,
    },

    /// The operating system reported an error.
    #[error(transparent)]
    Io(#[from] FileError),
    /// Another process is using the run's folder.
    #[error(
        "{}: another run is using this folder; wait for it to finish, or choose another folder",
        .path.display()
    )]
    Locked {
        /// Path to the folder.
        path: PathBuf,
    },
    /// This process no longer owns the folder that it opened.
    #[error(
        "{}: this process no longer owns the run's folder, because the folder was renamed or \
        deleted, or another process resumed the run; this process exits now and writes nothing else",
        .path.display()
    )]
    FolderLost {
        /// Path to the folder.
        path: PathBuf,
    },
    /// There is no checkpoint to resume from.
    #[error(
        "{}: no checkpoint was found; specify a checkpoint, or the folder of a run that has saved one",
        .path.display()
    )]
    NoCheckpoint {
        /// Path to the folder that was searched.
        path: PathBuf,
    },
    /// A file was changed or truncated, was written by an incompatible version of this program, or
    /// isn't valid JSON.
    #[error("{}: {problem}", .path.display())]
    Damaged {
        /// Path to the file.
        path: PathBuf,
        /// Description of the problem.
        problem: String,
    },
    /// The settings, the model or the data aren't the same as when the checkpoint was saved. A run
    /// that was resumed with them wouldn't produce the same results as an uninterrupted run.
    #[error(
        "{}: {name} is {saved} in the checkpoint, but it is {now} now; resume with the same settings and data",
        .path.display()
    )]
    OtherRun {
        /// Path to the checkpoint.
        path: PathBuf,
        /// Name of the first value that differs, such as `config.optimizer.lr`.
        name: String,
        /// Value in the checkpoint.
        saved: String,
        /// Value in the resumed run.
        now: String,
    },

    /// The crate `gpt` returned this error.
    #[error(transparent)]
    Gpt(#[from] GptError),
    /// A model folder or a safetensors file can't be read or written.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The data can't be read.
    #[error(transparent)]
    DataLoader(#[from] DataLoaderError),
}

impl TrainError {
    /// Returns whether all processes (ranks) that share a training run return this error at the
    /// same time. If this method returns false, the error occurred on a single rank, and the other
    /// ranks may still be waiting for that rank.
    pub fn is_common(&self) -> bool {
        matches!(
            self,
            Self::OnRank { .. }
                | Self::NotFinite { .. }
                | Self::Config { .. }
                | Self::RanksDiffer { .. }
        )
    }

    pub(crate) fn config(
        name: &'static str,
        value: impl Into<f64>,
        expected: impl Into<String>,
    ) -> Self {
        let (value, expected) = (value.into(), expected.into());
        Self::Config {
            name,
            value,
            expected,
        }
    }

    /// Checks that a setting is finite and not negative.
    pub(crate) fn check_not_negative(name: &'static str, value: f64) -> Result<(), Self> {
        match value >= 0.0 && value.is_finite() {
            true => Ok(()),
            false => Err(Self::config(
                name,
                value,
                "a finite number that is at least 0",
            )),
        }
    }

    pub(crate) fn damaged(path: impl Into<PathBuf>, problem: impl Into<String>) -> Self {
        let (path, problem) = (path.into(), problem.into());
        Self::Damaged { path, problem }
    }

    /// Returns a function that adds a path and an action to an I/O error. Use it as in
    /// `.map_err(TrainError::io(path, "read"))`.
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| FileError::at(path, action)(source).into()
    }

    /// Returns a function that converts a JSON error to [`TrainError::Damaged`]. Use it as in
    /// `.map_err(TrainError::json(path))`.
    pub(crate) fn json(path: &Path) -> impl FnOnce(serde_json::Error) -> Self {
        let path = path.to_owned();
        move |problem| Self::damaged(path, one_line(problem))
    }
}
