//! A checkpoint that is damaged, or belongs to another run, is refused in one line that names what
//! is wrong.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::unwrap_used)] // a test that can't begin panics

mod common;

use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use common::{assert_same_run, config, finish, loaders, model_config, resume, stop_after, trainer};
use dataloader::{Corpus, DataLoader};
use gpt::GptConfig;
use serde_json::Value;
use sha2::{Digest, Sha256};
use train::{Event, Outcome, RunFolder, Schedule, TrainConfig, TrainError, Trainer};

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
    assert!(refusal(&checkpoint).contains("version 9, this program reads version 1"));
    fs::write(checkpoint.join("manifest.json"), "{").unwrap();
    assert!(refusal(&checkpoint).contains("manifest.json"));
    fs::remove_file(checkpoint.join("manifest.json")).unwrap();
    assert!(refusal(&checkpoint).contains("there is no checkpoint here"));
}

#[test]
fn a_state_that_no_run_leaves_is_refused() {
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 12] = [
        ("version 3", |json| json["version"] = 3.into()),
        ("micro_step", |json| json["micro_step"] = 3.into()),
        ("steps_done", |json| json["steps_done"] = u64::MAX.into()),
        ("counter", |json| json["optimizer_steps"] = u64::MAX.into()),
        ("counter", |json| json["tokens_seen"] = u64::MAX.into()),
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
        match error.expect_err("another run") {
            error @ TrainError::OtherConfig { .. } => {
                let line = error.to_string();
                assert!(
                    !line.contains(" {") && line.len() < 300,
                    "for people: {line}"
                );
                match error {
                    TrainError::OtherConfig { name, .. } => name,
                    _ => unreachable!(),
                }
            }
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
    assert_eq!(
        data(validation.clone(), Some(validation)),
        "batches of the training data"
    );
    assert_eq!(data(train.clone(), None), "the validation data");
    assert_eq!(
        data(train.clone(), Some(train.clone())),
        "batches of the validation data"
    );
    let config_of = train.config();
    let ids = train.dataset().corpus().read(..).unwrap().into_owned();
    let other = Corpus::from_ids(ids.into_iter().rev().collect::<Vec<_>>());
    let other = DataLoader::new(&other, config_of).unwrap();
    assert_eq!(data(other, None), "sha256 of the training data");
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

/// A state as programs before this one wrote it, with lists of all steps and evaluations.
#[test]
fn a_state_of_version_1_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let run = RunFolder::open(&folder).unwrap();
    let (mut steps, mut evaluations) = (Vec::new(), Vec::new());
    let stopped = trainer(config(9)).run(Some(&run), &mut |event| {
        match event {
            Event::Step(step) => steps.push(serde_json::to_value(step).unwrap()),
            Event::Evaluation(evaluation) => {
                let mut evaluation = serde_json::to_value(evaluation).unwrap();
                let fields = evaluation.as_object_mut().unwrap();
                let steps_done = fields.remove("steps_done").unwrap().as_u64().unwrap();
                fields.insert("step".to_owned(), (steps_done - 1).into());
                evaluations.push(evaluation);
            }
            _ => {}
        }
        match steps.len() < 6 {
            true => ControlFlow::Continue(()),
            false => ControlFlow::Break(()),
        }
    });
    assert_eq!(stopped.unwrap(), Outcome::Stopped);
    assert_eq!((steps.len(), evaluations.len()), (6, 2));
    let checkpoint = train::latest_checkpoint(&folder).unwrap();
    edit(&checkpoint, "state.json", |json| {
        let fields = json.as_object_mut().unwrap();
        for new in ["last_step", "last_evaluation"] {
            assert!(fields.remove(new).is_some());
        }
        fields.insert("version".to_owned(), 1.into());
        fields.insert("steps".to_owned(), steps.into());
        fields.insert("evaluations".to_owned(), evaluations.into());
        let config = fields["config"].as_object_mut().unwrap();
        for new in ["whole_epochs", "eval_first", "eval_early"] {
            assert!(config.remove(new).is_some());
        }
    });
    let mut resumed = resume(&checkpoint, config(9)).unwrap();
    finish(&mut resumed, None);
    let mut whole = trainer(config(9));
    finish(&mut whole, None);
    assert_same_run(&whole, &resumed);
}

#[test]
fn the_settings_of_a_checkpoint_can_be_read_before_its_tensors() {
    let (_folder, checkpoint) = saved();
    let settings = train::read_settings(&checkpoint).unwrap();
    assert_eq!(settings.model, model_config());
    assert_eq!(settings.train, config(9));
    assert_eq!(settings.steps_done, 4);
    assert_eq!(settings.train_data.len(), 64);
    assert_ne!(settings.val_data, Some(settings.train_data));
}

#[test]
fn a_checkpoint_is_a_model_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut trainer = trainer(config(2));
    finish(&mut trainer, Some(&RunFolder::open(&folder).unwrap()));
    let loaded = checkpoint::load_model(train::latest_checkpoint(&folder).unwrap()).unwrap();
    assert_eq!(&loaded, trainer.model());
}
