//! Models with their own tokenizers: trained, kept, read again, and never taken for another's.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::support::{TINY, checkpoint, folder, ok, refused};

const TEXT: &str = "One day the boat was gone. The next day it was back, and nobody knew why. ";

/// `train` on `text.txt`.
const SMALL: &str = "train --data text.txt --n-layers 1 --n-heads 2 --emb-dim 8 --context-length 8 --batch-size 2 \
    --threads 1 --eval-iters 1 --sample-tokens 2";

fn folder_with_text() -> TempDir {
    let folder = folder();
    fs::write(folder.path().join("text.txt"), TEXT.repeat(20)).expect("a file");
    folder
}

fn ids(folder: &Path, args: &str) -> String {
    ok(folder, &format!("tokenize --ids {args}")).stdout
}

#[test]
fn a_tokenizer_of_the_data_is_in_the_run_and_in_every_model_that_comes_of_it() {
    let folder = folder_with_text();
    let path = folder.path();
    for (tokenizer, run) in [("bpe:280", "pairs"), ("chars", "letters"), ("gpt2", "gpt2")] {
        ok(
            path,
            &format!("{SMALL} --tokenizer {tokenizer} --max-steps 2 --out-dir {run}"),
        );
        ok(path, &format!("convert {run} {run}-hf"));
        ok(path, &format!("convert {run} {run}-book --to book --force"));
        let step = checkpoint(&path.join(run));
        let step = step.strip_prefix(path).unwrap().display();
        let expected = ids(path, &format!("-m {run} -f text.txt"));
        for model in [
            format!("{run}/model"),
            format!("{run}/tokenizer"),
            step.to_string(),
        ] {
            assert!(
                path.join(&model).join("tokenizer_config.json").exists(),
                "{model}"
            );
        }
        for model in [
            format!("{run}/model"),
            format!("{run}-hf"),
            format!("{run}-book"),
        ] {
            assert_eq!(
                ids(path, &format!("-m {model} -f text.txt")),
                expected,
                "{model}"
            );
            let text = format!("generate the -m {model} --temp 0 -n 4");
            assert_eq!(
                ok(path, &text).stdout,
                ok(path, &text.replace(&model, run)).stdout
            );
        }
        // A model of this tokenizer goes on with it, on another text.
        ok(
            path,
            &format!("{SMALL} --init-from {run}-hf --max-steps 1 --out-dir {run}-on"),
        );
        assert_eq!(ids(path, &format!("-m {run}-on -f text.txt")), expected);
        refused(
            path,
            &format!("{SMALL} --init-from {run} --tokenizer chars"),
            1,
            &["--tokenizer chars", "its own tokenizer"],
        );
    }
    assert!(ids(path, "-m letters boat").len() > ids(path, "-m pairs boat").len());
    let gpt2 = ids(path, "-f text.txt");
    assert_eq!(ids(path, "-m gpt2 -f text.txt"), gpt2);
    for from in ["pairs-hf", "pairs"] {
        let args = format!("{SMALL} --tokenizer {from} --max-steps 1 --out-dir again-{from}");
        ok(path, &args);
        let again = ids(path, &format!("-m again-{from} boat"));
        assert_eq!(again, ids(path, "-m pairs boat"));
    }
    // What was another tokenizer's is deleted.
    ok(path, "convert gpt2 pairs-hf --force");
    assert_eq!(ids(path, "-m pairs-hf -f text.txt"), gpt2);
}

#[test]
fn a_resumed_run_reads_its_tokenizer_back() {
    let folder = folder_with_text();
    let path = folder.path();
    let flags = format!("{SMALL} --tokenizer bpe:270 --lr-decay-steps 6 --drop-rate 0.1");
    ok(path, &format!("{flags} --max-steps 6 --out-dir whole"));
    ok(path, &format!("{flags} --max-steps 3 --out-dir parts"));
    ok(path, "train --resume parts --max-steps 6");
    let model =
        |run: &str| fs::read(checkpoint(&path.join(run)).join("model.safetensors")).unwrap();
    assert!(model("whole") == model("parts"));
    refused(
        path,
        "train --resume parts --tokenizer chars",
        1,
        &["--tokenizer", "bpe:270", "chars"],
    );
}

#[test]
fn ids_of_an_unknown_vocabulary_stay_ids() {
    let folder = folder();
    let path = folder.path();
    let ran = ok(path, &format!("train {TINY} --max-steps 2 --out-dir run"));
    let sample = ran
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("sample: "))
        .unwrap();
    assert!(
        sample.split(' ').all(|id| id.parse::<u32>().is_ok()),
        "{sample}"
    );
    let report = ok(path, "generate -m run --tokens 5,6 -n 4 --temp 0 --json").json();
    let new: Vec<String> = report["tokens"]
        .as_array()
        .unwrap()
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(new.len(), 4, "nothing ends its texts");
    assert_eq!(report["text"], new.join(" "));
    let shown = ok(path, "generate -m run --tokens 5,6 -n 4 --temp 0").stdout;
    assert_eq!(shown, format!("5 6 {}\n", new.join(" ")));
    for args in [
        "generate -m run Once",
        "eval -m run -f run/log.jsonl",
        "logits -m run Once",
        "tokenize -m run Once",
    ] {
        refused(path, args, 1, &["no tokenizer", "61 tokens", "--tokens"]);
    }
    refused(
        path,
        "generate -m run --tokens 5 --stop x",
        1,
        &["--stop", "no tokenizer"],
    );
    fs::write(checkpoint(&path.join("run")).join("vocab.txt"), "[PAD]\n").unwrap();
    refused(
        path,
        "generate -m run Once",
        1,
        &["vocab.txt", "WordPiece", "--tokens"],
    );
    ok(path, "generate -m run --tokens 5 -n 1");
}

#[test]
fn a_models_own_tokens_end_its_texts() {
    let folder = folder_with_text();
    let path = folder.path();
    ok(
        path,
        &format!("{SMALL} --tokenizer bpe:270 --max-steps 2 --out-dir run"),
    );
    ok(path, "convert run model");
    let generate = |more: &str| {
        ok(
            path,
            &format!("generate -m model the -n 6 --temp 0 --json {more}"),
        )
        .json()
    };
    let free = generate("--ignore-eos");
    let tokens = free["tokens"].as_array().unwrap();
    let config = path.join("model/generation_config.json");
    for (said, ends) in [
        (format!("[269, {}]", tokens[2]), true),
        (tokens[2].to_string(), true),
        ("null".to_owned(), false),
    ] {
        fs::write(&config, format!("{{\"eos_token_id\": {said}}}")).unwrap();
        let report = generate("");
        let first = tokens.iter().position(|id| *id == tokens[2]).unwrap();
        let expected = if ends { &tokens[..first] } else { &tokens[..] };
        let new = report["tokens"].as_array().unwrap();
        assert_eq!(
            new.strip_suffix(&tokens[first..=first]).unwrap_or(new),
            expected,
            "{said}"
        );
        assert_eq!(report["finish"], if ends { "stop" } else { "length" });
        // A model that goes on from it ends where it ends.
        ok(path, "convert model again --force");
        assert_eq!(
            ok(path, "generate -m again the -n 6 --temp 0 --json").json()["tokens"],
            report["tokens"]
        );
    }
}

#[test]
fn tokenizers_that_cannot_be_made_are_refused_by_name() {
    let folder = folder_with_text();
    let path = folder.path();
    for (tokenizer, parts) in [
        ("bpe:256", ["256", "257"]),
        ("bpe:9999", ["9999", "take more text"]),
        ("word", ["word", "bpe:N"]),
        ("text.txt", ["text.txt", "tokenizer.json"]),
    ] {
        refused(path, &format!("{SMALL} --tokenizer {tokenizer}"), 1, &parts);
    }
    refused(
        path,
        &format!("train {TINY} --tokenizer chars"),
        1,
        &["chars", "token ids"],
    );
    refused(
        path,
        &format!("{SMALL} --tokenizer bpe:300 --vocab-size 299"),
        1,
        &["--vocab-size 299", "300"],
    );
}
