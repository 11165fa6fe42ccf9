//! Arbitrary bytes as the files of a run: it is resumed or rejected in one line, without a panic,
//! and foreign files are never deleted.
//!
//! Input: which files are replaced (a bit each: manifest.json, state.json, config.json), and for
//! each its length (2 bytes) and its bytes; with the fourth bit these are put into the good file
//! instead. Unless the manifest is replaced it agrees with the others, so that what a hash would
//! refuse is read.

#![no_main]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::LazyLock;

use fuzz::run::{Files, MODEL, config, files_of_a_run, loader, unless_refused, write};
use fuzz::{patched, take};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tempfile::TempDir;
use train::runs::{read_settings, sha256};
use train::{RunFolder, Trainer, latest_checkpoint};

const STEP: &str = "checkpoints/step-00000001";
const MANIFEST: &str = "checkpoints/step-00000001/manifest.json";
const STATE: &str = "checkpoints/step-00000001/state.json";
const CONFIG: &str = "checkpoints/step-00000001/config.json";
const THEIRS: &str = "checkpoints/step-1000/theirs.pth";

/// A run of one step; and a folder to spoil.
static GOOD: LazyLock<(TempDir, Files)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let mut files = files_of_a_run(&folder.path().join("run"), 1);
    files.insert(THEIRS.to_owned(), b"theirs".to_vec());
    (folder, files)
});

/// The manifest of the checkpoint's files: the good one with other lengths and hashes.
fn manifest(files: &Files) -> Vec<u8> {
    let mut manifest: Value = serde_json::from_slice(&GOOD.1[MANIFEST]).expect("a manifest");
    let entries = files.iter().filter_map(|(name, bytes)| {
        let name = name.strip_prefix(STEP)?.strip_prefix('/')?;
        if name == "manifest.json" {
            return None;
        }
        let (bytes, sha256) = (bytes.len(), sha256(bytes));
        Some((name.to_owned(), json!({"bytes": bytes, "sha256": sha256})))
    });
    manifest["files"] = Value::Object(entries.collect());
    manifest.to_string().into_bytes()
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, mut rest)) = bytes.split_first() else {
        return;
    };
    let (folder, good) = &*GOOD;
    let mut files = good.clone();
    let is_forged = which & 1 != 0;
    let steering = [MANIFEST, STATE, CONFIG];
    for (_, name) in steering
        .iter()
        .enumerate()
        .filter(|(bit, _)| which >> bit & 1 != 0)
    {
        let (piece, after) = take(rest);
        rest = after;
        let bytes = match which & 8 {
            0 => piece.to_vec(),
            _ => patched(&good[*name], piece),
        };
        files.insert((*name).to_owned(), bytes);
    }
    if !is_forged {
        let manifest = manifest(&files);
        files.insert(MANIFEST.to_owned(), manifest);
    }
    let run = folder.path().join("run");
    write(&run, &files);
    resume(&run);
    assert!(run.join(THEIRS).exists(), "a foreign file was deleted");
    let model = run.join(STEP).join("model.safetensors");
    assert!(
        model.exists() || latest_checkpoint(&run).is_ok(),
        "the weights are gone"
    );
});

fn resume(run: &Path) -> Option<()> {
    unless_refused(RunFolder::open(run))?;
    let checkpoint = unless_refused(latest_checkpoint(run))?;
    unless_refused(read_settings(&checkpoint));
    let resumed = Trainer::resume(&checkpoint, config(1), MODEL, loader(), None);
    let mut trainer = unless_refused(resumed)?;
    unless_refused(trainer.run(None, &mut |_| ControlFlow::Continue(())))?;
    Some(())
}
