//! Commands for working on this project, run as `cargo xtask <COMMAND>`.

#![cfg_attr(
    test,
    allow(clippy::disallowed_methods, reason = "tests write files as they like")
)]
// Without the feature `pages`, some functions aren't used.
#![cfg_attr(not(feature = "pages"), allow(dead_code))]
// The descriptions of the options contain names of cells, such as "In [36]", which rustdoc mistakes
// for links.
#![allow(rustdoc::broken_intra_doc_links)]

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

/// Commands for working on this project
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Recompute the numbers that the book's notebooks print, and compare the results
    ///
    /// Numbers that aren't compared are listed with the reason.
    Verify(verify::Options),
    /// Print one of the book's notebooks, sections or cells with its Rust code
    Notebook(notebook::Options),
    /// Write the book's functions yourself and have them checked
    Practice(practice::Options),
    /// Check this project's rules that the compiler and Clippy don't enforce
    Tidy,
    /// Compare the speed of this project with PyTorch, nanoGPT, transformers and llama.cpp
    #[command(disable_help_flag = true)]
    Bench {
        /// Arguments of the benchmark (`cargo xtask bench --help` lists them)
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

/// Builds and runs the package `bench`. It is a separate package so that the other commands of
/// xtask don't have to build it.
fn bench(arguments: &[OsString]) -> anyhow::Result<()> {
    let mut bench = workspace::cargo(
        "run --release --package bench",
        &workspace::root(),
        arguments,
    );
    workspace::run(&mut bench)?;
    Ok(())
}
