//! `cargo xtask torture`: the long forms of the tests that attack `gpt` and a run, with the figures
//! of docs/reliability.md.
//!
//! What they try, and what they count as a fault, is in `crates/tools/cli/tests/torture` and
//! `crates/train/tests/kill.rs`.

use clap::Args;

use crate::workspace::{self, cargo, root};

#[derive(Args)]
pub(crate) struct Options {
    /// The number of times that a training process is killed at a random moment.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    kills: u32,

    /// Try every N-th case of the rest alone; docs/errors.md is written all the same.
    #[arg(long, value_name = "N", default_value_t = 1)]
    every: u32,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let [kills, every] = [options.kills, options.every].map(|n| n.to_string());
    for (package, test, variable, value) in [
        ("cli", "torture", "TORTURE", every),
        ("train", "kill", "TRAIN_KILLS", kills),
    ] {
        let test = format!("test --locked --package {package} --test {test}");
        let mut test = cargo(&test, &root(), &["--nocapture".into()]);
        workspace::run(test.env(variable, value))?;
    }
    Ok(())
}
