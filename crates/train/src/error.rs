//! Everything that training refuses or stops at, with the offending name and numbers.

use std::io;
use std::path::{Path, PathBuf};

use atomic_file::FileError;
use checkpoint::{CheckpointError, one_line};
use dataloader::DataLoaderError;
use gpt::GptError;
use tensor_ops::UnsupportedDtype;
use thiserror::Error;

/// An error in beginning, continuing, saving or resuming a run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A setting outside its range.
    #[error("{name} must be {expected}, but is {value}")]
    Config {
        /// The setting.
        name: &'static str,
        /// Its value.
        value: f64,
        /// Its range.
        expected: String,
    },
    /// A number format that models aren't trained in.
    #[error("dtype: {0}")]
    Dtype(#[from] UnsupportedDtype),
    /// A loss or a gradient is NaN or infinite. One of a step leaves the weights as they were
    /// before it.
    #[error(
        "the {what} is {value}; set lr below {learning_rate:e}, use warmup_steps, or clip with \
        max_grad_norm 1"
    )]
    NotFinite {
        /// "loss of step 3", counted from 1, or "validation loss after step 3".
        what: String,
        /// NaN or an infinity.
        value: f64,
        /// The learning rate of the last step, or of the first if there was none.
        learning_rate: f64,
    },

    /// An error of another process, or of this one's share of common work.
    #[error("rank {rank}: {source}")]
    OnRank {
        /// Which of the processes, counted from 0.
        rank: usize,
        /// The error there.
        source: Box<TrainError>,
    },
    /// Processes that would train different things.
    #[error("rank {rank} differs from rank 0 in {name}: {other} there, {first} here")]
    RanksDiffer {
        /// In what.
        name: String,
        /// Which process, counted from 0.
        rank: usize,
        /// Its value.
        other: String,
        /// Rank 0's value.
        first: String,
    },

    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] FileError),
    /// Another run is writing there.
    #[error("{}: another run is using this folder", .path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// This process no longer owns the folder that it opened.
    #[error(
        "{}: this process no longer owns the run's folder: it was renamed or deleted, or another \
        process resumed the run; this one ends here and writes nothing more",
        .path.display()
    )]
    FolderLost {
        /// The path.
        path: PathBuf,
    },
    /// Nothing to resume.
    #[error("{}: no checkpoint found", .path.display())]
    NoCheckpoint {
        /// The folder.
        path: PathBuf,
    },
    /// A file that was changed or cut, is of another version, or no JSON.
    #[error("{}: {problem}", .path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The fault.
        problem: String,
    },
    /// A checkpoint of a run with other settings, another model or other data: it can't be
    /// continued as if it had never stopped.
    #[error(
        "{}: {name} is {saved} in the checkpoint, but {now} now; resume with the same settings and data",
        .path.display()
    )]
    OtherRun {
        /// The checkpoint.
        path: PathBuf,
        /// The setting, or the part of the data: `config.optimizer.lr`.
        name: String,
        /// Its value in the checkpoint.
        saved: String,
        /// Its value now.
        now: String,
    },

    /// The model refused.
    #[error(transparent)]
    Gpt(#[from] GptError),
    /// A model or tensor file.
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    /// The data.
    #[error(transparent)]
    DataLoader(#[from] DataLoaderError),
}

impl TrainError {
    /// True if all ranks of a shared run have this error at the same moment; other errors are those
    /// of one rank, which the others wait for.
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

    /// Checks that a setting is a finite number of at least 0.
    pub(crate) fn check_not_negative(name: &'static str, value: f64) -> Result<(), Self> {
        match value >= 0.0 && value.is_finite() {
            true => Ok(()),
            false => Err(Self::config(name, value, "a finite number of at least 0")),
        }
    }

    pub(crate) fn damaged(path: impl Into<PathBuf>, problem: impl Into<String>) -> Self {
        let (path, problem) = (path.into(), problem.into());
        Self::Damaged { path, problem }
    }

    /// `.map_err(TrainError::io(path, "read"))`
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| FileError::at(path, action)(source).into()
    }

    /// `.map_err(TrainError::json(path))`
    pub(crate) fn json(path: &Path) -> impl FnOnce(serde_json::Error) -> Self {
        let path = path.to_owned();
        move |problem| Self::damaged(path, one_line(problem))
    }
}
