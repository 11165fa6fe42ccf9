//! A run's folder with forged manifests: checkpoints that are damaged or not there, that count as
//! other saves, or have the manifests of others.
//!
//! Opening a run keeps its newest whole checkpoint; resuming and saving adds a newer one; no file
//! of another program is deleted, and every error is one line.
//! Input: of each of three checkpoints what is done to it and the number of its save (two bytes
//! each).

#![no_main]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::LazyLock;

use fuzz::run::{Files, MODEL, config, files_of_a_run, loader, unless_refused, write};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use train::runs::{read_settings, steps_of};
use train::{RunFolder, TrainConfig, Trainer, latest_checkpoint};

/// The three that are there.
const NAMES: [&str; 3] = ["step-00000001", "step-00000002", "step-00000003"];

const THEIRS: &str = "checkpoints/theirs/thesis.txt";

/// A run of three steps, as files; and a folder to spoil.
static GOOD: LazyLock<(TempDir, Files)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let mut files = files_of_a_run(&folder.path().join("run"), 3);
    files.insert(THEIRS.to_owned(), b"theirs".to_vec());
    (folder, files)
});

fuzz_target!(|bytes: &[u8]| {
    let Some(input) = bytes.first_chunk::<6>() else {
        return;
    };
    let (folder, good) = &*GOOD;
    let mut files = good.clone();
    let mut whole = Vec::new();
    for (step, &[damage, number]) in NAMES.iter().zip(input.as_chunks::<2>().0) {
        let path = |file: &str| format!("checkpoints/{step}/{file}");
        let manifest = files.get_mut(&path("manifest.json")).expect("it is there");
        let text = String::from_utf8(manifest.clone()).expect("it is text");
        let (before, rest) = text.split_once("\"number\": ").expect("a number");
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        *manifest = format!("{before}\"number\": {number}{rest}").into_bytes();
        let mut tear = |file: &str| {
            let bytes = files.get_mut(&path(file)).expect("it is there");
            bytes.truncate(bytes.len() / 2);
        };
        match damage % 6 {
            0 => whole.push((number, *step)),
            1 => tear("model.safetensors"),
            2 => tear("manifest.json"),
            3 => drop(files.remove(&path("state.json"))),
            4 => files.retain(|name, _| !name.starts_with(&path(""))),
            _ => {
                // Another checkpoint's manifest: its step is not this folder's.
                let other = if *step == NAMES[0] {
                    NAMES[1]
                } else {
                    NAMES[0]
                };
                let other = good[&format!("checkpoints/{other}/manifest.json")].clone();
                files.insert(path("manifest.json"), other);
            }
        }
    }
    let newest_whole = whole.into_iter().max().map(|(_, step)| step);
    let run = folder.path().join("run");
    write(&run, &files);
    let steps = go_on(&run);
    assert!(run.join(THEIRS).exists(), "a foreign file was deleted");
    match (steps, newest_whole) {
        (Some(steps), _) => {
            let newest = latest_checkpoint(&run).expect("it was just saved");
            assert_eq!(steps_of(newest), Some(steps));
        }
        (None, Some(step)) => {
            let weights = run.join("checkpoints").join(step).join("model.safetensors");
            assert!(weights.exists(), "{step}, the newest whole one, is gone");
        }
        (None, None) => {}
    }
});

/// Opens the run, resumes its newest checkpoint, and saves a next one, which alone is kept; returns
/// its steps.
fn go_on(run: &Path) -> Option<u64> {
    let folder = unless_refused(RunFolder::open(run))?;
    let checkpoint = unless_refused(latest_checkpoint(run))?;
    unless_refused(read_settings(&checkpoint))?;
    let steps = 1 + steps_of(&checkpoint)?;
    let config = TrainConfig {
        keep: 1,
        ..config(steps)
    };
    let resumed = Trainer::resume(checkpoint, config, MODEL, loader(), None);
    let mut trainer = unless_refused(resumed)?;
    let run = trainer.run(Some(&folder), &mut |_| ControlFlow::Continue(()));
    unless_refused(run)?;
    Some(steps)
}
