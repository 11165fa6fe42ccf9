//! Tests that the program never deletes or overwrites files that it must keep: files that other
//! programs created, and the checkpoints of a run that fails.

use std::fs;

use crate::support::{TINY, folder, holds};

#[test]
fn a_folder_of_somebody_else_is_refused_and_left_as_it_was() {
    let folder = folder();
    for (i, theirs) in [
        "checkpoints/step-00001000/model.safetensors",
        "thesis.tex",
        "options.toml",
        "log.jsonl",
        ".draft.unfinished",
    ]
    .into_iter()
    .enumerate()
    {
        let project = folder.join(format!("project{i}"));
        let file = project.join(theirs);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "x").unwrap();
        folder.refused(
            &format!("train {TINY} --max-steps 1 --out-dir project{i}"),
            &[
                "requires an empty folder",
                theirs.split('/').next().unwrap(),
            ],
        );
        assert_eq!(fs::read(&file).unwrap(), b"x");
        assert_eq!(fs::read_dir(&project).unwrap().count(), 1, "{theirs}");
    }
}

#[test]
fn a_run_whose_loss_is_no_longer_a_number_ends_and_keeps_its_checkpoint() {
    let folder = folder();
    // These options make a run diverge: each training step makes the weights thousands of times
    // larger, so the loss soon becomes infinite or NaN. The run must then end with an error and
    // keep its last checkpoint with a finite loss.
    let wild = format!("{TINY} --weight-decay 1e6 --grad-clip 0 --eval-interval 1");
    let run = format!("train {wild} --max-steps 9 --out-dir run");
    folder.refused(&run, &["loss", "step", "set --learning-rate below"]);
    let evaluated = folder.json("eval data.bin -m run");
    assert!(evaluated["loss"].is_f64(), "{evaluated}");
}

/// Checks that `gpt eval` fails if the loss isn't a finite number. To cause such a loss, the test
/// sets some weights of a model to the largest `f32`.
#[test]
fn a_loss_that_is_no_number_is_a_failure_of_eval() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 1 --out-dir run"));
    folder.ok("convert run model");
    let file = folder.join("model/model.safetensors");
    let mut bytes = fs::read(&file).unwrap();
    let end = bytes.len() - 1024;
    for number in bytes[end..].chunks_exact_mut(4) {
        number.copy_from_slice(&f32::MAX.to_le_bytes());
    }
    fs::write(&file, bytes).unwrap();
    folder.refused("eval data.bin -m model --json", &["the loss is"]);
}

/// Checks that a command fails if its output can't be written. The test redirects standard output
/// to the device `/dev/full`, which behaves like a file on a full disk.
#[cfg(target_os = "linux")]
#[test]
fn what_was_asked_for_and_not_written_is_a_failure() {
    let folder = folder();
    for args in [
        &format!("train {TINY} --max-steps 2 -o run"),
        "eval -m run data.bin",
        "--help",
    ] {
        let full = fs::File::options().write(true).open("/dev/full").unwrap();
        let ended = folder.command(args).stdout(full).output().unwrap();
        let stderr = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "gpt {args}: {stderr}");
        holds(&stderr, &["error: "]);
    }
    // The failed output hasn't damaged the run.
    folder.ok("train --resume run --max-steps 3");
    folder.refused(
        "inspect -m run --tokens 1 --html run/options.toml",
        &["run/options.toml: can't write: already exists"],
    );
}
