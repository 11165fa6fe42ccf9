//! `gpt train`: options, data and model to a run in a folder, with a bar, a log, samples and a loss curve.
//!
//! The loop itself is the crate `train`'s; here is what people see of it.

pub(crate) mod config_file;
mod data;
mod interrupt;
pub(crate) mod log;
mod options;
pub(crate) mod plot;
mod progress;
mod resume;
mod run;
mod settings;
pub(crate) mod start;

use std::path::PathBuf;

use anyhow::Result;
use clap::{ArgMatches, Args};

use config_file::Said;
use options::TrainOptions;

/// Examples under the help.
const EXAMPLES: &str = "\
Examples:
  gpt train                                     a small model on a short story, about a minute
  gpt train --data book.txt --max-steps 2000    your own text
  gpt train --preset gpt2-124m --data DIR       GPT-2's smallest size on train.bin and val.bin
  gpt train --config my.toml --seed 7           options from a file, flags win
  gpt train --resume                            go on with the newest run

Ctrl-C finishes the step, saves, and says how to go on.";

/// The command line of `gpt train`.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub(crate) struct TrainArgs {
    #[command(flatten)]
    options: TrainOptions,
    /// Options from a file: each key is a flag's name [flags win]
    #[arg(long, value_name = "FILE.toml", help_heading = "Run")]
    config: Option<PathBuf>,
    /// Go on with a run as if it had never stopped [default: the newest in runs/, or --out-dir]
    #[arg(long, value_name = "DIR", num_args = 0..=1, help_heading = "Run")]
    resume: Option<Option<PathBuf>>,
}

/// Trains; `flags` is what clap read for this subcommand.
pub(crate) fn run(args: &TrainArgs, flags: &ArgMatches) -> Result<()> {
    let file = args.config.as_deref();
    let said = Said { file, flags };
    let options = said.over(TrainOptions::default())?;
    crate::threads::use_threads(options.threads)?;
    let started = match resume::folder(args.resume.as_ref(), &options)? {
        Some(folder) => resume::resume(&folder, &said)?,
        None => start::start(options)?,
    };
    run::run(started)
}
