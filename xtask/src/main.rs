//! The project's own checks, run as `cargo xtask <command>`; `main` is one match over the commands.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod notebook;
mod tidy;
mod verify;
mod workspace;

/// Training asks for the same large blocks in every step.
#[global_allocator]
static ALLOCATOR: tensor_ops::KeptBlocks = tensor_ops::KeptBlocks::new();

/// The project's own checks.
#[derive(Parser)]
#[command(name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Recompute every figure that the book's notebooks print, and compare it.
    Verify(verify::Options),
    /// Print a notebook, a section or a cell as the book does, with the code in Rust.
    Notebook(notebook::Options),
    /// Check the layers, links and other house rules.
    Tidy,
    /// Measure our speed beside that of PyTorch and transformers.
    Bench(bench::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Verify(options) => verify::run(&options),
        Command::Notebook(options) => notebook::run(&options),
        Command::Tidy => tidy::run(),
        Command::Bench(options) => bench::run(&options),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
