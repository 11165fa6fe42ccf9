//! A run's folder with a forged list and manifests: names of checkpoints that are there, damaged,
//! or not there, and manifests of others.
//!
//! The newest checkpoint that is whole is never deleted, none of somebody else's files is, and
//! every refusal is one line.
//! Input: of each of three checkpoints what is done to it (a byte each), how many names the list
//! has (a byte), each name (a byte), and the best one (a byte).

#![no_main]

use std::collections::BTreeMap;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::LazyLock;

use dataloader::{Corpus, DataLoader, DataLoaderConfig};
use gpt::{GptConfig, GptModel};
use libfuzzer_sys::fuzz_target;
use tempfile::TempDir;
use torch_rng::TorchRng;
use train::{RunFolder, TrainConfig, Trainer, latest_checkpoint, read_settings};

/// The three that are there, and names of others.
const NAMES: [&str; 8] = [
    "step-00000001",
    "step-00000002",
    "step-00000003",
    "step-00000004",
    "step-00000000",
    "step-00000003.2",
    "../run",
    "theirs",
];

const THEIRS: &str = "checkpoints/theirs/thesis.txt";

/// A run of three steps, as files; and a folder to spoil.
static GOOD: LazyLock<(TempDir, BTreeMap<String, Vec<u8>>)> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder");
    let run = RunFolder::open(folder.path().join("run")).expect("a new run");
    let mut rng = TorchRng::manual_seed(1);
    let model = GptConfig {
        vocab_size: 3,
        context_length: 2,
        emb_dim: 2,
        n_heads: 1,
        n_layers: 1,
        tied: true,
        ..GptConfig::GPT2_124M
    };
    let model = GptModel::new(model, &mut rng).expect("a valid configuration");
    let corpus = Corpus::from_ids(vec![0, 1, 2, 0, 1, 2, 0]);
    let windows = DataLoaderConfig {
        batch_size: 1,
        max_length: 2,
        stride: 2,
        ..DataLoaderConfig::default()
    };
    let loader = DataLoader::new(&corpus, windows).expect("it has a batch");
    let config = TrainConfig {
        max_steps: 3,
        save_every: Some(1),
        keep: 3,
        ..TrainConfig::default()
    };
    let mut trainer = Trainer::new(config, model, loader, None, rng).expect("a run");
    trainer
        .run(Some(&run), &mut |_| ControlFlow::Continue(()))
        .expect("three steps");
    let mut files = BTreeMap::new();
    for step in &NAMES[..3] {
        let folder = format!("checkpoints/{step}");
        for entry in fs::read_dir(run.path().join(&folder)).expect("a checkpoint") {
            let entry = entry.expect("a file");
            let name = entry.file_name().into_string().expect("text");
            let bytes = fs::read(entry.path()).expect("a file of the run");
            files.insert(format!("{folder}/{name}"), bytes);
        }
    }
    files.insert(THEIRS.to_owned(), b"theirs".to_vec());
    (folder, files)
});

fuzz_target!(|bytes: &[u8]| {
    let Some((&damage, rest)) = bytes.split_first_chunk::<3>() else {
        return;
    };
    let (folder, good) = &*GOOD;
    let mut files = good.clone();
    let mut newest_whole = None;
    for (step, damage) in NAMES[..3].iter().zip(damage) {
        let path = |file: &str| format!("checkpoints/{step}/{file}");
        let mut tear = |file: &str| {
            let bytes = files.get_mut(&path(file)).expect("it is there");
            bytes.truncate(bytes.len() / 2);
        };
        match damage % 6 {
            0 => newest_whole = Some(*step),
            1 => tear("model.safetensors"),
            2 => tear("manifest.json"),
            3 => drop(files.remove(&path("state.json"))),
            4 => files.retain(|name, _| !name.starts_with(&path(""))),
            _ => {
                // Another checkpoint's manifest: its hashes are not these files'.
                let other = if *step == NAMES[0] { NAMES[1] } else { NAMES[0] };
                let other = good[&format!("checkpoints/{other}/manifest.json")].clone();
                files.insert(path("manifest.json"), other);
            }
        }
    }
    let name = |byte: &u8| NAMES[usize::from(*byte) % NAMES.len()];
    let (count, rest) = rest.split_first().map_or((0, rest), |(n, rest)| (usize::from(n % 5), rest));
    let (named, rest) = rest.split_at(count.min(rest.len()));
    let list: Vec<String> = named.iter().map(|byte| format!("{:?}", name(byte))).collect();
    let best = rest.first().map_or(String::new(), |byte| {
        format!(r#", "best": {{"checkpoint": {:?}, "val_loss": 1.0}}"#, name(byte))
    });
    let latest = format!(r#"{{"checkpoints": [{}]{best}}}"#, list.join(", "));
    files.insert("latest.json".to_owned(), latest.into_bytes());
    let run = folder.path().join("run");
    let _ = fs::remove_dir_all(&run);
    for (name, bytes) in &files {
        let path = run.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, bytes).expect("written");
    }
    open(&run);
    assert!(run.join(THEIRS).exists(), "a file of somebody else is gone");
    if let Some(step) = newest_whole {
        let weights = run.join("checkpoints").join(step).join("model.safetensors");
        assert!(weights.exists(), "{step}, the newest whole one, is gone");
    }
});

fn open(run: &Path) {
    let told = |error: &dyn std::fmt::Display| {
        let message = error.to_string();
        assert!(!message.contains('\n') && message.len() < 4000, "{message}");
    };
    if let Err(error) = RunFolder::open(run) {
        told(&error);
    }
    match latest_checkpoint(run) {
        Err(error) => told(&error),
        Ok(checkpoint) => {
            if let Err(error) = read_settings(checkpoint) {
                told(&error);
            }
        }
    }
}
