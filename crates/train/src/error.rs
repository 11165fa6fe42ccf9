//! Everything that training refuses or stops at, with the offending name and numbers.

use std::io;
use std::path::{Path, PathBuf};

use atomic_file::FileError;
use checkpoint::{CheckpointError, JsonProblem};
use dataloader::DataLoaderError;
use gpt::GptError;
use thiserror::Error;

/// A run that can't begin, go on, be saved or be resumed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum TrainError {
    /// A setting outside its range.
    #[error("{name} must be {expected}, but is {value}")]
    Config {
        /// The setting.
        name: &'static str,
        /// What it is.
        value: f64,
        /// Its range.
        expected: &'static str,
    },
    /// A warmup that fills the whole schedule.
    #[error(
        "total_steps must be more than warmup_steps, but total_steps is {total_steps} and warmup_steps is {warmup_steps}"
    )]
    ScheduleLength {
        /// Steps of the warmup.
        warmup_steps: u64,
        /// Steps of all.
        total_steps: u64,
    },
    /// The loss is NaN or infinite: the weights are those from before the step.
    #[error(
        "the loss of step {step} is {loss}: the weights have not been touched by this step; try a learning rate below {learning_rate:e}, a warmup, or clipping the gradient's norm to 1"
    )]
    NonFiniteLoss {
        /// The step, counted from 0.
        step: u64,
        /// NaN or an infinity.
        loss: f32,
        /// The learning rate of that step.
        learning_rate: f64,
    },
    /// The gradient is NaN or infinite though the loss is not: the weights are those from before
    /// the step.
    #[error(
        "the gradient of step {step} has norm {norm}: the weights have not been touched by this step; try a learning rate below {learning_rate:e} or a warmup"
    )]
    NonFiniteGradient {
        /// The step, counted from 0.
        step: u64,
        /// NaN or infinity.
        norm: f64,
        /// The learning rate of that step.
        learning_rate: f64,
    },
    /// The loss of an evaluation is NaN or infinite.
    #[error(
        "the {which} loss after step {steps_done} is {loss}; try a learning rate below {}, a warmup, or clipping the gradient's norm to 1",
        .learning_rate.map_or("that of the first step".to_owned(), |rate| format!("{rate:e}"))
    )]
    NonFiniteEvaluation {
        /// "training" or "validation".
        which: &'static str,
        /// Optimizer steps so far.
        steps_done: u64,
        /// NaN or an infinity.
        loss: f64,
        /// The learning rate of the last step, if there was one.
        learning_rate: Option<f64>,
    },

    /// What went wrong in another process than this one's, or in this one's share of common work.
    #[error("rank {rank}: {source}")]
    OnRank {
        /// Which of the processes, counted from 0.
        rank: usize,
        /// What went wrong there.
        source: Box<TrainError>,
    },
    /// More processes than there are batches in a step.
    #[error(
        "{ranks} ranks share out the batches of a step, so accumulation must be at least {ranks}, but is {accumulation}"
    )]
    MoreRanksThanBatches {
        /// The processes.
        ranks: usize,
        /// The batches.
        accumulation: u64,
    },
    /// Processes that would train different things.
    #[error("rank {rank} differs from rank 0 in {name}: {other} there, {first} here")]
    RanksDiffer {
        /// In what.
        name: String,
        /// Which process, counted from 0.
        rank: usize,
        /// What it has.
        other: String,
        /// What rank 0 has.
        first: String,
    },

    /// The operating system refused.
    #[error(transparent)]
    Io(#[from] FileError),
    /// A run is kept in a folder, and this is something else.
    #[error("{}: expected a folder to keep the run in, but it is a file", .path.display())]
    NotAFolder {
        /// The path.
        path: PathBuf,
    },
    /// Another run is writing there.
    #[error("{}: another run is using this folder", .path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
    },
    /// Nothing to resume.
    #[error("{}: there is no checkpoint here", .path.display())]
    NoCheckpoint {
        /// The folder.
        path: PathBuf,
    },
    /// A list of checkpoints that is ahead of them, and of none of which a whole one is there.
    #[error("{}: {checkpoint} is no whole checkpoint, and there is no other", .path.display())]
    NotWhole {
        /// The list.
        path: PathBuf,
        /// The newest that it names.
        checkpoint: String,
    },
    /// A file of a checkpoint is not as long as when it was written.
    #[error("{}: the manifest says {expected} bytes, but the file has {found}", .path.display())]
    Length {
        /// The file.
        path: PathBuf,
        /// As it was written.
        expected: u64,
        /// What there is.
        found: u64,
    },
    /// A file of a checkpoint was changed after it was written.
    #[error("{}: the manifest says SHA-256 {expected}, but the file's is {found}", .path.display())]
    Hash {
        /// The file.
        path: PathBuf,
        /// As it was written.
        expected: String,
        /// What it is now.
        found: String,
    },
    /// A file of a checkpoint that the manifest must name and doesn't.
    #[error("{}: the manifest does not name {file}", .path.display())]
    NotInManifest {
        /// The manifest.
        path: PathBuf,
        /// The file.
        file: &'static str,
    },
    /// A JSON file that is not what it should be.
    #[error("{}: {problem}", .path.display())]
    Json {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        problem: JsonProblem,
    },
    /// A checkpoint written by another version of this crate.
    #[error("{}: version {found}, this program reads version {expected}", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version this crate reads.
        expected: u32,
        /// The version found.
        found: u32,
    },
    /// A value that no run could have left in the state.
    #[error("{}: {what}", .path.display())]
    State {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: &'static str,
    },
    /// A checkpoint of a run with other settings: it can't be continued as if it had never stopped.
    #[error("{}: {name} is {saved} in the checkpoint, but {asked} was asked for", .path.display())]
    OtherConfig {
        /// The checkpoint.
        path: PathBuf,
        /// The setting.
        name: String,
        /// In the checkpoint.
        saved: String,
        /// Asked for.
        asked: String,
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
    /// Whether all ranks of a shared run meet this error at the same moment; other errors are those
    /// of one rank, which the others wait for.
    pub fn is_common(&self) -> bool {
        matches!(
            self,
            Self::OnRank { .. }
                | Self::NonFiniteGradient { .. }
                | Self::NonFiniteEvaluation { .. }
                | Self::MoreRanksThanBatches { .. }
                | Self::RanksDiffer { .. }
        )
    }

    pub(crate) fn config(
        name: &'static str,
        value: impl Into<f64>,
        expected: &'static str,
    ) -> Self {
        let value = value.into();
        Self::Config {
            name,
            value,
            expected,
        }
    }

    /// `.map_err(TrainError::io(path, "read"))`
    pub(crate) fn io(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| FileError::at(path, action)(source).into()
    }

    /// `.map_err(TrainError::json(path))`
    pub(crate) fn json(path: &Path) -> impl FnOnce(serde_json::Error) -> Self {
        let path = path.to_owned();
        move |problem| Self::Json {
            path,
            problem: problem.into(),
        }
    }
}
