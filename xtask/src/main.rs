//! The project's own commands, run as `cargo xtask <command>`.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests write files as they like")
)]
#![cfg_attr(not(feature = "pages"), allow(dead_code))] // some of all modules is for pages alone
#![allow(rustdoc::broken_intra_doc_links)] // help texts name cells, "In [36]"

use std::ffi::OsString;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod digits;
mod documents;
mod inputs;
mod notebook;
#[cfg(feature = "pages")]
mod page;
mod practice;
mod select;
mod tidy;
mod verify;
mod workspace;

/// The project's own checks.
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Recompute the figures that the book's notebooks print, and compare them; those left out are
    /// named.
    Verify(verify::Options),
    /// Print a notebook, a section or a cell as the book does, with the code in Rust.
    Notebook(notebook::Options),
    /// Write the book yourself: exercises, checked against its printed figures.
    Practice(practice::Options),
    /// Check the layers, links and other house rules.
    Tidy,
    /// Measure our speed beside PyTorch, nanoGPT, transformers and llama.cpp.
    #[command(disable_help_flag = true)]
    Bench {
        /// Arguments of the bench (`cargo xtask bench --help` lists them)
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Verify(options) => verify::run(&options),
        Command::Notebook(options) => notebook::run(&options),
        Command::Practice(options) => practice::run(&options),
        Command::Tidy => tidy::run(),
        Command::Bench { arguments } => bench(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if workspace::is_closed_output(&error) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Builds and runs the package `bench`, which no other command needs.
fn bench(arguments: &[OsString]) -> anyhow::Result<()> {
    let mut bench = workspace::cargo(
        "run --release --package bench",
        &workspace::root(),
        arguments,
    );
    workspace::run(&mut bench)?;
    Ok(())
}
