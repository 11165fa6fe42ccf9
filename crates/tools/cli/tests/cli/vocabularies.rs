//! Models with their own tokenizers: trained, kept, read again, and never taken for another's.

use std::fs;

use crate::support::{Folder, TINY, folder, holds};

const TEXT: &str = "One day the boat was gone. The next day it was back, and nobody knew why. ";

/// `train` on `text.txt`.
const SMALL: &str = "train --data text.txt --n-layers 1 --n-heads 2 --emb-dim 8 --context-length 8 --batch-size 2 \
    --threads 1 --eval-iters 1 --sample-tokens 2";

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
        folder.ok(&format!("convert {run} {run}-book --to book"));
        let step = folder.checkpoint(run);
        let step = step.strip_prefix(&*folder).unwrap().display();
        let expected = ids(&folder, &format!("-m {run} -f text.txt"));
        for model in [
            format!("{run}/model"),
            format!("{run}/tokenizer"),
            step.to_string(),
        ] {
            let config = folder.join(&model).join("tokenizer_config.json");
            assert!(config.exists(), "{model}");
        }
        for model in [
            format!("{run}/model"),
            format!("{run}-hf"),
            format!("{run}-book"),
        ] {
            let ours = ids(&folder, &format!("-m {model} -f text.txt"));
            assert_eq!(ours, expected, "{model}");
            let text = format!("generate the -m {model} --temp 0 -n 4");
            assert_eq!(
                folder.ok(&text).stdout,
                folder.ok(&text.replace(&model, run)).stdout
            );
        }
        // A model of this tokenizer goes on with it, on another text.
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
    for from in ["pairs-hf", "pairs"] {
        let args = format!("{SMALL} --tokenizer {from} --max-steps 1 --out-dir again-{from}");
        folder.ok(&args);
        let again = ids(&folder, &format!("-m again-{from} boat"));
        assert_eq!(again, ids(&folder, "-m pairs boat"));
    }
}

#[test]
fn ids_of_an_unknown_vocabulary_stay_ids() {
    let folder = folder();
    let ran = folder.ok(&format!("train {TINY} --max-steps 2 --out-dir run"));
    let mut lines = ran.stdout.lines();
    let sample = lines
        .find_map(|line| line.strip_prefix("sample: "))
        .unwrap();
    let are_ids = sample.split(' ').all(|id| id.parse::<u32>().is_ok());
    assert!(are_ids, "{sample}");
    let report = folder.json("generate -m run --tokens 5,6 -n 4 --temp 0");
    let new = report["tokens"].as_array().unwrap().iter();
    let new: Vec<String> = new.map(ToString::to_string).collect();
    assert_eq!(new.len(), 4, "nothing ends its texts");
    assert_eq!(report["text"], new.join(" "));
    let shown = folder.ok("generate -m run --tokens 5,6 -n 4 --temp 0");
    assert_eq!(shown.stdout, format!("5 6 {}\n", new.join(" ")));
    for args in [
        "generate -m run Once",
        "eval -m run -f run/log.jsonl",
        "logits -m run Once",
        "tokenize -m run Once",
    ] {
        folder.refused(args, &["no tokenizer", "61 tokens", "--tokens"]);
    }
    folder.refused(
        "generate -m run --tokens 5 --stop x",
        &["--stop", "no tokenizer"],
    );
    // In each checkpoint: the best one counts, which need not be the newest.
    for entry in fs::read_dir(folder.join("run/checkpoints")).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            fs::write(path.join("vocab.txt"), "[PAD]\n").unwrap();
        }
    }
    folder.refused(
        "generate -m run Once",
        &["vocab.txt", "WordPiece", "--tokens"],
    );
    folder.ok("generate -m run --tokens 5 -n 1");
}

/// The tokenizer of `run/model` becomes that of another run: a model of 270 tokens has one of 280.
fn folder_with_added_tokens() -> Folder {
    let folder = folder_with_text();
    for (size, run) in [(270, "run"), (280, "other")] {
        folder.ok(&format!(
            "{SMALL} --tokenizer bpe:{size} --max-steps 1 --out-dir {run}"
        ));
    }
    for name in ["tokenizer.json", "vocab.json", "merges.txt"] {
        let _ = fs::copy(
            folder.join("other/tokenizer").join(name),
            folder.join("run/model").join(name),
        );
    }
    folder
}

#[test]
fn a_token_that_the_model_has_no_row_for_is_named_in_every_command() {
    let folder = folder_with_added_tokens();
    folder.write("end.txt", "boat<|endoftext|>");
    let refusal = ["\"<|endoftext|>\" has id 279", "270 rows of embeddings"];
    for command in [
        "generate <|endoftext|>",
        "generate --prompts end.txt",
        "generate -i <|endoftext|>",
        "logits -f end.txt",
        "inspect -f end.txt",
        "eval end.txt",
    ] {
        folder.refused(&format!("{command} -m run/model"), &refusal);
    }
}

#[test]
fn a_folder_may_have_a_tokenizer_alone_or_gpt2s_size_and_none() {
    let folder = folder_with_text();
    folder.ok(&format!(
        "{SMALL} --tokenizer chars --max-steps 1 --out-dir run"
    ));
    let expected = ids(&folder, "-m run boat");
    assert_eq!(ids(&folder, "-m run/tokenizer boat"), expected);
    // What is written with it says how it is trained on.
    let told = folder
        .ok("tokenize -m run/tokenizer -f text.txt -o ids.bin")
        .stdout;
    let hint = "train --data ids.bin --tokenizer run/tokenizer";
    holds(&told, &[hint]);
    let flags = SMALL.replace("train --data text.txt", hint);
    folder.ok(&format!("{flags} --max-steps 1 --out-dir again"));
    assert_eq!(ids(&folder, "-m again boat"), expected);
    let unknown = folder
        .ok("generate -m run \u{65e5}boat -n 1 --seed 1")
        .stderr;
    holds(&unknown, &["lacks '\u{65e5}'"]);

    folder.ok(&format!(
        "{SMALL} --tokenizer gpt2 --max-steps 1 --out-dir gpt2"
    ));
    assert_eq!(ids(&folder, "-m gpt2 boat"), ids(&folder, "boat"));
    for entry in fs::read_dir(folder.join("gpt2/model")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if !["config.json", "model.safetensors"].contains(&name) {
            fs::remove_file(path).unwrap();
        }
    }
    let told = folder
        .ok("generate -m gpt2/model boat -n 1 --seed 1")
        .stderr;
    holds(&told, &["no tokenizer in this folder", "GPT-2's"]);
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
    for (said, ends) in [
        (format!("[269, {}]", tokens[2]), true),
        ("null".to_owned(), false),
    ] {
        fs::write(&config, format!("{{\"eos_token_id\": {said}}}")).unwrap();
        let report = generate("");
        let first = tokens.iter().position(|id| *id == tokens[2]).unwrap();
        let expected = if ends { &tokens[..first] } else { &tokens[..] };
        let new = report["tokens"].as_array().unwrap();
        let new = new.strip_suffix(&tokens[first..=first]).unwrap_or(new);
        assert_eq!(new, expected, "{said}");
        assert_eq!(report["finish"], if ends { "stop" } else { "length" });
        // A model that goes on from it ends where it ends.
        folder.ok(&format!("convert model again-{ends}"));
        assert_eq!(
            folder.json(&format!("generate -m again-{ends} the -n 6 --temp 0"))["tokens"],
            report["tokens"]
        );
    }
}

#[test]
fn tokenizers_that_cannot_be_made_are_refused_by_name() {
    let folder = folder_with_text();
    for (train, parts) in [
        ("SMALL --tokenizer bpe:9999", ["9999", "take more text"]),
        ("SMALL --tokenizer word", ["word", "bpe:N"]),
        ("SMALL --tokenizer text.txt", ["text.txt", "tokenizer.json"]),
        ("train TINY --tokenizer chars", ["chars", "token ids"]),
        (
            "SMALL --tokenizer bpe:300 --vocab-size 299",
            ["--vocab-size 299", "300"],
        ),
    ] {
        let train = train.replace("SMALL", SMALL).replace("TINY", TINY);
        folder.refused(&train, &parts);
    }
}
