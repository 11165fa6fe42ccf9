//! Tests commands whose memory is limited. If a command needs more memory than it is allowed to
//! use, it must end with an error message that states how much memory it needs and how much is
//! free. It must not abort or be killed.
//!
//! Two related properties are tested elsewhere: `src/terminal/memory.rs` tests that the memory
//! limits of control groups are taken into account, and the crates `tokenizer` and
//! `model-tokenizer` test that encoding takes time proportional to the length of the text.

use std::fs::{self, File};
use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::sandbox::{PATIENCE, every, folder_with_a_run, gpt, gpt_under, report, words};

/// Number of tokens in the vocabulary of the model `wide`, whose token embedding takes 128 MB.
const VOCABULARY: u64 = 4_000_000;

/// Changes the vocabulary size and the context length of a model. The new weights are zeros in a
/// sparse file, which takes up almost no space on the disk.
fn enlarge(model: &Path, tokens: u64, positions: u64) {
    let config = model.join("config.json");
    let mut settings: Value =
        serde_json::from_slice(&fs::read(&config).expect("a file")).expect("JSON");
    settings["vocab_size"] = tokens.into();
    settings["n_positions"] = positions.into();
    if settings.get("n_ctx").is_some() {
        settings["n_ctx"] = positions.into();
    }
    fs::write(config, settings.to_string()).expect("a file");
    let weights = model.join("model.safetensors");
    let bytes = fs::read(&weights).expect("a file");
    let (length, rest) = bytes.split_first_chunk().expect("a header");
    let header = &rest[..u64::from_le_bytes(*length) as usize];
    let mut header: serde_json::Map<String, Value> = serde_json::from_slice(header).expect("JSON");
    header.remove("__metadata__");
    let mut end = 0;
    for (name, tensor) in &mut header {
        let rows = match name.rsplit('.').nth(1) {
            Some("wte" | "lm_head") => Some(tokens),
            Some("wpe") => Some(positions),
            _ => None,
        };
        if let Some(rows) = rows {
            tensor["shape"][0] = rows.into();
        }
        let shape = tensor["shape"].as_array().expect("a shape").iter();
        let size = 4 * shape
            .map(|n| n.as_u64().expect("a number"))
            .product::<u64>();
        tensor["data_offsets"] = json!([end, end + size]);
        end += size;
    }
    let header = serde_json::to_vec(&header).expect("JSON");
    let begin = [&(header.len() as u64).to_le_bytes(), header.as_slice()].concat();
    fs::write(&weights, &begin).expect("a file");
    let file = File::options().write(true).open(weights);
    let sized = file.expect("a file").set_len(begin.len() as u64 + end);
    sized.expect("a sparse file");
}

/// Creates a folder that contains two models and a file of 6,000 token IDs. The model `wide` has a
/// large vocabulary, and the model `long` has a long context.
fn large_models() -> TempDir {
    let folder = folder_with_a_run();
    let path = folder.path();
    for (model, tokens, positions) in [("wide", VOCABULARY, 8), ("long", 61, 30_000)] {
        let command = words(&format!("convert run {model}"));
        assert!(gpt(path, &command, PATIENCE).is_ok());
        enlarge(&path.join(model), tokens, positions);
    }
    fs::write(path.join("ids.bin"), [1u8, 0].repeat(6000)).expect("a file");
    folder
}

/// Returns commands that need more memory than a small limit allows.
fn large() -> Vec<String> {
    let precisions = ["f32", "f16", "bf16", "int8", "int4"];
    let generate = precisions.map(|precision| {
        format!("generate --tokens 1 -n 1 --temp 0 -m wide --threads 1 --dtype {precision}")
    });
    let mut commands = generate.to_vec();
    let others = [
        "eval --tokens 1,2,3 -m wide --threads 1",
        "inspect --tokens 1 -m wide --threads 1",
        "convert wide new",
        "inspect -f ids.bin -m long --threads 1 --html page",
        "inspect -f ids.bin -m long --threads 1 --json",
        "eval -f ids.bin -m long --threads 1",
        "train --data data.txt --tokenizer gpt2 --n-layers 1 --n-heads 2 --emb-dim 8 --context-length 8 --batch-size 2 --eval-iters 1 --max-steps 2 --threads 1 -o run2",
        "train --data ids.bin --init-from wide --batch-size 1 --eval-iters 1 --max-steps 1 --threads 1 -o run2",
    ];
    commands.extend(others.map(str::to_owned));
    commands
}

#[test]
fn in_little_writable_memory_what_does_not_fit_is_refused() {
    let (folder, commands) = (large_models(), large());
    let (mut cases, mut refused, mut faults) = (0, 0, Vec::new());
    let sizes = [30, 60, 100, 200, 300, 400, 500, 700, 1000];
    let all = sizes
        .iter()
        .flat_map(|size| commands.iter().map(move |command| (size, command)));
    for (size, command) in all.step_by(every(11)) {
        cases += 1;
        let shell = format!("ulimit -c 0; ulimit -d {size}000; exec");
        let ended = gpt_under(&shell, folder.path(), &words(command), PATIENCE);
        refused += usize::from(!ended.is_ok());
        let may_abort = command.contains("--tokenizer gpt2") && ended.is_out_of_memory();
        if let (Some(fault), false) = (ended.fault(), may_abort) {
            faults.push(format!("{size} MB, gpt {command}: {fault}"));
        }
        let _ = fs::remove_dir_all(folder.path().join("run2"));
    }
    println!("{refused} of {cases} commands failed because their writable memory was limited");
    report("writable memory", cases, &faults);
}
