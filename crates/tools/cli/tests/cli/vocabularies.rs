//! Tests models that have their own tokenizers. Each tokenizer is trained, saved and loaded again.
//! It must never be replaced with the tokenizer of a different model.

use std::fs;

use crate::support::{Folder, TINY, folder, holds};

const TEXT: &str = "One day the boat was gone. The next day it was back, and nobody knew why. ";

/// Command that trains a small model on `text.txt`.
const SMALL: &str = "train --data text.txt --n-layers 1 --n-heads 2 --emb-dim 8 --context-length 8 --batch-size 2 \
    --threads 1 --eval-iters 1";

fn folder_with_text() -> Folder {
    let folder = folder();
    folder.write("text.txt", TEXT.repeat(20));
    folder
}

fn ids(folder: &Folder, args: &str) -> String {
    folder.ok(&format!("tokenize --ids {args}")).stdout
}

#[test]
fn a_tokenizer_of_the_data_is_in_the_run_and_in_every_model_that_comes_of_it() {
    let folder = folder_with_text();
    for (tokenizer, run) in [("bpe:280", "pairs"), ("chars", "letters")] {
        folder.ok(&format!(
            "{SMALL} --tokenizer {tokenizer} --max-steps 2 --out-dir {run}"
        ));
        folder.ok(&format!("convert {run} {run}-hf"));
        folder.ok(&format!("convert {run} {run}-book --layout book"));
        let expected = ids(&folder, &format!("-m {run} -f text.txt"));
        for model in [
            format!("{run}/checkpoints/step-00000002"),
            format!("{run}-hf"),
            format!("{run}-book"),
        ] {
            let ours = ids(&folder, &format!("-m {model} -f text.txt"));
            assert_eq!(ours, expected, "{model}");
            let inspected = |model: &str| folder.json(&format!("inspect the -m {model}"));
            assert_eq!(inspected(&model), inspected(run), "{model}");
        }
        // Fine-tuning a model uses the model's own tokenizer.
        folder.ok(&format!(
            "{SMALL} --init-from {run}-hf --max-steps 1 --out-dir {run}-on"
        ));
        assert_eq!(ids(&folder, &format!("-m {run}-on -f text.txt")), expected);
        folder.refused(
            &format!("{SMALL} --init-from {run} --tokenizer chars"),
            &["--tokenizer chars", "its own tokenizer"],
        );
    }
    assert!(ids(&folder, "-m letters boat").len() > ids(&folder, "-m pairs boat").len());
    folder.ok(&format!(
        "{SMALL} --tokenizer pairs --max-steps 1 --out-dir again"
    ));
    assert_eq!(ids(&folder, "-m again boat"), ids(&folder, "-m pairs boat"));
}

#[test]
fn ids_of_an_unknown_vocabulary_stay_ids() {
    let folder = folder();
    let ran = folder.ok(&format!("train {TINY} --max-steps 2 --out-dir run"));
    let mut lines = ran.stdout.lines();
    let sample = lines
        .find_map(|line| line.strip_prefix("sample: "))
        .unwrap();
    let ids = sample.replace(['[', ']'], "");
    let are_ids = ids.split(' ').all(|id| id.parse::<u32>().is_ok());
    assert!(are_ids, "{sample}");
    let report = folder.json("generate -m run --tokens 5,6 -n 4 --temp 0");
    let new = report["tokens"].as_array().unwrap().iter();
    let new: Vec<String> = new.map(ToString::to_string).collect();
    assert_eq!(new.len(), 4, "nothing ends its texts");
    assert_eq!(report["text"], new.join(" "));
    let shown = folder.ok("generate -m run --tokens 5,6 -n 4 --temp 0");
    assert_eq!(shown.stdout, format!("5 6 {}\n", new.join(" ")));
    folder.refused(
        "generate -m run Once",
        &["no tokenizer", "61 tokens", "--tokens"],
    );
    folder.refused(
        "generate -m run --tokens 5 --stop x",
        &["--stop", "no tokenizer"],
    );
}

/// Checks that commands reject a text if one of its tokens has an ID that is too large for the
/// model. For this purpose, the tokenizer of a model with 270 tokens is replaced with that of a
/// model with 280 tokens.
#[test]
fn a_token_that_the_model_has_no_row_for_is_named_in_every_command() {
    let folder = folder_with_text();
    for (size, run) in [(270, "run"), (280, "other")] {
        folder.ok(&format!(
            "{SMALL} --tokenizer bpe:{size} --max-steps 1 --out-dir {run}"
        ));
    }
    folder.ok("convert run model");
    for (name, bytes) in folder.files("other/checkpoints/step-00000001") {
        if name.starts_with("tokenizer") {
            folder.write(&format!("model/{name}"), bytes);
        }
    }
    folder.write("end.txt", "boat<|endoftext|>");
    let refusal = ["\"<|endoftext|>\" (ID 279)", "270 tokens"];
    for command in [
        "generate <|endoftext|>",
        "generate -i <|endoftext|>",
        "inspect -f end.txt",
        "eval end.txt",
    ] {
        folder.refused(&format!("{command} -m model"), &refusal);
    }
}

#[test]
fn a_folder_may_have_a_tokenizer_alone_or_gpt2s_size_and_none() {
    let folder = folder_with_text();
    folder.ok(&format!(
        "{SMALL} --tokenizer chars --max-steps 1 --out-dir run"
    ));
    let expected = ids(&folder, "-m run boat");
    fs::create_dir(folder.join("tokenizer")).unwrap();
    for (name, bytes) in folder.files("run/checkpoints/step-00000001") {
        if name.starts_with("tokenizer") {
            folder.write(&format!("tokenizer/{name}"), bytes);
        }
    }
    assert_eq!(ids(&folder, "-m tokenizer boat"), expected);
    // `gpt tokenize` must also print the command that trains a model on the token IDs it has
    // written.
    let told = folder
        .ok("tokenize -m tokenizer -f text.txt -o ids.bin")
        .stderr;
    let hint = "train --data ids.bin --tokenizer tokenizer";
    holds(&told, &[hint]);
    let flags = SMALL.replace("train --data text.txt", hint);
    folder.ok(&format!("{flags} --max-steps 1 --out-dir again"));
    assert_eq!(ids(&folder, "-m again boat"), expected);
    let unknown = folder
        .ok("generate -m run \u{65e5}boat -n 1 --seed 1")
        .stderr;
    holds(&unknown, &["doesn't contain '\u{65e5}'"]);

    folder.ok(&format!(
        "{SMALL} --tokenizer gpt2 --max-steps 1 --out-dir gpt2"
    ));
    assert_eq!(ids(&folder, "-m gpt2 boat"), ids(&folder, "boat"));
    fs::create_dir(folder.join("bare")).unwrap();
    for name in ["config.json", "model.safetensors"] {
        folder.write(
            &format!("bare/{name}"),
            &folder.files("gpt2/checkpoints/step-00000001")[name],
        );
    }
    let told = folder.ok("generate -m bare boat -n 1 --seed 1").stderr;
    holds(&told, &["this folder contains no tokenizer", "GPT-2's"]);
}

#[test]
fn a_models_own_tokens_end_its_texts() {
    let folder = folder_with_text();
    folder.ok(&format!(
        "{SMALL} --tokenizer bpe:270 --max-steps 2 --out-dir run"
    ));
    folder.ok("convert run model");
    let generate = |more: &str| folder.json(&format!("generate -m model the -n 6 --temp 0 {more}"));
    let free = generate("--ignore-eos");
    let tokens = free["tokens"].as_array().unwrap();
    let config = folder.join("model/generation_config.json");
    for (value, ends) in [
        (format!("[269, {}]", tokens[2]), true),
        ("null".to_owned(), false),
    ] {
        fs::write(&config, format!("{{\"eos_token_id\": {value}}}")).unwrap();
        let report = generate("");
        let first = tokens.iter().position(|id| *id == tokens[2]).unwrap();
        let expected = if ends { &tokens[..first] } else { &tokens[..] };
        let new = report["tokens"].as_array().unwrap();
        let new = new.strip_suffix(&tokens[first..=first]).unwrap_or(new);
        assert_eq!(new, expected, "{value}");
        assert_eq!(report["finish"], if ends { "stop" } else { "length" });
    }
}

/// Checks that a conversion to GGUF prints a note if the tokenizer has settings that llama.cpp
/// ignores, such as `lstrip` of an added token. We found out in an experiment with xllamacpp
/// 2026.10 that it supports such tokens, but ignores these settings.
#[test]
fn tokens_that_llama_cpp_finds_elsewhere_are_named() {
    let folder = folder_with_text();
    folder.ok(&format!(
        "{SMALL} --tokenizer bpe:270 --max-steps 1 --out-dir run"
    ));
    folder.ok("convert run model");
    assert!(
        !folder
            .ok("convert model plain.gguf")
            .stderr
            .contains("llama.cpp")
    );
    let path = folder.join("model/tokenizer.json");
    let text = fs::read_to_string(&path).unwrap();
    let stripping = text.replacen("\"lstrip\": false", "\"lstrip\": true", 1);
    assert_ne!(text, stripping);
    fs::write(path, stripping).unwrap();
    let told = folder.ok("convert model stripping.gguf").stderr;
    holds(
        &told,
        &["llama.cpp ignores the settings lstrip", "\"<|endoftext|>\""],
    );
}
