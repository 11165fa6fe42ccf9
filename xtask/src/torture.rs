//! `cargo xtask torture`: the long forms of the tests that attack `gpt` and a run, with the figures
//! of docs/reliability.md.
//!
//! What they try, and what they count as a fault, is in `crates/tools/cli/tests/torture` and
//! `crates/train/tests/kill.rs`.

use clap::Args;

use crate::workspace::cargo;

#[derive(Args)]
pub(crate) struct Options {
    /// How often a training process is killed at a random moment.
    #[arg(long, value_name = "N", default_value_t = 1000)]
    kills: u32,
}

pub(crate) fn run(options: &Options) -> anyhow::Result<()> {
    let kills = options.kills.to_string();
    for (package, test, variable) in [
        ("cli", "torture", ("TORTURE", "1")),
        ("train", "kill", ("TRAIN_KILLS", kills.as_str())),
    ] {
        let test = ["test", "--locked", "--package", package, "--test", test];
        cargo(&test, &[variable], &["--nocapture".into()])?;
    }
    Ok(())
}
