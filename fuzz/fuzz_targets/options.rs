//! Reads arbitrary bytes as a file of options and as the log of a run. Reading must succeed or
//! return an error, and must not panic. If the options are valid, they must be the same after they
//! have been written and read again. Opening the log must not change its valid lines.
//!
//! The input consists of the length of the options (2 bytes), the options, and the log.
//!
//! The command `gpt` is a program without a library, so this target includes its modules by their
//! paths.

#![no_main]
#![allow(dead_code, unexpected_cfgs)] // This target doesn't use everything in these modules and doesn't have the command's features.

#[path = "../../crates/tools/cli/src/terminal"]
mod terminal {
    pub(crate) mod command;
    pub(crate) mod failure;
    pub(crate) mod memory;
    pub(crate) mod numbers;
    pub(crate) mod output;
    pub(crate) mod shell;
}

#[path = "../../crates/tools/cli/src/model"]
mod model {
    pub(crate) mod ids;
}

#[path = "../../crates/tools/cli/src/train"]
mod train {
    pub(crate) mod arguments;
    pub(crate) mod choice;
    pub(crate) mod log;
    pub(crate) mod options;
    pub(crate) mod runs;
}

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

use crate::train::arguments;
use crate::train::log::{self, Log};
use crate::train::options::TrainOptions;
use crate::train::runs::LOG;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

fuzz_target!(|bytes: &[u8]| {
    let (toml, log) = fuzz::take_block(bytes);
    let folder = FOLDER.path();
    let path = folder.join("options.toml");
    fs::write(&path, toml).expect("written");
    let read = || -> anyhow::Result<TrainOptions> {
        arguments::read(&[&arguments::of_file(&path)?])
    };
    match read() {
        Err(error) => drop(format!("{error:#}")),
        Ok(options) => {
            let text = toml::to_string(&options).expect("options have a form");
            fs::write(&path, &text).expect("written");
            let again = read().unwrap_or_else(|error| panic!("{text}: {error:#}"));
            assert_eq!(toml::to_string(&again).expect("options have a form"), text);
        }
    }

    fs::write(folder.join(LOG), log).expect("written");
    let lines = || -> Vec<log::Logged> {
        let text = log::read(folder).expect("a file").expect("a short one");
        log::lines(&text).collect()
    };
    let before = lines();
    Log::open(folder, u64::MAX).expect("a log that can be written");
    assert!(lines() == before, "a log changes as it is opened");
});
