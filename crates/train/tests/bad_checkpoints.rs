//! Checks that a checkpoint that is damaged or belongs to another run is rejected, and that the
//! error message describes the problem in one line.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::unwrap_used)] // a test may panic if its preparation fails

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use checkpoint::{Dtype, save_hugging_face};
use common::{config, finish, loaders, model_config, resume, stop_after, trainer};
use dataloader::{DataLoader, DataLoaderConfig};
use gpt::{GptConfig, GptModel, Parameters};
use serde_json::Value;
use torch_rng::TorchRng;
use train::{RunFolder, TrainConfig, TrainError, Trainer};

/// Creates a run and stops it after four steps, which is in its second epoch. Returns the folder of
/// the run and the path to its checkpoint.
fn saved() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    stop_after(
        &mut trainer(config(9)),
        &RunFolder::open(&folder).unwrap(),
        4,
    );
    let checkpoint = train::latest_checkpoint(&folder).unwrap();
    assert!(checkpoint.ends_with("step-00000004"));
    (folder, checkpoint)
}

/// Checks that resuming a run from a checkpoint fails with a one-line error message. Returns this
/// message.
fn refusal(checkpoint: &Path) -> String {
    let error = resume(checkpoint, config(9)).expect_err("a bad checkpoint");
    let line = error.to_string();
    assert!(!line.contains('\n'), "{line}");
    line
}

/// Changes the contents of a JSON file.
fn edit(checkpoint: &Path, file: &str, change: impl FnOnce(&mut Value)) {
    let path = checkpoint.join(file);
    let mut json: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut json);
    fs::write(path, json.to_string()).unwrap();
}

/// Makes a changed file of a checkpoint look intact: updates its length and its hash in the
/// manifest. Tests use this to check that invalid contents are detected even if the hash is right.
fn forge(checkpoint: &Path, file: &str) {
    let bytes = fs::read(checkpoint.join(file)).unwrap();
    edit(checkpoint, "manifest.json", |json| {
        json["files"][file] = serde_json::json!({
            "bytes": bytes.len(),
            "sha256": train::runs::sha256(bytes),
        });
    });
}

/// In Hugging Face's layout, a model without biases in the query, key and value projections is
/// stored with biases that are all 0. A checkpoint of such a model must be accepted if these biases
/// are 0, and rejected otherwise.
#[test]
fn a_model_of_another_configuration_than_the_runs_is_refused() {
    let (_folder, checkpoint) = saved();
    let tokens = train::SpecialTokens::default();
    let biased = GptConfig {
        qkv_bias: true,
        ..model_config()
    };
    let mut model = GptModel::new(biased, &mut TorchRng::manual_seed(1)).unwrap();
    for (bias, is_refused) in [(0.0, false), (0.5, true)] {
        model.visit_mut("", &mut |name, mut view| {
            if ["W_query.bias", "W_key.bias", "W_value.bias"]
                .iter()
                .any(|bias| name.ends_with(bias))
            {
                view.fill(if name.contains("W_key") { bias } else { 0.0 });
            }
        });
        let model = &model;
        save_hugging_face(model, &checkpoint, Dtype::Float32, &tokens).unwrap();
        edit(&checkpoint, "config.json", |json| {
            json["qkv_bias"] = false.into()
        });
        for file in ["config.json", "model.safetensors"] {
            forge(&checkpoint, file);
        }
        match is_refused {
            true => assert!(refusal(&checkpoint).contains("config.json: this file and state.json")),
            false => drop(resume(&checkpoint, config(9)).unwrap()),
        }
    }
}

#[test]
fn every_file_is_checked_for_its_length_and_every_byte() {
    for file in [
        "config.json",
        "model.safetensors",
        "optimizer.safetensors",
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
    assert!(refusal(&checkpoint).contains("doesn't list the file state.json"));
    edit(&checkpoint, "manifest.json", |json| {
        json["version"] = 9.into()
    });
    assert!(refusal(&checkpoint).contains("format 9"));
    edit(&checkpoint, "manifest.json", |json| {
        json["version"] = 5.into();
        json["more"] = 1.into();
    });
    assert!(refusal(&checkpoint).contains("unknown field `more`"));
    fs::write(checkpoint.join("manifest.json"), "{").unwrap();
    assert!(refusal(&checkpoint).contains("manifest.json"));
    fs::remove_file(checkpoint.join("manifest.json")).unwrap();
    assert!(refusal(&checkpoint).contains("no checkpoint was found"));
}

#[test]
fn a_state_that_no_run_leaves_is_refused() {
    type Change = fn(&mut Value);
    let changes: [(&str, Change); 7] = [
        ("random number generator", |json| json["rng"] = "00".into()),
        ("random number generator", |json| {
            json["epoch"]["drawn_from"] = "é".into()
        }),
        ("batch 12, because the epoch has only 11 batches", |json| {
            json["epoch"]["position"] = 12.into()
        }),
        ("unknown field `more`", |json| json["more"] = 1.into()),
        // The unknown field `max\x1bse\n` contains a control character and a line break. The fuzz
        // target `run` once found that the JSON parser copies line breaks to its error message. The
        // error must contain spaces instead, so that it remains a single line.
        ("unknown field `max se `", |json| {
            json["settings"]["config"]["max\x1bse\n"] = 2.into()
        }),
        (
            "config.accumulation is 0 in the checkpoint, but it is 3",
            |json| json["settings"]["config"]["accumulation"] = 0.into(),
        ),
        (
            "config.max_grad_norm is nothing in the checkpoint",
            |json| json["settings"]["config"]["max_grad_norm"] = Value::Null,
        ),
    ];
    for (expected, change) in changes {
        let (_folder, checkpoint) = saved();
        edit(&checkpoint, "state.json", change);
        forge(&checkpoint, "state.json");
        let line = refusal(&checkpoint);
        assert!(line.contains(expected), "{line}, expected {expected}");
    }
}

#[test]
fn numbers_that_no_run_reaches_are_no_reason_to_panic() {
    let (_folder, checkpoint) = saved();
    edit(&checkpoint, "state.json", |json| {
        json["last_step"]["step"] = u64::MAX.into();
        json["last_step"]["tokens_seen"] = u64::MAX.into();
        json["epoch"]["number"] = u64::MAX.into();
    });
    forge(&checkpoint, "state.json");
    let mut resumed = resume(&checkpoint, config(9)).unwrap();
    assert!(finish(&mut resumed, None).0.is_empty());
}

#[test]
fn other_settings_another_model_and_other_data_are_refused() {
    let (_folder, checkpoint) = saved();
    let resumed = |config, model: GptConfig, (train, validation)| match Trainer::resume(
        &checkpoint,
        config,
        model,
        train,
        validation,
    ) {
        Err(TrainError::OtherRun {
            name, saved, now, ..
        }) => format!("{name} {saved} {now}"),
        other => panic!("{other:?}"),
    };
    let changed = |change: fn(&mut TrainConfig)| {
        let mut config = config(9);
        change(&mut config);
        resumed(config, model_config(), loaders())
    };
    let rate = changed(|c| c.optimizer.lr = 1e-3);
    assert_eq!(rate, "config.optimizer.lr 0.0004 0.001");
    let clipped = changed(|c| c.max_grad_norm = None);
    assert_eq!(clipped, "config.max_grad_norm 1.0 nothing");
    let model = GptConfig {
        n_heads: 4,
        ..model_config()
    };
    let heads = resumed(config(9), model, loaders());
    assert_eq!(heads, "model.n_heads 2 4");
    let (train, validation) = loaders();
    let data = |train, validation| resumed(config(9), model_config(), (train, validation));
    let line = data(validation.clone().unwrap(), validation);
    assert_eq!(line, "training_data.drop_last true false");
    let line = data(train.clone(), None);
    assert_eq!(line, "validation_data.batch_size 2 nothing");
    let in_order = DataLoaderConfig {
        shuffle: false,
        ..train.config()
    };
    let in_order = DataLoader::new(train.dataset().corpus(), in_order).unwrap();
    let line = data(in_order, None);
    assert_eq!(line, "training_data.shuffle true false");
    // Only settings that influence the weights and losses must be the same when a run is resumed.
    // Resuming must succeed with other values of the remaining settings, such as a higher number of
    // steps.
    let longer = TrainConfig {
        max_steps: 12,
        sample_every: Some(3),
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
    let settings = train::read_settings(&checkpoint).unwrap();
    assert_eq!(
        (settings.model, settings.config),
        (model_config(), config(9))
    );
}

#[test]
fn a_checkpoint_is_a_model_folder() {
    let folder = tempfile::tempdir().unwrap();
    let mut trainer = trainer(config(2));
    finish(&mut trainer, Some(&RunFolder::open(&folder).unwrap()));
    let loaded = checkpoint::load_model(train::latest_checkpoint(&folder).unwrap()).unwrap();
    assert_eq!(&loaded, trainer.model());
}
