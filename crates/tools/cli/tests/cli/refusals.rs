//! Tests commands that must fail. Each command must print a single line that describes the mistake,
//! and must end with an exit code other than 0.
//!
//! These tests cover one example of each kind of error. The tests in `tests/torture` try many more
//! invalid values.

use std::fs;

use crate::support::{Folder, TINY, folder, holds, trained};

/// Runs each command in a table and asserts that it fails. Each line of the table contains the
/// expected exit code, the command and, after `->`, parts of the expected error message, separated
/// by semicolons.
#[track_caller]
fn all_refused(folder: &Folder, table: &str) {
    for line in table.lines().filter(|line| !line.is_empty()) {
        let (command, parts) = line.split_once(" -> ").expect("a command and its refusal");
        let parts: Vec<&str> = parts.split("; ").collect();
        match command.split_once(' ') {
            Some(("1", command)) => folder.refused(command, &parts),
            Some(("2", command)) => folder.misused(command, &parts),
            _ => panic!("the line must begin with an exit code, 1 or 2, got {line}"),
        }
    }
}

#[test]
fn what_train_cannot_do_is_refused_before_anything_is_written() {
    let folder = folder();
    folder.write("empty.txt", "");
    folder.write("short.txt", "Too short.");
    folder.write("latin1.txt", b"caf\xe9");
    folder.write("deep.toml", format!("a = {}", "[".repeat(100_000)));
    folder.write("text.txt", "One day the boat was gone. ".repeat(20));
    fs::create_dir(folder.join("nothing")).unwrap();
    let table = "
2 train --learning-rate NaN -> --learning-rate; NaN
2 train --dropout-build cuda -> --dropout-build; cuda
2 train --min-lr 0.1 --lr 0.01 -> --min-lr; 0.1; --learning-rate; 0.01
2 train --tokenizer bpe:-1 -> --tokenizer; bpe:-1; at least 1
2 train --max-length 9999 -> --max-length; 9999
2 train --max-steps 3 --epochs 1 -> --max-steps; --epochs
1 train --n-layers 0 -> --n-layers; 0
1 train --emb-dim 10 --n-heads 3 -> --emb-dim; --n-heads; 10; 3
1 train --n-layers 1000000000000 -> parameters
1 train --init-from nowhere -> nowhere; folder doesn't exist
1 train --emb-dim 4000000000 --n-heads 1 -> parameters
1 train --data missing.txt -> missing.txt; no such file
1 train --data empty.txt -> empty.txt; empty
1 train --data short.txt -> short.txt; --context-length
1 train --data latin1.txt -> latin1.txt; byte 3
1 train --data nothing -> nothing; train.bin
1 train TINY --tokenizer chars -> chars; token IDs
1 train TINY --data text.txt --tokenizer word -> word; bpe:N
1 train TINY --data text.txt --tokenizer bpe:270 -> --vocab-size; 270; 61
1 train --resume -> runs/; gpt train
1 train --resume nowhere -> nowhere; folder doesn't exist
1 train --resume nothing -> nothing; no run to resume
1 train --resume data.bin -> data.bin; file
1 train TINY --vocab-size 20 -> data.bin; token ID; 20
1 train TINY --out-dir data.bin -> data.bin; file
1 train --config deep.toml -> deep.toml
1 train --config missing.toml -> missing.toml; no such file
1 eval nothing --model data.bin -> nothing; folder
";
    all_refused(&folder, &table.replace("TINY", TINY));
    assert!(!folder.join("runs").exists(), "nothing was begun");
    folder.write("runs", "in the way");
    folder.refused(&format!("train {TINY}"), &["runs", "file"]);
}

#[test]
fn what_readers_of_a_model_cannot_do_is_refused_before_they_begin() {
    let table = "
2 generate Once --temp -1 -> --temperature; -1; a finite number that is at least 0
2 generate Once --temp nan -> --temperature; nan
2 generate Once --top-p 0 -> --top-p; '0'; greater than 0 and at most 1
2 generate Once --min-p 1.5 -> --min-p; 1.5; from 0 to 1
2 generate Once --repeat-penalty 0 -> --repeat-penalty; '0'; greater than 0
2 generate Once -n -1 -> --max-new-tokens; -1; at least 0
2 generate Once -n 9223372036854775808 -> --max-new-tokens; less than 2^63
2 generate Once --top-k -5 -> --top-k; -5; at least 0
2 generate Once -c 0 -> --context-size; at least 1
2 generate Once --num-samples 0 -> --num-samples; at least 1
2 inspect Once --top 0 -> --top; at least 1
2 eval --tokens -1 -> --tokens; -1; from 0 to 4294967295
2 generate Once --dtype f64 -> --dtype; f64
2 generate Once --stop= -> --stop; value
1 generate Once -c 17 -> 17; 16
1 generate --tokens LONG -> 17; 16; --past-context crop
1 generate --tokens 400 -> 400
1 generate -f long.bin -> 1500000000; 16; --past-context crop
1 inspect -f long.bin -> 1500000000; 16
1 inspect --tokens LONG -> 17; 16
1 eval --tokens 1 -> at least 2 tokens
1 eval -f missing.txt -> missing.txt
2 eval -> FILE
";
    // Creates a file of 1.5 billion token IDs. Commands must reject this file because of its
    // length, without reading it into memory.
    let long = fs::File::create(trained().join("long.bin")).unwrap();
    long.set_len(3_000_000_000).unwrap();
    all_refused(trained(), &table.replace("LONG", &["5"; 17].join(",")));
}

#[test]
fn models_that_are_none_are_refused() {
    let folder = folder();
    folder.refused("generate Once", &["gpt train", "runs/"]);
    fs::create_dir(folder.join("empty")).unwrap();
    folder.ok(&format!("train {TINY} --max-steps 1"));
    folder.ok("convert runs/0001 model");
    folder.write("model/model.safetensors", [1, 2, 3]);
    let table = "
1 generate Once -m nowhere -> nowhere; folder doesn't exist
1 generate Once -m empty -> empty; config.json
1 generate Once -m runs -> runs; contains runs; runs/0001
1 generate Once -m data.bin -> data.bin; folder; file
1 inspect --tokens 1 -m model -> model.safetensors; 3 bytes
2 convert runs/0001 other --layout book --dtype f16 -> --dtype
";
    all_refused(&folder, table);
}

#[test]
fn hints_say_cargo_gpt_only_if_cargo_run_started_the_program() {
    let folder = folder();
    // `cargo watch` sets only the variable `CARGO`.
    for (variables, program) in [
        (&[("CARGO", "cargo")][..], "`gpt train`"),
        (
            &[("CARGO", "cargo"), ("CARGO_PKG_NAME", "cli")],
            "`cargo gpt train`",
        ),
    ] {
        let mut command = folder.command("info");
        let ended = command.envs(variables.iter().copied()).output().unwrap();
        holds(&String::from_utf8(ended.stderr).unwrap(), &[program]);
    }
}

/// MPI launchers set environment variables that tell each process its rank and, in most cases, the
/// total number of processes. The test sets such variables. A build without MPI must refuse to
/// train, unless the variables say that there is only one process.
#[cfg(not(feature = "mpi"))]
#[test]
fn a_process_of_a_job_does_not_train_alone() {
    let folder = folder();
    for (variables, part) in [
        (vec![("PMI_RANK", "0"), ("PMI_SIZE", "2")], "2 processes"),
        (vec![("PMIX_RANK", "0")], "unset PMIX_RANK"),
    ] {
        let mut command = folder.command(&format!("train {TINY} --max-steps 1"));
        let ended = command.envs(variables).output().unwrap();
        let stderr = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{stderr}");
        holds(&stderr, &["this build of gpt doesn't support MPI", part]);
    }
    let mut one = folder.command(&format!("train {TINY} --max-steps 1"));
    let one = one.env("PMI_RANK", "0").env("PMI_SIZE", "1").status();
    assert!(one.unwrap().success());
}
