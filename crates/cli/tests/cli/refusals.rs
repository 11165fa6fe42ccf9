//! What nobody should ask for: each is one line that names it, and an exit code that is not 0.

use std::fs;

use crate::support::{TINY, folder, gpt, ok, refused, trained};

#[test]
fn numbers_outside_their_range_are_refused_by_the_flags_name() {
    let folder = folder();
    for (flags, parts) in [
        ("--learning-rate NaN", ["--learning-rate", "NaN"]),
        ("--learning-rate=-1", ["--learning-rate", "-1"]),
        ("--learning-rate -1", ["--learning-rate", "-1"]),
        ("--max-steps -5", ["--max-steps", "-5"]),
        ("--learning-rate inf", ["--learning-rate", "inf"]),
        ("--max-steps 0", ["--max-steps", "0"]),
        ("--batch-size 0", ["--batch-size", "0"]),
        ("--stride 0", ["--stride", "0"]),
        ("--eval-interval 0", ["--eval-interval", "0"]),
        ("--drop-rate 1", ["--drop-rate", "1"]),
        ("--drop-rate NaN", ["--drop-rate", "NaN"]),
        ("--beta2 1", ["--beta2", "1"]),
        ("--train-ratio 0", ["--train-ratio", "0"]),
        ("--threads 0", ["--threads", "0"]),
        ("--threads abc", ["--threads", "abc"]),
        (
            "--seed 18446744073709551616",
            ["--seed", "18446744073709551616"],
        ),
        ("--seed=-1", ["--seed", "-1"]),
        ("--n-layers 1.5", ["--n-layers", "1.5"]),
        ("--dropout-build cuda", ["--dropout-build", "cuda"]),
        ("--max-length 9999", ["--max-length", "9999"]),
    ] {
        refused(folder.path(), &format!("train {flags}"), 2, &parts);
    }
    assert!(!folder.path().join("runs").exists(), "nothing was begun");
}

#[test]
fn models_that_cannot_be_are_refused() {
    let folder = folder();
    for (flags, parts) in [
        ("--n-layers 0", ["n_layers", "0"]),
        ("--vocab-size 0", ["vocab_size", "0"]),
        ("--emb-dim 10 --n-heads 3", ["10", "3"]),
        ("--n-layers 1000000000000", ["parameters", ""]),
        ("--emb-dim 4000000000 --n-heads 1", ["parameters", ""]),
    ] {
        refused(folder.path(), &format!("train {flags}"), 1, &parts);
    }
}

#[test]
fn data_that_cannot_be_read_is_refused_by_its_name() {
    let folder = folder();
    let path = folder.path();
    fs::write(path.join("empty.txt"), "").unwrap();
    fs::write(path.join("short.txt"), "Too short.").unwrap();
    fs::write(path.join("latin1.txt"), b"caf\xe9").unwrap();
    fs::write(path.join("odd.bin"), [1, 2, 3]).unwrap();
    fs::create_dir(path.join("nothing")).unwrap();
    for (data, parts) in [
        ("missing.txt", ["missing.txt", "no such file"]),
        ("empty.txt", ["empty.txt", "empty"]),
        ("short.txt", ["short.txt", "--context-length"]),
        ("latin1.txt", ["latin1.txt", "byte 3"]),
        ("odd.bin", ["odd.bin", "3"]),
        ("nothing", ["nothing", "train.bin"]),
    ] {
        refused(path, &format!("train --data {data}"), 1, &parts);
    }
    refused(
        path,
        &format!("train {TINY} --vocab-size 20").replace("--vocab-size 61", ""),
        1,
        &["data.bin", "id ", "20"],
    );
    refused(
        path,
        &format!(
            "train {} ",
            TINY.replace("--batch-size 4", "--batch-size 4000")
        ),
        1,
        &["data.bin", "4000", "--batch-size"],
    );
    refused(
        path,
        "eval --data nothing --model data.bin",
        1,
        &["nothing", "folder"],
    );
}

#[test]
fn config_files_are_refused_by_file_and_key() {
    let folder = folder();
    let path = folder.path();
    for (text, parts) in [
        ("learnign_rate = 1", ["learnign_rate", "learning_rate"]),
        ("n_layers = 'two'", ["n_layers", "two"]),
        ("n_layers = = 2", ["line 1", ""]),
        ("seed = 18446744073709551616", ["c.toml", ""]),
        ("n_layers = -1", ["n_layers", "-1"]),
        ("learning_rate = nan", ["learning_rate", "nan"]),
    ] {
        fs::write(path.join("c.toml"), text).unwrap();
        refused(
            path,
            "train --config c.toml",
            1,
            &[&["c.toml"], &parts[..]].concat(),
        );
    }
    fs::write(path.join("c.toml"), format!("a = {}", "[".repeat(100_000))).unwrap();
    refused(path, "train --config c.toml", 1, &["c.toml"]);
    refused(
        path,
        "train --config missing.toml",
        1,
        &["missing.toml", "no such file"],
    );
}

#[test]
fn the_output_folder_must_be_free() {
    let folder = folder();
    let path = folder.path();
    refused(
        path,
        &format!("train {TINY} --max-steps 1 --out-dir data.bin"),
        1,
        &["data.bin", "file"],
    );
    fs::write(path.join("runs"), "in the way").unwrap();
    refused(
        path,
        &format!("train {TINY} --max-steps 1"),
        1,
        &["runs", "file"],
    );
}

#[test]
fn a_folder_that_another_run_uses_is_refused() {
    let folder = folder();
    let path = folder.path();
    ok(path, &format!("train {TINY} --max-steps 1 --out-dir run"));
    let lock = fs::File::options()
        .write(true)
        .open(path.join("run/.lock"))
        .unwrap();
    lock.lock().unwrap();
    refused(
        path,
        "train --resume run --max-steps 2",
        1,
        &["run", "another run"],
    );
}

#[test]
fn a_loss_that_is_no_number_stops_the_run_and_keeps_the_last_checkpoint() {
    let folder = folder();
    let path = folder.path();
    // Step 0 is sane, step 1 throws the weights away.
    let sane = "--learning-rate 0.01 --warmup-steps 2";
    let insane =
        "--learning-rate 1e30 --initial-lr 0.01 --warmup-steps 3 --grad-clip 0 --save-interval 1";
    let flags = TINY.replace(sane, insane);
    let flags = format!("train {flags} --max-steps 50 --out-dir run");
    refused(
        path,
        &flags,
        1,
        &[
            "step",
            "learning rate",
            "the last checkpoint is kept: run/checkpoints/step-",
        ],
    );
    assert!(ok(path, "info run").stdout.contains("parameters"));
}

#[test]
fn samplers_refuse_what_is_outside_their_range() {
    let folder = trained();
    for (flags, parts) in [
        ("--top-k 0", ["--top-k", "0"]),
        ("--top-p 0", ["top_p", "0"]),
        ("--top-p 1.5", ["top_p", "1.5"]),
        ("--temp -1", ["temperature", "-1"]),
        ("--temp NaN", ["temperature", "NaN"]),
        ("--temp inf", ["temperature", "inf"]),
        ("--min-p 2", ["min_p", "2"]),
        ("--repeat-penalty 0", ["repetition_penalty", "0"]),
        ("--beams 0", ["--beams", "0"]),
        (
            "--seed 18446744073709551616",
            ["--seed", "18446744073709551616"],
        ),
        ("--threads 0", ["--threads", "0"]),
        ("--precision f64", ["--precision", "f64"]),
    ] {
        refused(folder, &format!("generate Once {flags}"), 2, &parts);
    }
    refused(
        folder,
        "generate Once --top-k 50258",
        1,
        &["top_k", "50258", "50257"],
    );
    refused(folder, "generate Once -c 17", 1, &["17", "16"]);
    for beams in ["50258", "1000000007", "18446744073709551615"] {
        let flags = format!("generate Once --beams {beams}");
        refused(folder, &flags, 1, &["num_beams", beams, "50257"]);
    }
    let long: Vec<&str> = vec!["5"; 17];
    let long = long.join(",");
    refused(
        folder,
        &format!("generate --tokens {long}"),
        1,
        &["17", "16", "--past-context crop"],
    );
    refused(folder, &format!("logits --tokens {long}"), 1, &["17", "16"]);
    refused(folder, "generate --tokens 50257", 1, &["50257"]);
    refused(folder, "logits --tokens 1,x", 2, &["--tokens", "x"]);
}

#[test]
fn models_that_are_none_are_refused() {
    let folder = folder();
    let path = folder.path();
    refused(path, "generate Once", 1, &["gpt train", "runs/"]);
    refused(
        path,
        "generate Once --model nowhere",
        1,
        &["nowhere", "no such folder"],
    );
    fs::create_dir(path.join("model")).unwrap();
    refused(
        path,
        "generate Once --model model",
        1,
        &["model", "config.json"],
    );
    ok(path, &format!("train {TINY} --max-steps 1 --out-dir run"));
    ok(path, "convert run model");
    fs::write(path.join("model/model.safetensors"), [1, 2, 3]).unwrap();
    refused(
        path,
        "logits --tokens 1 --model model",
        1,
        &["model.safetensors", "3 bytes"],
    );
    refused(path, "convert run model", 1, &["model", "--force"]);
    refused(path, "convert run data.bin", 1, &["data.bin", "file"]);
}

#[test]
fn an_empty_text_is_refused_where_something_must_follow() {
    let folder = trained();
    let ran = gpt(folder, "generate");
    assert_eq!(ran.code, Some(1), "standard input is empty: {}", ran.stderr);
    assert!(ran.stderr.contains("the prompt is empty"), "{}", ran.stderr);
    refused(folder, "eval --tokens 1", 1, &["2 tokens"]);
    refused(folder, "eval --data missing.txt", 1, &["missing.txt"]);
    refused(folder, "eval", 2, &["--data"]);
}
