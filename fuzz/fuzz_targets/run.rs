//! Arbitrary bytes as the files that steer a run: it is resumed or refused in one line, without a
//! panic, and no file of anybody else is deleted.
//!
//! Input: which files are replaced (a bit each: latest.json, manifest.json, state.json,
//! config.json), and for each its length (2 bytes) and its bytes.
//! Unless the manifest is replaced it agrees with the others, so that what a hash would refuse is
//! read.

#![no_main]

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::LazyLock;

use dataloader::{Corpus, DataLoader, DataLoaderConfig};
use fuzz::take;
use gpt::{GptConfig, GptModel};
use libfuzzer_sys::fuzz_target;
use sha2::{Digest, Sha256};
use tempfile::TempDir;
use torch_rng::TorchRng;
use train::{RunFolder, TrainConfig, Trainer, latest_checkpoint, read_settings};

const STEP: &str = "checkpoints/step-00000001";
const THEIRS: &str = "checkpoints/step-1000/theirs.pth";

const MODEL: GptConfig = GptConfig {
    vocab_size: 3,
    context_length: 2,
    emb_dim: 2,
    n_heads: 1,
    n_layers: 1,
    tied: true,
    ..GptConfig::GPT2_124M
};

/// A run of one step, as files; and a folder to spoil.
static GOOD: LazyLock<(TempDir, BTreeMap<String, Vec<u8>>)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let run = RunFolder::open(folder.path().join("run")).expect("a new run");
    let mut rng = TorchRng::manual_seed(1);
    let model = GptModel::new(MODEL, &mut rng).expect("a valid configuration");
    let mut trainer = Trainer::new(config(), model, loader(), None, rng).expect("a run");
    trainer
        .run(Some(&run), &mut |_| ControlFlow::Continue(()))
        .expect("one step");
    let files = ["config.json", "model.safetensors", "optimizer.safetensors", "state.json"];
    let mut all: BTreeMap<String, Vec<u8>> = files
        .map(|file| format!("{STEP}/{file}"))
        .into_iter()
        .chain(["latest.json".to_owned()])
        .map(|file| {
            let bytes = fs::read(run.path().join(&file)).expect("a file of the run");
            (file, bytes)
        })
        .collect();
    all.insert(THEIRS.to_owned(), b"theirs".to_vec());
    (folder, all)
});

fn config() -> TrainConfig {
    TrainConfig {
        max_steps: 1,
        ..TrainConfig::default()
    }
}

fn loader() -> DataLoader {
    let corpus = Corpus::from_ids(vec![0, 1, 2, 0, 1, 2, 0]);
    let windows = DataLoaderConfig {
        batch_size: 1,
        max_length: 2,
        stride: 2,
        ..DataLoaderConfig::default()
    };
    DataLoader::new(&corpus, windows).expect("it has a batch")
}

/// The manifest of a checkpoint's files.
fn manifest(files: &BTreeMap<String, Vec<u8>>) -> Vec<u8> {
    let entries = files.iter().filter_map(|(name, bytes)| {
        let name = name.strip_prefix(STEP)?.strip_prefix('/')?;
        let sha256: String = Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect();
        let length = bytes.len();
        Some(format!(r#""{name}":{{"bytes":{length},"sha256":"{sha256}"}}"#))
    });
    let entries: Vec<String> = entries.collect();
    format!(r#"{{"version":1,"files":{{{}}}}}"#, entries.join(",")).into_bytes()
}

fuzz_target!(|bytes: &[u8]| {
    let Some((&which, mut rest)) = bytes.split_first() else {
        return;
    };
    let (folder, good) = &*GOOD;
    let mut files = good.clone();
    let mut forged = None;
    for (bit, name) in ["latest.json", "manifest.json", "state.json", "config.json"].iter().enumerate() {
        if which >> bit & 1 == 0 {
            continue;
        }
        let (piece, after) = take(rest);
        rest = after;
        match *name {
            "latest.json" => drop(files.insert((*name).to_owned(), piece.to_vec())),
            "manifest.json" => forged = Some(piece.to_vec()),
            _ => drop(files.insert(format!("{STEP}/{name}"), piece.to_vec())),
        }
    }
    let manifest = forged.unwrap_or_else(|| manifest(&files));
    files.insert(format!("{STEP}/manifest.json"), manifest);
    let run = folder.path().join("run");
    let _ = fs::remove_dir_all(&run);
    for (name, bytes) in &files {
        let path = run.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("written");
    }
    resume(&run);
    assert!(run.join(THEIRS).exists(), "a file of somebody else is gone");
    let model = run.join(STEP).join("model.safetensors");
    assert!(model.exists() || latest_checkpoint(&run).is_ok(), "the weights are gone");
});

fn resume(run: &Path) {
    let told = |error: &dyn std::fmt::Display| {
        let message = error.to_string();
        assert!(!message.contains('\n') && message.len() < 4000, "{message}");
    };
    if let Err(error) = RunFolder::open(run) {
        return told(&error);
    }
    let checkpoint = match latest_checkpoint(run) {
        Ok(checkpoint) => checkpoint,
        Err(error) => return told(&error),
    };
    if let Err(error) = read_settings(&checkpoint) {
        told(&error);
    }
    match Trainer::resume(&checkpoint, config(), MODEL, loader(), None) {
        Err(error) => told(&error),
        Ok(mut trainer) => {
            if let Err(error) = trainer.run(None, &mut |_| ControlFlow::Continue(())) {
                told(&error);
            }
        }
    }
}
