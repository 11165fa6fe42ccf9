//! `gpt convert` keeps what is not its own, and leaves the old model or the new one. That it does
//! so whatever happens, and several at once, tests/torture tries.

use std::fs;

use crate::keeps::with_enormous_weights;
use crate::support::{Folder, TINY, folder};

/// A folder with the run `run`, and the models `one` and `two` of other weights.
fn with_two_models() -> Folder {
    let folder = folder();
    for (run, model, steps) in [("run", "one", 1), ("other", "two", 3)] {
        folder.ok(&format!("train {TINY} --max-steps {steps} --out-dir {run}"));
        folder.ok(&format!("convert {run} {model}"));
    }
    folder
}

fn names(folder: &Folder, path: &str) -> Vec<String> {
    folder.files(path).into_keys().collect()
}

#[test]
fn a_conversion_that_fails_leaves_the_model_that_was_there() {
    let folder = with_enormous_weights();
    folder.ok("convert run other");
    folder.write("other/notes.txt", "mine");
    for to in ["model", "other"] {
        let before = folder.files(to);
        let command = format!("convert model {to} --force --precision f16");
        folder.refused(&command, &["ln_f.weight", "f16", "is as it was"]);
        assert!(folder.files(to) == before, "{to}");
    }
    folder.refused("convert model new --precision f16", &["f16"]);
    assert!(!folder.join("new").exists());
    // One that was killed left this.
    fs::create_dir(folder.join(".other.4711-0.unfinished")).unwrap();
    folder.write(".other.4711-0.unfinished/model.safetensors", "half");
    folder.ok("convert model other --force");
    assert!(!folder.join(".other.4711-0.unfinished").exists());
    assert!(names(&folder, "other").contains(&"notes.txt".to_owned()));
    // One that was killed between the exchange of the folders and the end left this.
    fs::create_dir(folder.join(".other.4711-1.unfinished")).unwrap();
    for name in ["model.safetensors", "thesis.txt"] {
        folder.write(&format!(".other.4711-1.unfinished/{name}"), "old");
    }
    folder.ok("convert model other --force");
    assert!(!folder.join(".other.4711-1.unfinished").exists());
    assert_eq!(folder.files("other")["thesis.txt"], b"old");
}

#[test]
fn a_tokenizer_without_a_model_is_not_replaced_unasked() {
    let folder = with_two_models();
    for name in [
        "vocab.json",
        "merges.txt",
        "tokenizer.json",
        "added_tokens.json",
        "training.json",
    ] {
        fs::create_dir(folder.join("mine")).unwrap();
        folder.write(&format!("mine/{name}"), "{}");
        folder.write("mine/README.md", "mine");
        folder.refused("convert one mine", &["mine", name, "--force"]);
        assert_eq!(folder.files("mine")[name], b"{}");
        folder.ok("convert one mine --force");
        assert_eq!(folder.files("mine")["README.md"], b"mine");
        fs::remove_dir_all(folder.join("mine")).unwrap();
    }
}

#[test]
fn a_run_is_left_alone() {
    let folder = with_two_models();
    let before = folder.tensors("run");
    for to in [
        "run",
        "run/checkpoints/step-00000001",
        "run/checkpoints/step-00000009",
        "run/tokenizer",
    ] {
        for force in ["", " --force"] {
            folder.refused(&format!("convert two {to}{force}"), &["run"]);
        }
    }
    assert!(folder.tensors("run") == before);
    folder.ok("train --resume run --max-steps 3");
}

/// A shell that stands in the folder must not find itself in one that is gone; nor can a file
/// system's own be replaced.
#[test]
fn the_current_folder_is_filled_in_place() {
    let folder = with_two_models();
    fs::create_dir(folder.join("here")).unwrap();
    let convert = |from: &str| {
        let mut command = folder.command(&format!("convert ../{from} ."));
        command
            .current_dir(folder.join("here"))
            .output()
            .expect("gpt runs")
    };
    assert!(convert("one").status.success());
    assert!(folder.files("here") == folder.files("one"));
    let refused = String::from_utf8(convert("two").stderr).unwrap();
    assert!(refused.contains("--force"), "{refused}");
    assert!(folder.files("here") == folder.files("one"));
}
