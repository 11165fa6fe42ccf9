//! Implements `gpt train`, which trains a model and saves it in the folder of the training run. The
//! command also shows a progress bar, writes a log, generates samples, and draws the loss curve.
//!
//! The training loop itself is in the crate `train`.

mod arguments;
pub(crate) mod choice;
mod data;
pub(crate) mod flags;
pub(crate) mod log;
mod options;
mod plot;
mod progress;
mod resume;
mod run;
pub(crate) mod runs;
mod setup;
mod start;
mod summary;
mod tokenizer;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Result;
use train::{RunFolder, Trainer};

pub(crate) use options::TrainArgs;
use setup::{Setup, set_up};

use crate::model::ids::is_stdin;
use crate::mpi::group::ProcessGroup;
use crate::terminal::failure::misused;
use crate::terminal::threads::use_threads;

/// Runs `gpt train`. `words` contains the command-line arguments from which `args` was parsed.
pub(crate) fn run(args: &TrainArgs, words: &[OsString]) -> Result<()> {
    let world = ProcessGroup::join()?;
    let done = train(args, words, &world);
    world.leave(done)
}

/// A training run that is ready for its next step.
struct StartedRun {
    setup: Setup,
    trainer: Trainer,
    /// Folder of a resumed run, which this process has locked, so that no other process can train
    /// in it. It is `None` for a new run, whose folder is created later. It is also `None` on all
    /// MPI ranks except the first, because only the first rank saves checkpoints.
    folder: Option<RunFolder>,
    /// Folder that `--out-dir` requests for a new run.
    out_dir: Option<PathBuf>,
}

fn train(args: &TrainArgs, words: &[OsString], world: &ProcessGroup) -> Result<()> {
    let started = begin(args, words, world);
    let mut started = world.all(started)?;
    // Checks that all MPI ranks (processes) were started with the same options. Two kinds of
    // options may differ: paths, because the data may be stored in different places on different
    // machines, and `--threads`. Instead, `Trainer::share` compares the training data itself, and
    // `ProcessGroup::agree` compares the number of threads that each rank actually uses.
    let mut options = started.setup.options.table()?;
    options.retain(|name, _| !["data", "init_from", "threads"].contains(&name));
    options.insert("resume".to_owned(), args.resume.is_some().into());
    world.agree(&options)?;
    if let Some(ranks) = world.ranks() {
        started.trainer = world.common(started.trainer.share(ranks.clone()))?;
    }
    #[cfg(feature = "mpi")]
    let began = std::time::Instant::now();
    #[cfg(feature = "mpi")]
    if args.verbose {
        world.introduce();
    }
    // `run::run` creates the folder of a new run. It is called only after all ranks have read the
    // training data, so that an error in the data doesn't leave an empty folder behind.
    run::run(started, world)?;
    #[cfg(feature = "mpi")]
    if args.verbose {
        world.tell_traffic(began.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Starts the thread pool, reads the options, the training data and the base model, and creates the
/// trainer.
fn begin(args: &TrainArgs, words: &[OsString], world: &ProcessGroup) -> Result<StartedRun> {
    if args.resume.is_some() && args.options.out_dir.is_some() {
        return misused(
            "--out-dir can't be used with --resume, because a resumed run stays in its own folder",
        );
    }
    let file = args.config.as_deref().map(arguments::of_file).transpose()?;
    let words = [&file.unwrap_or_default(), words].concat();
    let stated = arguments::read(&[&words])?;
    use_threads(stated.threads, world.on_this_machine())?;
    let source = match &args.resume {
        None => start::source(&words, &stated)?,
        Some(named) => {
            let named = named.as_ref().or(stated.out_dir.as_ref());
            resume::source(named, &words, world.is_first())?
        }
    };
    if world.ranks().is_some() && source.options.data.as_deref().is_some_and(is_stdin) {
        return misused(
            "--data -: only one of the MPI processes can read standard input; use a file instead",
        );
    }
    let setup = set_up(source.options, source.base)?;
    Ok(StartedRun {
        trainer: start::trainer(&setup, source.weights, source.began_with.as_deref())?,
        folder: source.folder,
        setup,
        out_dir: stated.out_dir,
    })
}
