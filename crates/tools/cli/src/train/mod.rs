//! `gpt train`: options, data and model to a run in a folder, with a bar, a log, samples and a loss
//! curve.
//!
//! The loop itself is the crate `train`'s; here is what people see of it.

mod data;
mod flags;
mod log;
mod options;
mod plot;
mod progress;
mod resume;
mod run;
mod setup;
mod start;
mod summary;
mod tokenizer;

use std::path::PathBuf;

use anyhow::Result;
use clap::Args;
use toml::Table;

use flags::TrainFlags;
use options::over;

use crate::presets::{FINE_TUNING, PRESETS};
use crate::ranks::World;
use crate::threads::use_threads;

/// Examples under the help.
const EXAMPLES: &str = "\
Examples:
  gpt train                                    a small model on a short story
  gpt train --data book.txt --max-steps 2000   your own text
  gpt train --tokenizer chars --data book.txt  a model of characters
  gpt train --preset gpt2-124m --data DIR      GPT-2's smallest size, train.bin
  gpt train --config my.toml --seed 7          options from a file, flags win
  gpt train --resume                           go on with the newest run

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
#[command(after_help = format!("{EXAMPLES}{MPI_EXAMPLES}\n\n{}", presets()))]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    flags: TrainFlags,
    /// Options from a file: each key is a flag's name [flags win]
    #[arg(long, value_name = "FILE.toml")]
    config: Option<PathBuf>,
    /// Go on with a run as if it had never stopped [default: the newest in runs/, or --out-dir]
    #[arg(long, value_name = "DIR", num_args = 0..=1)]
    resume: Option<Option<PathBuf>>,
    /// Print what happens as JSON, one object per line, as log.jsonl has it
    #[arg(long, help_heading = "Run")]
    json: bool,
    /// Say what each of mpirun's processes is at the start, and what they exchanged at the end
    #[cfg(feature = "mpi")]
    #[arg(short, long, help_heading = "Run")]
    verbose: bool,
}

pub(crate) fn run(args: &TrainArgs) -> Result<()> {
    let world = World::join()?;
    let done = run_in(args, &world);
    world.leave(done)
}

/// A table of the presets' sizes and settings.
fn presets() -> String {
    let mut table = String::from(
        "Presets:       layers heads features context  windows  steps warmup  highest rate\n",
    );
    let from_weights = ("--init-from", None, FINE_TUNING);
    let named = PRESETS.map(|preset| (preset.name(), Some(preset.model), preset.training));
    for (name, model, training) in named.into_iter().chain([from_weights]) {
        let shape = model.map_or(String::from("as it was"), |model| {
            let [layers, heads] = [model.n_layers, model.n_heads];
            let [features, context] = [model.emb_dim, model.context_length];
            format!("{layers:>6} {heads:>5} {features:>8} {context:>7}")
        });
        let [windows, steps] = [training.batch_size, training.max_steps];
        let (warmup, rate) = (training.warmup_steps, training.learning_rate);
        table +=
            &format!("  {name:<13}{shape:<29} {windows:>8} {steps:>6} {warmup:>6} {rate:>13}\n");
    }
    table
}

fn run_in(args: &TrainArgs, world: &World) -> Result<()> {
    let (said, out_dir) = world.all(said(args, world))?;
    // Paths may differ between machines; what is read there may not.
    let may_differ = ["data", "init_from", "threads"];
    let same = said
        .iter()
        .filter(|(name, _)| !may_differ.contains(&name.as_str()));
    let same =
        same.map(|(name, value)| (format!("--{}", name.replace('_', "-")), value.to_string()));
    let folder = world.all(resume::folder(args.resume.as_ref(), out_dir.as_deref()))?;
    let resumes = ("--resume".to_owned(), folder.is_some().to_string());
    world.agree(same.chain([resumes]).collect())?;
    let started = match folder {
        Some(folder) => resume::resume(&folder, &said, world.is_first()),
        None => {
            // Nothing is written before all ranks have what they train on.
            let setup = world.all(start::set_up_new(&said))?;
            start::start(setup, out_dir.as_deref(), world.is_first())
        }
    };
    let started = world.all(started)?.share(world)?;
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

/// The options of the flags over those of the file, and the run's folder; starts the threads.
fn said(args: &TrainArgs, world: &World) -> Result<(Table, Option<PathBuf>)> {
    let flags = &args.flags;
    let file = args.config.as_deref().map(TrainFlags::read).transpose()?;
    let file = file.unwrap_or_default();
    use_threads(flags.threads.or(file.threads), world.on_this_machine())?;
    let out_dir = flags.out_dir.clone().or(file.out_dir.clone());
    Ok((over(&flags.table()?, file.table()?), out_dir))
}
