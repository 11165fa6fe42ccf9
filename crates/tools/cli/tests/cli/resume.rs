//! `gpt train --resume` through the binary: the same bits as a run that never stopped.
//!
//! That this holds at any batch and after a kill, and that other data is refused, the crate `train`
//! tests.

use std::fs;

use crate::support::{TINY, folder, holds};

/// With dropout, an epoch's end on the way, steps of three batches, and a tokenizer of its own.
#[test]
fn a_resumed_run_is_bit_for_bit_the_run_that_never_stopped() {
    let folder = folder();
    folder.write(
        "text.txt",
        "One day the boat was gone, and nobody knew. ".repeat(20),
    );
    let flags = TINY.replace("data.bin --vocab-size 61", "text.txt --tokenizer bpe:270");
    let flags = format!("train {flags} --drop-rate 0.2 --gradient-accumulation-steps 3");
    folder.ok(&format!("{flags} --max-steps 12 --out-dir whole"));
    let short = "--max-steps 5 --lr-decay-steps 12 --save-interval 4 --out-dir parts";
    folder.ok(&format!("{flags} {short}"));
    let ran = folder.ok("train --resume parts --max-steps 12");
    let trained = "trained 7 steps, from 5 to 12, in";
    holds(&ran.stdout, &["resumed   after step 5", trained]);
    assert!(folder.tensors("whole") == folder.tensors("parts"));
    assert_eq!(folder.logged_losses("whole"), folder.logged_losses("parts"));
    let parts = ["--tokenizer", "bpe:270", "chars"];
    folder.refused("train --resume parts --tokenizer chars", &parts);
}

#[test]
fn resume_without_a_folder_takes_the_newest_run_or_the_out_dir() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 2 --lr-decay-steps 4"));
    folder.ok("train --resume --max-steps 3");
    folder.ok("train --resume --out-dir runs/0001 --max-steps 4");
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
    let parts = ["finished after 2 steps", "--resume run --max-steps N"];
    holds(&ran.stdout, &parts);
}

#[test]
fn another_configuration_is_refused_by_name_with_both_values() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 2 --out-dir run"));
    let parts = ["--learning-rate is 0.01", "0.5", "--init-from run"];
    folder.refused("train --resume run --learning-rate 0.5", &parts);
    let anew = format!("train {TINY} --max-steps 2 --out-dir run");
    let parts = ["there is a run in this folder", "--resume run"];
    folder.refused(&anew, &parts);
}

#[test]
fn another_folder_or_other_weights_are_refused() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 2 --out-dir run"));
    folder.ok("convert run model");
    for other in ["--out-dir elsewhere", "--init-from model"] {
        let command = format!("train --resume run {other} --max-steps 4");
        let (flag, value) = other.split_once(' ').unwrap();
        folder.misused(&command, &["--resume run", flag, value, "one of the two"]);
    }
    assert!(!folder.join("elsewhere").exists());
    folder.ok("train --resume run/checkpoints/step-00000002 --max-steps 3");
    folder.ok("train --init-from model --data data.bin --max-steps 1 --out-dir on");
    folder.ok("train --resume on --init-from model --max-steps 2");
}

#[test]
fn options_that_were_cut_are_refused_wherever_a_line_ends() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 2 --out-dir run"));
    let options = folder.join("run/options.toml");
    let text = fs::read_to_string(&options).unwrap();
    let parts = ["run/options.toml", "emptied or cut"];
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
    folder.refused("train --resume run", &["data.bin", "--data NEW"]);
    folder.ok("train --resume run --data moved.bin --max-steps 3");
    folder.ok("train --resume run --max-steps 4");
    folder.write("other.bin", [7, 0].repeat(400));
    let parts = ["other.bin", "the run began with", "moved.bin"];
    folder.refused("train --resume run --data other.bin --max-steps 5", &parts);
}

#[test]
fn a_tokenizer_that_is_not_the_checkpoints_is_refused() {
    let folder = folder();
    folder.write("text.txt", "One day the boat was gone. ".repeat(20));
    let flags = TINY.replace("data.bin --vocab-size 61", "text.txt --tokenizer chars");
    folder.ok(&format!("train {flags} --max-steps 1 --out-dir run"));
    let tokenizer = folder.join("run/tokenizer/tokenizer.json");
    let text = fs::read_to_string(&tokenizer).unwrap();
    fs::write(&tokenizer, text.replace("\"a\"", "\"z\"")).unwrap();
    let parts = [
        "run/tokenizer/tokenizer.json",
        "step-00000001/tokenizer.json",
    ];
    folder.refused("train --resume run --max-steps 2", &parts);
    fs::remove_file(&tokenizer).unwrap();
    folder.ok("train --resume run --max-steps 2");
    assert_eq!(fs::read_to_string(&tokenizer).unwrap(), text);
}

#[test]
fn a_run_without_its_checkpoints_neither_goes_on_nor_begins_anew_over_its_results() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 2 --out-dir run"));
    let left = || (folder.files("run/model"), folder.log("run"));
    let before = left();
    fs::rename(folder.join("run/checkpoints"), folder.join("away")).unwrap();
    folder.refused(
        "train --resume run",
        &["run", "no checkpoint", "--config run/options.toml"],
    );
    let anew = format!("train {TINY} --max-steps 2 --out-dir run");
    folder.refused(&anew, &["run", "log.jsonl", "--resume run"]);
    assert!(left() == before);
}
