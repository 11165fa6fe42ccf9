//! A checkpoint that is damaged, or belongs to another run, is refused in one line that names what
//! is wrong.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::unwrap_used)] // a test that can't begin panics

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{config, finish, loaders, model_config, resume, stop_after, trainer};
use dataloader::{Corpus, DataLoader, DataLoaderConfig};
use gpt::GptConfig;
use serde_json::Value;
use sha2::{Digest, Sha256};
use train::{RunFolder, Schedule, TrainConfig, TrainError, Trainer};

/// A run of four steps and two batches, in its second epoch, and its checkpoint.
fn saved() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    stop_after(
        &mut trainer(config(9)),
        &RunFolder::open(&folder).unwrap(),
        14,
    );
    let checkpoint = train::latest_checkpoint(&folder).unwrap();
    assert!(checkpoint.ends_with("step-00000004-batch-2"));
    (folder, checkpoint)
}

/// Why the checkpoint is refused.
fn refusal(checkpoint: &Path) -> String {
    let error = resume(checkpoint, config(9)).expect_err("a bad checkpoint");
    let line = error.to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

/// Makes the manifest agree with a file that was changed.
fn forge(checkpoint: &Path, file: &str) {
    let manifest = checkpoint.join("manifest.json");
    let mut json: Value = serde_json::from_slice(&fs::read(&manifest).unwrap()).unwrap();
    let bytes = fs::read(checkpoint.join(file)).unwrap();
    let hash: String = Sha256::digest(&bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    json["files"][file]["bytes"] = bytes.len().into();
    json["files"][file]["sha256"] = hash.into();
    fs::write(manifest, json.to_string()).unwrap();
}

/// Changes the text of a JSON file, manifest included.
fn edit(checkpoint: &Path, file: &str, change: impl FnOnce(&mut Value)) {
    let path = checkpoint.join(file);
    let mut json: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut json);
    fs::write(path, json.to_string()).unwrap();
    if file != "manifest.json" {
        forge(checkpoint, file);
    }
}

#[test]
fn every_file_is_checked_for_its_length_and_every_byte() {
    for file in [
        "config.json",
        "model.safetensors",
        "optimizer.safetensors",
        "gradients.safetensors",
        "state.json",
    ] {
        let (_folder, checkpoint) = saved();
        let path = checkpoint.join(file);
        let good = fs::read(&path).unwrap();
        fs::write(&path, &good[..good.len() - 1]).unwrap();
        let line = refusal(&checkpoint);
        assert!(
            line.contains(file) && line.contains(&good.len().to_string()),
            "{line}"
        );
        let mut bad = good.clone();
        bad[good.len() / 2] ^= 1;
        fs::write(&path, &bad).unwrap();
        let line = refusal(&checkpoint);
        assert!(line.contains(file) && line.contains("SHA-256"), "{line}");
        fs::remove_file(&path).unwrap();
        assert!(refusal(&checkpoint).contains(file));
    }
}

#[test]
fn a_manifest_that_is_damaged_or_forgets_a_file_is_refused() {
    let (_folder, checkpoint) = saved();
    edit(&checkpoint, "manifest.json", |json| {
        json["files"].as_object_mut().unwrap().remove("state.json");
    });
    assert!(refusal(&checkpoint).contains("does not name state.json"));
    edit(&checkpoint, "manifest.json", |json| {
        json["version"] = 9.into()
    });
    assert!(refusal(&checkpoint).contains("version 9, this program reads version 2"));
    fs::write(checkpoint.join("manifest.json"), "{").unwrap();
    assert!(refusal(&checkpoint).contains("manifest.json"));
    fs::remove_file(checkpoint.join("manifest.json")).unwrap();
    assert!(refusal(&checkpoint).contains("there is no checkpoint here"));
}

#[test]
fn a_state_that_no_run_leaves_is_refused() {
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 11] = [
        ("micro_step", |json| {
            json["counters"]["micro_step"] = 3.into()
        }),
        ("steps_done", |json| {
            json["counters"]["steps_done"] = u64::MAX.into()
        }),
        ("counter", |json| json["optimizer_steps"] = u64::MAX.into()),
        ("counter", |json| {
            json["counters"]["tokens_seen"] = u64::MAX.into()
        }),
        ("random state", |json| json["rng"] = "00".into()),
        ("random state", |json| {
            // "+7" is a number, too, and no two digits.
            let digits = json["rng"].as_str().unwrap();
            let mut bytes = (0..digits.len()).step_by(2);
            let at = bytes.find(|&at| digits[at..].starts_with('0')).unwrap();
            json["rng"] = format!("{}+{}", &digits[..at], &digits[at + 1..]).into();
        }),
        ("random state", |json| {
            json["epoch_in_progress"]["rng"] = "é".into()
        }),
        ("batch 12 of an epoch of 11", |json| {
            json["epoch_in_progress"]["position"] = 12.into()
        }),
        ("unknown field `more`", |json| json["more"] = 1.into()),
        // Found by the fuzz target `run`: the parser's message had the line break.
        ("unknown field `max se `", |json| {
            json["config"]["max\x1bse\n"] = 2.into()
        }),
        ("accumulation must be at least 1, but is 0", |json| {
            json["config"]["accumulation"] = 0.into()
        }),
    ];
    for (expected, change) in changes {
        let (_folder, checkpoint) = saved();
        edit(&checkpoint, "state.json", change);
        let line = refusal(&checkpoint);
        assert!(line.contains(expected), "{line}, expected {expected}");
    }
}

#[test]
fn a_value_that_is_not_a_number_is_refused_in_each_tensor_file() {
    for file in [
        "model.safetensors",
        "optimizer.safetensors",
        "gradients.safetensors",
    ] {
        let (_folder, checkpoint) = saved();
        let path = checkpoint.join(file);
        let mut bytes = fs::read(&path).unwrap();
        let last = bytes.len() - 4;
        bytes[last..].copy_from_slice(&f32::NAN.to_le_bytes());
        fs::write(&path, bytes).unwrap();
        forge(&checkpoint, file);
        let line = refusal(&checkpoint);
        assert!(line.contains(file) && line.contains("NaN"), "{line}");
    }
}

#[test]
fn other_settings_another_model_and_other_data_are_refused() {
    let (_folder, checkpoint) = saved();
    let resumed = |config, model: GptConfig, (train, validation)| {
        let error = Trainer::resume(&checkpoint, config, model, train, validation);
        let error = error.expect_err("another run");
        let line = error.to_string();
        assert!(
            !line.contains(" {") && line.len() < 400,
            "for people: {line}"
        );
        match error {
            TrainError::OtherConfig { name, .. } => name,
            TrainError::OtherData { saved, found, .. } => format!("{saved}, now {found}"),
            other => panic!("{other}"),
        }
    };
    let changed = |change: fn(&mut TrainConfig)| {
        let mut config = config(9);
        change(&mut config);
        resumed(config, model_config(), loaders())
    };
    assert_eq!(changed(|c| c.optimizer.lr = 1e-3), "lr of optimizer");
    let warmup = |c: &mut TrainConfig| {
        c.schedule = Schedule::WarmupCosine {
            warmup_steps: 2,
            total_steps: 9,
            initial_lr: 0.0,
            min_lr: 0.0,
        }
    };
    assert_eq!(changed(warmup), "schedule");
    assert_eq!(changed(|c| c.max_grad_norm = None), "max_grad_norm");
    assert_eq!(changed(|c| c.accumulation = 4), "accumulation");
    assert_eq!(changed(|c| c.eval_every = None), "eval_every");
    let model = GptConfig {
        n_heads: 4,
        ..model_config()
    };
    assert_eq!(resumed(config(9), model, loaders()), "n_heads of the model");
    let (train, validation) = loaders();
    let validation = validation.expect("there is one");
    let data = |train, validation| resumed(config(9), model_config(), (train, validation));
    let holds = |line: String, parts: [&str; 2]| {
        let rest = parts
            .iter()
            .try_fold(&line[..], |rest, part| Some(rest.split_once(part)?.1));
        assert!(rest.is_some(), "{line}, expected {parts:?}");
    };
    holds(
        data(validation.clone(), Some(validation)),
        ["140 tokens", "now 30 tokens"],
    );
    holds(data(train.clone(), None), ["30 tokens", "now none"]);
    let config_of = train.config();
    let ids = train.dataset().corpus().read(..).unwrap().into_owned();
    let load = |ids: Vec<u32>, config| DataLoader::new(&Corpus::from_ids(ids), config).unwrap();
    let mut other = ids.clone();
    other[77] ^= 1;
    holds(
        data(load(other, config_of), None),
        ["140 tokens", "140 tokens"],
    );
    let in_order = DataLoaderConfig {
        shuffle: false,
        ..config_of
    };
    holds(
        data(load(ids, in_order), None),
        ["shuffled, now", "full ones"],
    );
    // More steps, and what draws nothing, may change.
    let longer = TrainConfig {
        max_steps: 12,
        sample: None,
        keep: 3,
        ..config(9)
    };
    let mut longer = resume(&checkpoint, longer).unwrap();
    finish(&mut longer, None);
    assert_eq!(longer.steps_done(), 12);
}

#[test]
fn the_settings_of_a_checkpoint_can_be_read_before_its_tensors() {
    let (_folder, checkpoint) = saved();
    let settings = train::runs::read_settings(&checkpoint).unwrap();
    assert_eq!(settings.model, model_config());
    assert_eq!(settings.train, config(9));
    assert_eq!(settings.steps_done, 4);
    assert_eq!(
        (settings.train_data.tokens, settings.train_data.shuffle),
        (140, true)
    );
    assert_eq!(settings.val_data.map(|data| data.tokens), Some(30));
}

#[test]
fn a_checkpoint_is_a_model_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut trainer = trainer(config(2));
    finish(&mut trainer, Some(&RunFolder::open(&folder).unwrap()));
    let loaded = checkpoint::load_model(train::latest_checkpoint(&folder).unwrap()).unwrap();
    assert_eq!(&loaded, trainer.model());
}
