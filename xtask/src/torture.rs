//! `cargo xtask torture`: the long forms of the tests that attack `gpt` and a run, with the figures of docs/reliability.md.
//!
//! What they try, and what they count as a fault, is in `crates/tools/cli/tests/torture` and `crates/train/tests/kill.rs`.

use std::process::Command;

use anyhow::{Context, ensure};
use clap::Args;

use crate::workspace;

#[derive(Args)]
pub(crate) struct Options {
    /// How often a training process is killed at a random moment.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    kills: u32,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    cargo_test(&["--package=cli", "--test=torture"], ("TORTURE", "1"))?;
    let kills = options.kills.to_string();
    cargo_test(&["--package=train", "--test=kill"], ("TRAIN_KILLS", &kills))
}

fn cargo_test(what: &[&str], variable: (&str, &str)) -> anyhow::Result<()> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["test", "--locked", "--manifest-path"])
        .arg(workspace::root().join("Cargo.toml"))
        .args(what)
        .args(["--", "--nocapture"])
        .env(variable.0, variable.1)
        .status()
        .context("cannot start cargo")?;
    ensure!(status.success(), "{}: {status}", what.join(" "));
    Ok(())
}
