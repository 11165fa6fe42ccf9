//! What nobody should ask for: each is one line that names it, and an exit code that is not 0.
//!
//! One case for each way to a refusal; which values are refused, the crates' own tests say.

use std::fs;

use crate::support::{TINY, folder, trained};

#[test]
fn numbers_outside_their_range_are_refused_by_the_flags_name() {
    let folder = folder();
    for flag in [
        "--learning-rate NaN",
        "--learning-rate=-1",
        "--max-steps -5",
        "--max-steps 0",
        "--drop-rate 1",
        "--train-ratio 0",
        "--threads 0",
        "--seed 18446744073709551616",
        "--n-layers 1.5",
        "--dropout-build cuda",
        "--max-length 9999",
    ] {
        let parts: Vec<&str> = flag.split([' ', '=']).collect();
        folder.misused(&format!("train {flag}"), &parts);
    }
    let both = ["--max-steps", "--epochs"];
    folder.misused("train --max-steps 3 --epochs 1", &both);
    assert!(!folder.join("runs").exists(), "nothing was begun");
}

#[test]
fn models_that_cannot_be_are_refused() {
    let folder = folder();
    folder.refused("train --n-layers 0", &["n_layers", "0"]);
    folder.refused("train --n-layers 1000000000000", &["parameters"]);
    let far = "train --emb-dim 4000000000 --n-heads 1";
    folder.refused(far, &["parameters"]);
}

#[test]
fn data_that_cannot_be_read_is_refused_by_its_name() {
    let folder = folder();
    folder.write("empty.txt", "");
    folder.write("short.txt", "Too short.");
    folder.write("latin1.txt", b"caf\xe9");
    fs::create_dir(folder.join("nothing")).unwrap();
    for (data, part) in [
        ("missing.txt", "no such file"),
        ("empty.txt", "empty"),
        ("short.txt", "--context-length"),
        ("latin1.txt", "byte 3"),
        ("nothing", "train.bin"),
    ] {
        folder.refused(&format!("train --data {data}"), &[data, part]);
    }
    let small = TINY.replace("--vocab-size 61", "--vocab-size 20");
    folder.refused(&format!("train {small}"), &["data.bin", "id ", "20"]);
    let large = TINY.replace("--batch-size 4", "--batch-size 4000");
    let parts = ["data.bin", "4000", "--batch-size"];
    folder.refused(&format!("train {large}"), &parts);
    folder.refused("eval nothing --model data.bin", &["nothing", "folder"]);
}

#[test]
fn config_files_are_refused_by_file_and_key() {
    let folder = folder();
    folder.write("c.toml", "learnign_rate = 1");
    let parts = ["c.toml", "learnign_rate", "learning_rate"];
    folder.refused("train --config c.toml", &parts);
    folder.write("c.toml", format!("a = {}", "[".repeat(100_000)));
    folder.refused("train --config c.toml", &["c.toml"]);
    let missing = ["missing.toml", "no such file"];
    folder.refused("train --config missing.toml", &missing);
}

#[test]
fn the_output_folder_must_be_free() {
    let folder = folder();
    let train = format!("train {TINY} --max-steps 1");
    let file = format!("{train} --out-dir data.bin");
    folder.refused(&file, &["data.bin", "file"]);
    folder.write("runs", "in the way");
    folder.refused(&train, &["runs", "file"]);
}

#[test]
fn what_generate_cannot_do_is_refused_before_it_begins() {
    let folder = trained();
    for (flags, parts) in [
        ("--top-p 1.5", ["top_p", "1.5"]),
        ("--temp -1", ["temperature", "-1"]),
        ("--beams 0", ["--beams", "0"]),
        ("--beams 2 --length-penalty nan", ["length_penalty", "NaN"]),
        ("--precision f64", ["--precision", "f64"]),
        ("--stop=", ["--stop", "empty"]),
        ("--prompts lines.txt", ["--prompts", "TEXT"]),
    ] {
        folder.misused(&format!("generate Once {flags}"), &parts);
    }
    folder.refused("generate Once -c 17", &["17", "16"]);
    for beams in ["50258", "18446744073709551615"] {
        let flags = format!("generate Once --beams {beams}");
        folder.refused(&flags, &["num_beams", beams, "50257"]);
    }
    let long = ["5"; 17].join(",");
    let parts = ["17", "16", "--past-context crop"];
    folder.refused(&format!("generate --tokens {long}"), &parts);
    folder.refused(&format!("logits --tokens {long}"), &["17", "16"]);
    folder.refused("generate --tokens 50257", &["50257"]);
    folder.refused("generate --prompts missing.txt", &["missing.txt"]);
    folder.misused("logits --tokens 1,x", &["--tokens", "x"]);
}

#[test]
fn what_eval_cannot_measure_is_refused() {
    let folder = trained();
    folder.refused("eval --tokens 1", &["2 tokens"]);
    folder.refused("eval --data missing.txt", &["missing.txt"]);
    folder.misused("eval", &["FILE"]);
}

#[test]
fn models_that_are_none_are_refused() {
    let folder = folder();
    folder.refused("generate Once", &["gpt train", "runs/"]);
    folder.refused("generate Once -m nowhere", &["nowhere", "no such folder"]);
    fs::create_dir(folder.join("model")).unwrap();
    folder.refused("generate Once -m model", &["model", "config.json"]);
    folder.ok(&format!("train {TINY} --max-steps 1"));
    folder.refused("generate Once -m runs", &["runs", "runs/0001"]);
    folder.refused("generate Once -m data.bin", &["data.bin", "folder", "file"]);
    folder.ok("convert runs/0001 model");
    folder.write("model/model.safetensors", [1, 2, 3]);
    let cut = ["model.safetensors", "3 bytes"];
    folder.refused("logits --tokens 1 -m model", &cut);
    folder.refused("convert runs/0001 model", &["model", "--force"]);
    folder.refused("convert runs/0001 data.bin", &["data.bin", "file"]);
    let hidden = ["runs/0001", "hide", "runs/0001/model"];
    folder.refused("convert model runs/0001 --force", &hidden);
    folder.refused("convert runs/0001 runs/0001", &hidden);
}
