//! The project's own checks, run as `cargo xtask <command>`; `main` is one match over the commands.

use std::ffi::OsString;
use std::process::{self, ExitCode};

use anyhow::{Context, ensure};
use clap::{Parser, Subcommand};

mod golden_doc;
mod mutants;
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
    /// Recompute every printed figure of the documents and compare it.
    Verify(verify::Options),
    /// Write docs/golden.md from the table of figures.
    GoldenDoc,
    /// Check the layers, file headers and other house rules.
    Tidy,
    /// Change one constant at a time and show that a named case fails.
    Mutants(mutants::Options),
    /// Measure our speed beside that of PyTorch and transformers.
    #[command(disable_help_flag = true)]
    Bench {
        /// As `cargo xtask bench --help` lists them
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<OsString>,
    },
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Verify(options) => verify::run(&options),
        Command::GoldenDoc => golden_doc::write(),
        Command::Tidy => tidy::run(),
        Command::Mutants(options) => mutants::run(&options),
        Command::Bench { arguments } => bench(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

/// Builds and runs the package `bench`, which no other command needs.
fn bench(arguments: &[OsString]) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = process::Command::new(cargo)
        .args(["run", "--release", "--package", "bench", "--manifest-path"])
        .arg(workspace::root().join("Cargo.toml"))
        .arg("--")
        .args(arguments)
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "the bench failed: {status}");
    Ok(())
}
