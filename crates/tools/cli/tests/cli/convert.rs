//! `gpt convert` leaves runs alone, and fills a folder that it can't replace. That there is the old
//! model or the new one, and what is not its own, whatever happens, tests/torture tries.

use std::fs;

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
    folder.refused("convert two run", &["run", "hide", "run/model"]);
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
