//! The command-line program `gpt`, which trains, evaluates, converts and inspects GPT models, and
//! generates text with them.
//!
//! The module `args` defines the command line, and each subcommand is implemented in the module of
//! the same name. Results are written to standard output, and notes and errors to standard error.
//! If a command fails, the error message is the last line on standard error.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests write files as they like")
)]
#![forbid(unsafe_code)]

mod args;
mod convert;
mod eval;
mod generate;
mod info;
mod inspect;
mod model;
mod mpi;
mod terminal;
mod tokenize;
mod train;

use std::process::ExitCode;

use clap::FromArgMatches;
use clap_complete::Shell;

use args::{Cli, Command};
use terminal::{failure, interrupt, output, threads};

/// Prints the completion script of a shell.
fn completions(shell: Shell) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut args::command(), "gpt", &mut script);
    Ok(output::print(String::from_utf8(script)?)?)
}

fn main() -> ExitCode {
    let args = args::with_dashes(std::env::args_os());
    let matches = args::command().try_get_matches_from(&args);
    let cli = match matches.and_then(|matches| Cli::from_arg_matches(&matches)) {
        Ok(cli) => cli,
        Err(error) => return failure::usage(&error),
    };
    let outlives = interrupt::outlive_large_files();
    // Starts the threads for commands without a `--threads` option.
    let pool = || threads::use_threads(None, 1);
    let done = match cli.command {
        Command::Train(train) => train::run(&train, &args[2..]),
        Command::Generate(args) => generate::run(&args),
        Command::Eval(args) => eval::run(&args),
        Command::Tokenize(args) => pool().and_then(|()| tokenize::run(&args)),
        Command::Info(args) => pool().and_then(|()| info::run(&args)),
        Command::Convert(args) => pool().and_then(|()| convert::run(&args)),
        Command::Inspect(args) => inspect::run(&args),
        Command::Completions { shell } => completions(shell),
    };
    let done = outlives.map_err(Into::into).and(done);
    match done.and_then(|()| output::check_written()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure::failure(&error),
    }
}
