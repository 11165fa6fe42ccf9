//! Tests that `gpt train --resume` produces exactly the same weights, bit for bit, as a run that
//! was never interrupted.
//!
//! The tests of the crate `train` interrupt a run after each step, and check that the resumed run
//! produces the same results as an uninterrupted run. They also check that a run can't be resumed
//! with different data.

use std::fs;

use crate::support::{TINY, folder, holds};

/// Checks that resuming a run leads to exactly the same weights as training without interruption.
/// The test resumes a finished run from an earlier checkpoint, and extends a shorter run to the
/// same number of steps. All runs use dropout, three batches per step, a tokenizer that was trained
/// on the data, and more than one epoch.
#[test]
fn a_resumed_run_is_bit_for_bit_the_run_that_never_stopped() {
    let folder = folder();
    folder.write(
        "text.txt",
        "One day the boat was gone, and nobody knew. ".repeat(20),
    );
    let flags = TINY.replace("data.bin --vocab-size 61", "text.txt --tokenizer bpe:270");
    let flags = format!("train {flags} --drop-rate 0.2 --gradient-accumulation-steps 3");
    folder.ok(&format!("{flags} --max-steps 12 --keep 3 --out-dir run"));
    let whole = (folder.tensors("run"), folder.logged_losses("run"));
    let ran = folder.ok("train --resume run/checkpoints/step-00000005");
    let trained = "trained from step 5 to step 12 in";
    holds(&ran.stdout, &["run, resumed after step 5", trained]);
    let newest = folder.checkpoint("run");
    assert!(newest.to_string_lossy().contains("step-00000012."));
    assert!((folder.tensors("run"), folder.logged_losses("run")) == whole);
    let parts = ["--tokenizer", "bpe:270", "chars"];
    folder.refused("train --resume run --tokenizer chars", &parts);
    // If a run is extended, it keeps its original learning-rate schedule.
    let constant = format!("{flags} --min-lr 0.01");
    folder.ok(&format!("{constant} --max-steps 12 --out-dir long"));
    folder.ok(&format!("{constant} --max-steps 5 --out-dir short"));
    let ran = folder.ok("train --resume short --max-steps 12");
    holds(
        &ran.stdout,
        &["from step 5 on, the learning rate stays at 0.01"],
    );
    let weights = |run| folder.tensors(run);
    assert!(weights("long") == weights("short"));
}

#[test]
fn resume_without_a_folder_takes_the_newest_run_or_that_of_the_file() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 2"));
    folder.ok("train --resume --max-steps 3");
    folder.write("my.toml", "out_dir = 'runs/0001'\nmax_steps = 4");
    folder.ok("train --resume --config my.toml");
    assert_eq!(folder.logged_losses("runs/0001").len(), 4);
}

#[test]
fn a_run_that_is_done_can_be_resumed_and_does_nothing() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 2 --out-dir run"));
    let events = || {
        let log = folder.log("run").into_iter();
        log.filter(|line| line["event"] != "start")
            .collect::<Vec<_>>()
    };
    let before = (folder.tensors("run"), events());
    folder.ok("train --resume run");
    let ran = folder.ok("train --resume run");
    assert!((folder.tensors("run"), events()) == before);
    let parts = [
        "this run has already completed all of its 2 steps",
        "--resume run --max-steps N",
    ];
    holds(&ran.stdout, &parts);
}

#[test]
fn another_configuration_is_refused_by_name_with_both_values() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 2 --out-dir run"));
    let parts = ["--dtype is \"float32\"", "\"bfloat16\""];
    folder.refused("train --resume run --dtype bfloat16", &parts);
    let parts = ["--learning-rate is 0.01", "0.5", "--init-from run"];
    folder.refused("train --resume run --learning-rate 0.5", &parts);
    let parts = ["--preset is \"story\"", "\"gpt2-124m\""];
    folder.refused("train --resume run --preset gpt2", &parts);
    // A resumed run must also reject changes to options that the user never set, and whose values
    // the original run derived from the data or from other options.
    for (option, value, other) in [
        ("--max-length", "8", "4"),
        ("--stride", "8", "4"),
        ("--min-lr", "0.001", "0.002"),
    ] {
        let kept = format!("{option} is {value}");
        folder.refused(
            &format!("train --resume run {option} {other}"),
            &[&kept, other],
        );
    }
    let anew = format!("train {TINY} --max-steps 2 --out-dir run");
    let parts = ["run: a new run requires an empty folder", "--resume run"];
    folder.refused(&anew, &parts);
}

#[test]
fn a_default_that_is_stated_changes_nothing() {
    let folder = folder();
    let text = "One day the boat was gone, and nobody knew. ".repeat(20);
    folder.write("text.txt", text);
    let flags = TINY.replace("data.bin --vocab-size 61", "text.txt");
    let defaults = "--preset story --vocab-size 287 --seed 123 --min-lr 0.001 --max-length 8 --stride 8 \
        --dropout-build portable --sample-interval 10 --save-interval 5";
    folder.ok(&format!("train {flags} --max-steps 2 --out-dir run"));
    folder.ok(&format!(
        "train {flags} {defaults} --max-steps 2 --out-dir stated"
    ));
    assert!(folder.tensors("run") == folder.tensors("stated"));
    for run in ["run", "stated"] {
        folder.ok(&format!(
            "train --resume {run} {defaults} --tokenizer bpe:1221 --max-steps 3"
        ));
    }
    assert!(folder.tensors("run") == folder.tensors("stated"));
}

#[test]
fn another_folder_or_other_weights_are_refused() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 2 --out-dir run"));
    folder.ok("convert run model");
    let parts = ["--resume", "--out-dir"];
    folder.misused("train --resume run --out-dir elsewhere", &parts);
    let parts = ["--init-from is not set", "model"];
    folder.refused("train --resume run --init-from model", &parts);
    assert!(!folder.join("elsewhere").exists());
    folder.ok("train --resume run/checkpoints/step-00000002 --max-steps 3");
    folder.ok("train --init-from model --data data.bin --max-steps 1 --out-dir longer");
    folder.ok("train --resume longer --init-from model --max-steps 2");
}

#[test]
fn options_that_were_cut_are_refused_wherever_a_line_ends() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 2 --out-dir run"));
    let options = folder.join("run/options.toml");
    let text = fs::read_to_string(&options).unwrap();
    let parts = ["run/options.toml", "is missing"];
    for (end, _) in text.match_indices('\n').take(text.lines().count() - 1) {
        fs::write(&options, &text[..end]).unwrap();
        folder.refused("train --resume run --max-steps 3", &parts);
    }
    fs::write(&options, text).unwrap();
    folder.ok("train --resume run --max-steps 3");
}

#[test]
fn data_that_moved_is_named_and_other_data_is_refused_with_both() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 2 --out-dir run"));
    fs::rename(folder.join("data.bin"), folder.join("moved.bin")).unwrap();
    folder.refused("train --resume run", &["data.bin", "new path with --data"]);
    folder.ok("train --resume run --data moved.bin --max-steps 3");
    folder.ok("train --resume run --max-steps 4");
    folder.write("other.bin", [7, 0].repeat(400));
    let parts = ["other.bin: this isn't the data", "moved.bin"];
    folder.refused("train --resume run --data other.bin --max-steps 5", &parts);
}

#[test]
fn data_of_standard_input_is_piped_in_again_and_compared() {
    let folder = folder();
    let text = "One day the boat was gone. ".repeat(20);
    let flags = TINY.replace("data.bin --vocab-size 61", "- --tokenizer chars");
    let begun = folder.gpt_reading(&format!("train {flags} --max-steps 1 -o run"), &text);
    assert_eq!(begun.code, Some(0), "{}", begun.stderr);
    let resume = "train --resume run --max-steps 2";
    folder.refused(
        resume,
        &[
            "run: the run read its data from standard input",
            "--data FILE",
        ],
    );
    let other = folder.gpt_reading(resume, &text.replace("boat", "goat"));
    assert_eq!(other.code, Some(1));
    holds(&other.stderr, &["standard input: this isn't the data"]);
    let same = folder.gpt_reading(resume, &text);
    assert_eq!(same.code, Some(0), "{}", same.stderr);
    folder.write("text.txt", text);
    folder.ok("train --resume run --max-steps 3 --data text.txt");
}

#[test]
fn another_tokenizer_than_the_checkpoints_is_refused() {
    let folder = folder();
    folder.write("text.txt", "One day the boat was gone. ".repeat(20));
    let flags = TINY.replace("data.bin --vocab-size 61", "text.txt --tokenizer chars");
    folder.ok(&format!("train {flags} --max-steps 1 --out-dir run"));
    let tokenizer = folder.checkpoint("run").join("tokenizer.json");
    let text = fs::read_to_string(&tokenizer).unwrap();
    fs::write(&tokenizer, text.replace("\"a\"", "\"z\"")).unwrap();
    let parts = ["step-00000001/tokenizer.json", "SHA-256"];
    for command in ["train --resume run --max-steps 2", "generate a -m run"] {
        folder.refused(command, &parts);
    }
    fs::write(&tokenizer, &text).unwrap();
    folder.ok("train --resume run --max-steps 2");
}

#[test]
fn a_run_without_its_checkpoints_neither_goes_on_nor_begins_anew_over_its_results() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 2 --out-dir run"));
    let left = || folder.log("run");
    let before = left();
    fs::rename(folder.join("run/checkpoints"), folder.join("away")).unwrap();
    folder.refused("train --resume run", &["run", "no checkpoint"]);
    let anew = format!("train {TINY} --max-steps 2 --out-dir run");
    folder.refused(&anew, &["run: a new run requires an empty folder"]);
    assert!(left() == before);
}
