//! The command `gpt`: one match, one file per subcommand.
//!
//! Standard output holds what was asked for, standard error everything else; a failure is one line.

#![forbid(unsafe_code)]

mod args;
mod convert;
mod eval;
mod failure;
mod generate;
mod ids;
mod info;
mod inspect;
mod interrupt;
mod logits;
mod manual;
mod memory;
mod model;
#[cfg(feature = "mpi")]
mod mpi;
mod numbers;
mod output;
mod presets;
mod ranks;
mod runs;
mod threads;
mod tokenize;
mod train;
mod vocabulary;

use std::process::ExitCode;

use clap::FromArgMatches;

use args::{Cli, Command};

/// Training and prompts ask for the same large blocks in every step.
#[global_allocator]
static ALLOCATOR: caching_alloc::CachingAllocator = caching_alloc::CachingAllocator::new();

fn main() -> ExitCode {
    let args = args::with_dashes(std::env::args_os());
    let parsed = args::command()
        .try_get_matches_from(args)
        .and_then(|matches| Ok((Cli::from_arg_matches(&matches)?, matches)));
    let (cli, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => return failure::usage(&error),
    };
    let (_, flags) = matches.subcommand().expect("clap asks for a subcommand");
    let done = match cli.command {
        Command::Train(args) => train::run(&args, flags),
        Command::Generate(args) => generate::run(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Tokenize(args) => tokenize::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Logits(args) => logits::run(&args),
        Command::Inspect(args) => inspect::run(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::man(&args),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::failure(&error),
    }
}
