//! The project's own checks, run as `cargo xtask <command>`; `main` is one match over the commands.

use std::process::ExitCode;

use clap::{Parser, Subcommand};

mod bench;
mod golden_doc;
mod mutants;
mod tidy;
mod verify;
mod workspace;

/// Training asks for the same large blocks in every step.
#[global_allocator]
static ALLOCATOR: caching_alloc::CachingAllocator = caching_alloc::CachingAllocator::new();

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
    Bench(bench::Options),
}

fn main() -> ExitCode {
    let result = match Arguments::parse().command {
        Command::Verify(options) => verify::run(&options),
        Command::GoldenDoc => golden_doc::write(),
        Command::Tidy => tidy::run(),
        Command::Mutants(options) => mutants::run(&options),
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
