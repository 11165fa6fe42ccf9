//! Tests how text is converted to token IDs, and how the settings in a model's folder are copied to
//! other folders and to GGUF files. The expected values come from version 5.24 of transformers and
//! version 0.19 of gguf-py, or were counted by hand.

use std::fs;

use crate::support::{folder, holds};

const SMALL: &str = "--n-layers 1 --n-heads 1 --emb-dim 8 --context-length 8 --batch-size 2 \
    --max-steps 1 --threads 1 --eval-iters 1 --sample-interval 0";

#[test]
fn one_end_stands_between_two_texts_whichever_of_them_has_it() {
    let folder = folder();
    let mark = "<|endoftext|>";
    // When two texts are joined to form training data, exactly one end-of-text token must separate
    // them, whether or not the texts themselves begin or end with such a token. Each text has three
    // other tokens, so the total must be 7.
    for (case, first, second, tokens) in [
        ("none", "abc".to_owned(), "cba".to_owned(), 7),
        ("before", "abc".to_owned(), format!("{mark}cba"), 7),
        ("behind", format!("abc{mark}"), "cba".to_owned(), 7),
        ("both", format!("abc{mark}"), format!("{mark}cba"), 7),
    ] {
        fs::create_dir(folder.join(case)).unwrap();
        folder.write(&format!("{case}/a.txt"), first);
        folder.write(&format!("{case}/b.txt"), second);
        let flags = format!("--data {case} --tokenizer chars --train-ratio 1 --max-length 2");
        let ran = folder.ok(&format!("train {flags} {SMALL} -o {case}-run"));
        holds(&ran.stdout, &[&format!("{tokens} tokens for training")]);
    }
}

#[test]
fn a_byte_order_mark_is_no_text_wherever_it_comes_from() {
    let folder = folder();
    folder.write("text.txt", "\u{feff}The bell");
    let count = |args: &str| folder.ok(&format!("tokenize --count {args}")).stdout;
    assert_eq!(count("-f text.txt"), "2\n");
    folder.write("story.txt", "The bell rang. ".repeat(40));
    folder.ok(&format!(
        "train --data story.txt --tokenizer bpe:265 {SMALL} -o run"
    ));
    let ids = folder.json("tokenize -m run -f text.txt")["tokens"].clone();
    let count = ids.as_array().unwrap().len();
    let turns = folder.gpt_reading(
        "generate -i -n 1 --temp 0 -m run -t 1",
        "\u{feff}The bell\n",
    );
    holds(
        &turns.stderr,
        &[&format!("processed {count} prompt tokens")],
    );
    let typed = folder
        .command_with(["tokenize", "--ids", "\u{feff}The bell"])
        .output();
    assert_eq!(typed.unwrap().stdout, b"464,8966\n");
}

#[test]
fn system_files_are_no_data_and_other_files_are_listed() {
    let folder = folder();
    fs::create_dir(folder.join("docs")).unwrap();
    folder.write("docs/A.TXT", "The bell rang. ".repeat(40));
    for name in [
        "._A.txt",
        ".#b.txt",
        "c.txt~",
        ".DS_Store",
        "code.rs",
        "table.csv",
    ] {
        folder.write(&format!("docs/{name}"), [0xff, 0xfe]);
    }
    let ran = folder.ok(&format!(
        "train --data docs --tokenizer chars {SMALL} -o run"
    ));
    let listed = "docs: training on A.TXT; skipped: .#b.txt, c.txt~, code.rs, table.csv";
    holds(&ran.stderr, &[listed]);
    fs::create_dir(folder.join("new")).unwrap();
    folder.write("new/.DS_Store", "");
    folder.ok("convert run new");
    assert!(folder.join("new/config.json").exists());
}

#[test]
fn a_short_validation_part_has_short_windows_of_its_own() {
    let folder = folder();
    folder.write("text.txt", "abcdefgh".repeat(30));
    for (ratio, note) in [
        ("0.95", "windows have only 11"),
        ("0.997", "too short, so it isn't used"),
    ] {
        let flags = format!("--data text.txt --tokenizer chars --train-ratio {ratio}");
        let context = SMALL.replace("--context-length 8", "--context-length 64");
        let ran = folder.ok(&format!("train {flags} {context} -o run{ratio}"));
        holds(&ran.stdout, &["windows of 64 tokens"]);
        holds(&ran.stderr, &[note]);
    }
}

#[test]
fn templates_and_generation_settings_go_wherever_the_model_goes() {
    let folder = folder();
    folder.write("text.txt", "The bell rang. ".repeat(40));
    folder.ok(&format!(
        "train --data text.txt --tokenizer bpe:265 {SMALL} -o first"
    ));
    folder.ok("convert first model");
    let settings = r#"{"temperature": 0.5, "top_k": 7, "do_sample": true, "max_length": 20}"#;
    folder.write("model/generation_config.json", settings);
    folder.write("model/chat_template.jinja", "{{ messages }}");
    fs::create_dir(folder.join("model/additional_chat_templates")).unwrap();
    folder.write("model/additional_chat_templates/tool.jinja", "{{ tools }}");
    let flags = "--data text.txt --max-length 8 --batch-size 2 --max-steps 1 --threads 1";
    folder.ok(&format!("train --init-from model {flags} -o run"));
    folder.ok("train --resume run --max-steps 2");
    folder.ok("convert run converted");
    folder.ok(&format!("train --init-from run {flags} -o again"));
    for of in [
        "run/checkpoints/step-00000001",
        "run/checkpoints/step-00000002",
        "converted",
        "again/checkpoints/step-00000001",
    ] {
        let read = |name: &str| fs::read_to_string(folder.join(of).join(name)).unwrap();
        assert_eq!(read("generation_config.json"), settings, "{of}");
        assert_eq!(read("chat_template.jinja"), "{{ messages }}", "{of}");
        assert_eq!(
            read("additional_chat_templates/tool.jinja"),
            "{{ tools }}",
            "{of}"
        );
    }
    folder.ok("convert run run.GGUF");
    let bytes = fs::read(folder.join("run.GGUF")).unwrap();
    let has = |text: &str| {
        bytes
            .windows(text.len())
            .any(|part| part == text.as_bytes())
    };
    for key in [
        "tokenizer.chat_template.tool",
        "tokenizer.chat_templates",
        "{{ messages }}",
        "general.sampling.temp",
        "general.sampling.top_k",
        // The tokenizer determines the end-of-text token, because `generation_config.json` doesn't
        // specify one.
        "tokenizer.ggml.eos_token_id",
    ] {
        assert!(has(key), "{key}");
    }
}

#[test]
fn a_tokenizer_file_alone_is_taken_as_it_is() {
    let folder = folder();
    folder.write("text.txt", "12 bell 12 bell ".repeat(20));
    folder.ok(&format!(
        "train --data text.txt --tokenizer bpe:262 {SMALL} -o run"
    ));
    fs::create_dir(folder.join("alone")).unwrap();
    let json = fs::read_to_string(folder.checkpoint("run").join("tokenizer.json")).unwrap();
    let spaced = json.replace("\"add_prefix_space\": false", "\"add_prefix_space\": true");
    assert_ne!(json, spaced);
    folder.write("alone/tokenizer.json", spaced);
    let ids = |of: &str, text: &str| {
        let ended = folder
            .command_with(["tokenize", "--ids", "-m", of, text])
            .output()
            .unwrap();
        String::from_utf8(ended.stdout).unwrap()
    };
    assert_eq!(ids("alone", "bell"), ids("run", " bell"));
    // If the model type is `gpt2`, transformers uses its GPT-2 tokenizer class, which adds no space
    // before a text even if `tokenizer.json` requests one. `gpt` must encode text in the same way.
    folder.write("alone/config.json", r#"{"model_type": "gpt2"}"#);
    assert_eq!(ids("alone", "bell"), ids("run", "bell"));
}

#[test]
fn a_begin_token_is_not_printed_and_an_output_has_the_format_of_its_name() {
    let folder = folder();
    folder.write("text.txt", "The bell rang. ".repeat(40));
    folder.ok(&format!(
        "train --data text.txt --tokenizer bpe:265 {SMALL} -o run"
    ));
    folder.ok("convert run model");
    let path = "model/tokenizer.json";
    let json = fs::read_to_string(folder.join(path)).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&json).unwrap();
    json["post_processor"] = serde_json::json!({
        "type": "TemplateProcessing",
        "single": [{"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}},
            {"Sequence": {"id": "A", "type_id": 0}}],
        "pair": [],
        "special_tokens": {"<|endoftext|>": {"id": "<|endoftext|>", "ids": [264], "tokens": ["<|endoftext|>"]}},
    });
    folder.write(path, json.to_string());
    let shown = folder.ok("generate -m model bell -n 1 --temp 0").stdout;
    assert!(shown.starts_with("bell"), "{shown}");
    folder.misused("tokenize bell -o ids.txt", &["ids.txt", ".bin or .npy"]);
    folder.misused(
        "convert run model.safetensors",
        &["model.safetensors", "folder"],
    );
    folder.ok("tokenize bell -o ids.npy");
    assert_eq!(folder.ok("tokenize -f ids.npy --count").stdout, "1\n");
}
