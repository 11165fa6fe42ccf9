//! `gpt train`: options, data and model to a run in a folder, with a bar, a log, samples and a loss
//! curve.
//!
//! The crate `train` has the loop; this is its presentation.

mod choice;
mod data;
pub(crate) mod log;
mod options;
mod plot;
pub(crate) mod presets;
mod progress;
mod resume;
mod run;
pub(crate) mod runs;
mod setup;
mod start;
mod summary;
mod tokenizer;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use toml::Table;
use train::{RunFolder, Trainer};

use options::{ParsedOptions, merge};
use setup::{Setup, set_up};

use crate::mpi::group::ProcessGroup;
use crate::terminal::threads::use_threads;

/// Examples under the help.
const EXAMPLES: &str = "\
Examples:
  gpt train                                    a small model on a short story
  gpt train --data book.txt --max-steps 2000   your own text
  gpt train --resume                           resume the newest run

Ctrl-C finishes the step, saves, and prints the command to resume.
nanoGPT's names work, too: --max-iters --lr --n-layer --n-head --n-embd
--block-size --dropout";

/// The examples of a build with MPI.
#[cfg(feature = "mpi")]
const MPI_EXAMPLES: &str = "

Several processes share out the batches of a step, to the same bits:
  mpirun -n 4 gpt train --gradient-accumulation-steps 8";
#[cfg(not(feature = "mpi"))]
const MPI_EXAMPLES: &str = "";

/// The command line of `gpt train`.
#[derive(Args, Debug)]
#[command(after_help = format!("{EXAMPLES}{MPI_EXAMPLES}"))]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    flags: ParsedOptions,
    /// Options from a file, by the flags' names; flags win
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
    /// Resume a run [default: the newest]
    #[arg(long, value_name = "DIR", num_args = 0..=1, conflicts_with = "out_dir")]
    resume: Option<Option<PathBuf>>,
    /// List each of mpirun's processes at the start, and their exchanged bytes at the end
    #[cfg(feature = "mpi")]
    #[arg(short, long, help_heading = "Run")]
    verbose: bool,
}

pub(crate) fn run(args: &TrainArgs) -> Result<()> {
    let world = ProcessGroup::join()?;
    let done = train(args, &world);
    world.leave(done)
}

/// A run before its next step.
struct StartedRun {
    setup: Setup,
    trainer: Trainer,
    /// The folder of a run that is resumed, on the rank that saves.
    folder: Option<RunFolder>,
    /// The folder that a new run asks for.
    out_dir: Option<PathBuf>,
}

fn train(args: &TrainArgs, world: &ProcessGroup) -> Result<()> {
    let started = begin(args, world);
    let mut started = world.all(started)?;
    // Paths may differ between machines; contents may not.
    let mut options = Table::try_from(&started.setup.options)?;
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
    run::run(started, world)?; // nothing is written before all ranks have their data
    #[cfg(feature = "mpi")]
    if args.verbose {
        world.tell_traffic(began.elapsed().as_secs_f64());
    }
    Ok(())
}

/// Reads the options, the data and the model; starts the threads.
fn begin(args: &TrainArgs, world: &ProcessGroup) -> Result<StartedRun> {
    let flags = &args.flags;
    let file = args
        .config
        .as_deref()
        .map(ParsedOptions::read)
        .transpose()?;
    let file = file.unwrap_or_default();
    let threads = flags.threads().or(file.threads());
    use_threads(threads, world.on_this_machine())?;
    let parsed = merge(&flags.table()?, file.table()?);
    let out_dir = flags.out_dir().or(file.out_dir()).cloned();
    let source = match &args.resume {
        None => start::source(&parsed)?,
        Some(named) => resume::source(
            named.as_ref().or(out_dir.as_ref()),
            &parsed,
            world.is_first(),
        )?,
    };
    let setup = set_up(source.options, source.base)?;
    Ok(StartedRun {
        trainer: start::trainer(&setup, source.weights, source.began_with.as_deref())?,
        folder: source.folder,
        setup,
        out_dir,
    })
}
