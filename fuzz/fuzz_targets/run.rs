//! Resumes a run whose checkpoint contains arbitrary bytes. The run must be resumed, or rejected
//! with a message of one line. It must not panic, and files that don't belong to the run must never
//! be deleted.
//!
//! The first byte of the input says which files are replaced: bit 0 stands for manifest.json, bit 1
//! for state.json, and bit 2 for config.json. Each of these files follows as its length (2 bytes)
//! and its content. If bit 3 is set, the content is a patch to the valid file instead (see
//! `fuzz::apply_patch`).
//!
//! If the manifest isn't replaced, it is updated to the hashes of the other files. Otherwise,
//! damaged files would be rejected because of their hash, and the code that parses them would never
//! run.

#![no_main]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::LazyLock;

use fuzz::run::{Files, MODEL, config, train_and_read_files, loader, accepted, write};
use fuzz::{apply_patch, take_block};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tempfile::TempDir;
use train::read_settings;
use train::runs::sha256;
use train::{RunFolder, Trainer, latest_checkpoint};

const STEP: &str = "checkpoints/step-00000001";
const MANIFEST: &str = "checkpoints/step-00000001/manifest.json";
const STATE: &str = "checkpoints/step-00000001/state.json";
const CONFIG: &str = "checkpoints/step-00000001/config.json";
const FOREIGN_FILE: &str = "checkpoints/step-1000/foreign.pth";

/// The temporary folder, and the files of a valid run of one step, including a file that doesn't
/// belong to it.
static VALID_RUN: LazyLock<(TempDir, Files)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let mut files = train_and_read_files(&folder.path().join("run"), 1);
    files.insert(FOREIGN_FILE.to_owned(), b"foreign".to_vec());
    (folder, files)
});

/// Returns the valid manifest with the lengths and hashes of the given files.
fn manifest(files: &Files) -> Vec<u8> {
    let mut manifest: Value = serde_json::from_slice(&VALID_RUN.1[MANIFEST]).expect("JSON");
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
    let (folder, valid) = &*VALID_RUN;
    let mut files = valid.clone();
    let replaces_manifest = which & 1 != 0;
    let replaceable = [MANIFEST, STATE, CONFIG];
    for (_, name) in replaceable
        .iter()
        .enumerate()
        .filter(|(bit, _)| which >> bit & 1 != 0)
    {
        let (piece, after) = take_block(rest);
        rest = after;
        let bytes = match which & 8 {
            0 => piece.to_vec(),
            _ => apply_patch(&valid[*name], piece),
        };
        files.insert((*name).to_owned(), bytes);
    }
    if !replaces_manifest {
        let manifest = manifest(&files);
        files.insert(MANIFEST.to_owned(), manifest);
    }
    let run = folder.path().join("run");
    write(&run, &files);
    resume(&run);
    assert!(run.join(FOREIGN_FILE).exists(), "a foreign file was deleted");
    let model = run.join(STEP).join("model.safetensors");
    assert!(
        model.exists() || latest_checkpoint(&run).is_ok(),
        "the weights were deleted"
    );
});

fn resume(run: &Path) -> Option<()> {
    accepted(RunFolder::open(run))?;
    let checkpoint = accepted(latest_checkpoint(run))?;
    accepted(read_settings(&checkpoint));
    let resumed = Trainer::resume(&checkpoint, config(1), MODEL, loader(), None);
    let mut trainer = accepted(resumed)?;
    accepted(trainer.run(None, &mut |_| ControlFlow::Continue(())))?;
    Some(())
}
