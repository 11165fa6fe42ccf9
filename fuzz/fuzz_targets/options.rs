//! Arbitrary bytes as a file of options and as a run's log: they are read or rejected without a
//! panic, and after reading they can be written and read again unchanged.
//!
//! Input: the length of the options (2 bytes), the options, and the log. `gpt` isn't a library: its
//! modules are included by their paths.

#![no_main]
#![allow(dead_code, unexpected_cfgs)] // parts of these modules that only `gpt` uses, and its features

#[path = "../../crates/tools/cli/src/failure.rs"]
mod failure;
#[path = "../../crates/tools/cli/src/hints.rs"]
mod hints;
#[path = "../../crates/tools/cli/src/ids.rs"]
mod ids;
#[path = "../../crates/tools/cli/src/memory.rs"]
mod memory;
#[path = "../../crates/tools/cli/src/numbers.rs"]
mod numbers;
#[path = "../../crates/tools/cli/src/output.rs"]
mod output;
#[path = "../../crates/tools/cli/src/presets.rs"]
mod presets;
#[path = "../../crates/tools/cli/src/runs.rs"]
mod runs;
#[path = "../../crates/tools/cli/src/text_settings.rs"]
mod text_settings;
#[path = "../../crates/tools/cli/src/threads.rs"]
mod threads;
#[path = "../../crates/tools/cli/src/vocabulary.rs"]
mod vocabulary;

#[path = "../../crates/tools/cli/src/train"]
mod train {
    mod choice;
    mod data;
    pub(crate) mod log;
    pub(crate) mod options;
    mod tokenizer;
}

use std::fs;
use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;

use crate::train::log::{self, Log};
use crate::train::options::{ParsedOptions, TrainOptions};
use runs::LOG;

static FOLDER: LazyLock<TempDir> = LazyLock::new(|| tempfile::tempdir().expect("a folder"));

fuzz_target!(|bytes: &[u8]| {
    let (toml, log) = fuzz::take(bytes);
    let folder = FOLDER.path();
    let path = folder.join("options.toml");
    fs::write(&path, toml).expect("written");
    let read = || -> anyhow::Result<TrainOptions> {
        TrainOptions::new(&ParsedOptions::read(&path)?.table()?, None)
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
