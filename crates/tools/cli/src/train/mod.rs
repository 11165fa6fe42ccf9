//! `gpt train`: options, data and model to a run in a folder, with a bar, a log, samples and a loss curve.
//!
//! The loop itself is the crate `train`'s; here is what people see of it.

pub(crate) mod config_file;
mod data;
pub(crate) mod log;
mod options;
pub(crate) mod plot;
mod progress;
mod resume;
pub(crate) mod run;
mod settings;
pub(crate) mod start;
mod summary;
mod tokenizer;

use std::path::PathBuf;

use anyhow::Result;
use clap::{ArgMatches, Args};

use config_file::Said;
use options::TrainOptions;

use crate::ranks::World;

/// Examples under the help.
const EXAMPLES: &str = "\
Examples:
  gpt train                                     a small model on a short story, half a minute
  gpt train --data book.txt --max-steps 2000    your own text
  gpt train --tokenizer chars --data book.txt   a model of characters
  gpt train --preset gpt2-124m --data DIR       GPT-2's smallest size on train.bin and val.bin
  gpt train --config my.toml --seed 7           options from a file, flags win
  gpt train --resume                            go on with the newest run

Ctrl-C finishes the step, saves, and says how to go on.";

/// The examples of a build with MPI.
#[cfg(feature = "mpi")]
const MPI_EXAMPLES: &str = "

Several processes, on one machine or many, which share out the batches of a step:
  mpirun -n 4 gpt train --gradient-accumulation-steps 8
The result is bit for bit that of one process; docs/distributed.md says more.";
#[cfg(not(feature = "mpi"))]
const MPI_EXAMPLES: &str = "";

/// The command line of `gpt train`.
#[derive(Args, Debug)]
#[command(after_help = format!("{EXAMPLES}{MPI_EXAMPLES}"))]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    options: TrainOptions,
    /// Options from a file: each key is a flag's name [flags win]
    #[arg(long, value_name = "FILE.toml", help_heading = "Run")]
    config: Option<PathBuf>,
    /// Go on with a run as if it had never stopped [default: the newest in runs/, or --out-dir]
    #[arg(long, value_name = "DIR", num_args = 0..=1, help_heading = "Run")]
    resume: Option<Option<PathBuf>>,
    /// Print what happens as JSON, one object per line, as log.jsonl has it
    #[arg(long, help_heading = "Run")]
    json: bool,
    /// Say what each of mpirun's processes is at the start, and what they exchanged at the end
    #[cfg(feature = "mpi")]
    #[arg(short, long, help_heading = "Run")]
    verbose: bool,
}

/// Trains; `flags` is what clap read for this subcommand.
pub(crate) fn run(args: &TrainArgs, flags: &ArgMatches) -> Result<()> {
    let world = World::join()?;
    let done = run_in(args, flags, &world);
    world.leave(done)
}

fn run_in(args: &TrainArgs, flags: &ArgMatches, world: &World) -> Result<()> {
    let file = args.config.as_deref();
    let said = Said { file, flags };
    let options = world.all(options(&said, world))?;
    world.agree(facts(&options)?)?;
    let started = world.all(started(args, &said, options, world))?;
    let started = started.share(world)?;
    #[cfg(feature = "mpi")]
    let began = std::time::Instant::now();
    #[cfg(feature = "mpi")]
    if args.verbose {
        world.introduce();
    }
    run::run(started, args.json, world)?;
    #[cfg(feature = "mpi")]
    if args.verbose {
        world.tell_traffic(began.elapsed().as_secs_f64());
    }
    Ok(())
}

fn options(said: &Said<'_>, world: &World) -> Result<TrainOptions> {
    let options = said.over(TrainOptions::default())?;
    crate::threads::use_threads_beside(options.threads, world.on_this_machine())?;
    Ok(options)
}

fn started(
    args: &TrainArgs,
    said: &Said<'_>,
    options: TrainOptions,
    world: &World,
) -> Result<start::Started> {
    match resume::folder(args.resume.as_ref(), &options)? {
        Some(folder) => resume::resume(&folder, said, world.is_first()),
        None => start::start(options, world.is_first()),
    }
}

/// The options that must be the same on all ranks; paths may differ, what is read there may not.
fn facts(options: &TrainOptions) -> Result<Vec<(String, String)>> {
    let options = config_file::to_json(options)?.into_iter();
    Ok(options
        .filter(|(key, _)| !["data", "init_from", "out_dir", "threads"].contains(&key.as_str()))
        .map(|(key, value)| (format!("--{}", key.replace('_', "-")), value.to_string()))
        .collect())
}
