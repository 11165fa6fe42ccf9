//! Resumes a run with three checkpoints, some of which are damaged, missing, have a different save
//! number, or contain another checkpoint's manifest.
//!
//! The newest intact checkpoint must never be deleted unless a newer one has been saved. If the run
//! can be resumed, training another step must save a newer checkpoint. Files that don't belong to
//! the run must never be deleted, and every error message must be a single line.
//!
//! The input consists of 2 bytes for each checkpoint: what is done to it, and its save number.

#![no_main]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::LazyLock;

use fuzz::run::{Files, MODEL, config, train_and_read_files, loader, accepted, write};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use train::read_settings;
use train::runs::steps_of;
use train::{RunFolder, TrainConfig, Trainer, latest_checkpoint};

/// Names of the folders of the checkpoints.
const FOLDERS: [&str; 3] = ["step-00000001", "step-00000002", "step-00000003"];

const FOREIGN_FILE: &str = "checkpoints/foreign/thesis.txt";

/// The temporary folder, and the files of a valid run of three steps, including a file that doesn't
/// belong to it.
static VALID_RUN: LazyLock<(TempDir, Files)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let mut files = train_and_read_files(&folder.path().join("run"), 3);
    files.insert(FOREIGN_FILE.to_owned(), b"foreign".to_vec());
    (folder, files)
});

fuzz_target!(|bytes: &[u8]| {
    let Some(input) = bytes.first_chunk::<6>() else {
        return;
    };
    let (folder, valid) = &*VALID_RUN;
    let mut files = valid.clone();
    let mut intact = Vec::new();
    for (step, &[damage, number]) in FOLDERS.iter().zip(input.as_chunks::<2>().0) {
        let path = |file: &str| format!("checkpoints/{step}/{file}");
        let manifest = files.get_mut(&path("manifest.json")).expect("it is there");
        let text = String::from_utf8(manifest.clone()).expect("it is text");
        let (before, rest) = text.split_once("\"number\": ").expect("a number");
        let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
        *manifest = format!("{before}\"number\": {number}{rest}").into_bytes();
        let mut truncate = |file: &str| {
            let bytes = files.get_mut(&path(file)).expect("it is there");
            bytes.truncate(bytes.len() / 2);
        };
        match damage % 6 {
            0 => intact.push((number, *step)),
            1 => truncate("model.safetensors"),
            2 => truncate("manifest.json"),
            3 => drop(files.remove(&path("state.json"))),
            4 => files.retain(|name, _| !name.starts_with(&path(""))),
            _ => {
                // The manifest of another checkpoint contains a step that doesn't match the name of
                // this folder.
                let other = if *step == FOLDERS[0] {
                    FOLDERS[1]
                } else {
                    FOLDERS[0]
                };
                let other = valid[&format!("checkpoints/{other}/manifest.json")].clone();
                files.insert(path("manifest.json"), other);
            }
        }
    }
    let newest_intact = intact.into_iter().max().map(|(_, step)| step);
    let run = folder.path().join("run");
    write(&run, &files);
    let steps = resume_and_train(&run);
    assert!(run.join(FOREIGN_FILE).exists(), "a foreign file was deleted");
    match (steps, newest_intact) {
        (Some(steps), _) => {
            let newest = latest_checkpoint(&run).expect("it was just saved");
            assert_eq!(steps_of(newest), Some(steps));
        }
        (None, Some(step)) => {
            let weights = run.join("checkpoints").join(step).join("model.safetensors");
            assert!(weights.exists(), "{step}, the newest intact checkpoint, was deleted");
        }
        (None, None) => {}
    }
});

/// Opens the run, resumes its newest checkpoint, and trains one step. Only the new checkpoint is
/// kept. Returns the number of steps, or `None` if the run was rejected.
fn resume_and_train(run: &Path) -> Option<u64> {
    let folder = accepted(RunFolder::open(run))?;
    let checkpoint = accepted(latest_checkpoint(run))?;
    accepted(read_settings(&checkpoint))?;
    let steps = 1 + steps_of(&checkpoint)?;
    let config = TrainConfig {
        keep: 1,
        ..config(steps)
    };
    let resumed = Trainer::resume(checkpoint, config, MODEL, loader(), None);
    let mut trainer = accepted(resumed)?;
    let run = trainer.run(Some(&folder), &mut |_| ControlFlow::Continue(()));
    accepted(run)?;
    Some(steps)
}
