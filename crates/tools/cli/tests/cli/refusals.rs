//! What nobody should ask for: each is one line that names it, and an exit code that is not 0.

use std::fs;

use crate::support::{TINY, folder, trained};

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
        ("--n-layers 1.5", ["--n-layers", "1.5"]),
        ("--dropout-build cuda", ["--dropout-build", "cuda"]),
        ("--max-length 9999", ["--max-length", "9999"]),
    ] {
        folder.misused(&format!("train {flags}"), &parts);
    }
    assert!(!folder.join("runs").exists(), "nothing was begun");
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
        folder.refused(&format!("train {flags}"), &parts);
    }
}

#[test]
fn data_that_cannot_be_read_is_refused_by_its_name() {
    let folder = folder();
    folder.write("empty.txt", "");
    folder.write("short.txt", "Too short.");
    folder.write("latin1.txt", b"caf\xe9");
    folder.write("odd.bin", [1, 2, 3]);
    fs::create_dir(folder.join("nothing")).unwrap();
    for (data, parts) in [
        ("missing.txt", ["missing.txt", "no such file"]),
        ("empty.txt", ["empty.txt", "empty"]),
        ("short.txt", ["short.txt", "--context-length"]),
        ("latin1.txt", ["latin1.txt", "byte 3"]),
        ("odd.bin", ["odd.bin", "3"]),
        ("nothing", ["nothing", "train.bin"]),
    ] {
        folder.refused(&format!("train --data {data}"), &parts);
    }
    folder.refused(
        &format!("train {TINY} --vocab-size 20").replace("--vocab-size 61", ""),
        &["data.bin", "id ", "20"],
    );
    folder.refused(
        &format!(
            "train {} ",
            TINY.replace("--batch-size 4", "--batch-size 4000")
        ),
        &["data.bin", "4000", "--batch-size"],
    );
    folder.refused(
        "eval --data nothing --model data.bin",
        &["nothing", "folder"],
    );
}

#[test]
fn config_files_are_refused_by_file_and_key() {
    let folder = folder();
    // What is said of each mistake, the tests of `config_file.rs` have.
    folder.write("c.toml", "learnign_rate = 1");
    folder.refused(
        "train --config c.toml",
        &["c.toml", "learnign_rate", "learning_rate"],
    );
    folder.write("c.toml", format!("a = {}", "[".repeat(100_000)));
    folder.refused("train --config c.toml", &["c.toml"]);
    folder.refused(
        "train --config missing.toml",
        &["missing.toml", "no such file"],
    );
}

#[test]
fn the_output_folder_must_be_free() {
    let folder = folder();
    folder.refused(
        &format!("train {TINY} --max-steps 1 --out-dir data.bin"),
        &["data.bin", "file"],
    );
    folder.write("runs", "in the way");
    folder.refused(&format!("train {TINY} --max-steps 1"), &["runs", "file"]);
}

#[test]
fn a_folder_that_another_run_uses_is_refused() {
    let folder = folder();
    folder.ok(&format!("train {TINY} --max-steps 1 --out-dir run"));
    let lock = fs::File::options()
        .write(true)
        .open(folder.join("run/.lock"))
        .unwrap();
    lock.lock().unwrap();
    folder.refused("train --resume run --max-steps 2", &["run", "another run"]);
}

#[test]
fn samplers_refuse_what_is_outside_their_range() {
    let folder = trained();
    for (flags, parts) in [
        ("--top-p 0", ["top_p", "0"]),
        ("--top-p 1.5", ["top_p", "1.5"]),
        ("--temp -1", ["temperature", "-1"]),
        ("--temp NaN", ["temperature", "NaN"]),
        ("--temp inf", ["temperature", "inf"]),
        ("--min-p 2", ["min_p", "2"]),
        ("--repeat-penalty 0", ["repetition_penalty", "0"]),
        ("--beams 0", ["--beams", "0"]),
        ("--beams 2 --length-penalty nan", ["length_penalty", "NaN"]),
        (
            "--seed 18446744073709551616",
            ["--seed", "18446744073709551616"],
        ),
        ("--threads 0", ["--threads", "0"]),
        ("--precision f64", ["--precision", "f64"]),
        ("--stop=", ["--stop", "empty"]),
    ] {
        folder.misused(&format!("generate Once {flags}"), &parts);
    }
    folder.refused("generate Once -c 17", &["17", "16"]);
    for beams in ["50258", "1000000007", "18446744073709551615"] {
        let flags = format!("generate Once --beams {beams}");
        folder.refused(&flags, &["num_beams", beams, "50257"]);
    }
    let long: Vec<&str> = vec!["5"; 17];
    let long = long.join(",");
    folder.refused(
        &format!("generate --tokens {long}"),
        &["17", "16", "--past-context crop"],
    );
    folder.refused(&format!("logits --tokens {long}"), &["17", "16"]);
    folder.refused("generate --tokens 50257", &["50257"]);
    folder.misused("logits --tokens 1,x", &["--tokens", "x"]);
}

#[test]
fn models_that_are_none_are_refused() {
    let folder = folder();
    folder.refused("generate Once", &["gpt train", "runs/"]);
    folder.refused(
        "generate Once --model nowhere",
        &["nowhere", "no such folder"],
    );
    fs::create_dir(folder.join("model")).unwrap();
    folder.refused("generate Once --model model", &["model", "config.json"]);
    folder.ok(&format!("train {TINY} --max-steps 1 --out-dir run"));
    folder.ok("convert run model");
    folder.write("model/model.safetensors", [1, 2, 3]);
    folder.refused(
        "logits --tokens 1 --model model",
        &["model.safetensors", "3 bytes"],
    );
    folder.refused("convert run model", &["model", "--force"]);
    folder.refused("convert run data.bin", &["data.bin", "file"]);
    let hidden = ["run", "hide", "run/model"];
    folder.refused("convert model run --force", &hidden);
    folder.refused("convert run run", &hidden);
}

#[test]
fn an_empty_text_is_refused_where_something_must_follow() {
    let folder = trained();
    folder.misused("generate Once --prompts lines.txt", &["--prompts"]);
    folder.refused("generate --prompts missing.txt", &["missing.txt"]);
    folder.refused("eval --tokens 1", &["2 tokens"]);
    folder.refused("eval --data missing.txt", &["missing.txt"]);
    folder.misused("eval", &["FILE"]);
}
