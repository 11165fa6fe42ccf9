//! Configurations that lie: each is refused in one line that names the file and the key.

use std::fs;

use checkpoint::{load_config, load_model};

use crate::support::{Broken, SMALL};

const FILE: &str = "config.json";

fn replaced(from: &str, to: &str) -> impl Fn(String) -> String {
    move |text| text.replacen(from, to, 1)
}

fn hugging_face_refused(from: &str, to: &str, parts: &[&str]) {
    let folder = Broken::hugging_face();
    folder
        .change_config(replaced(from, to))
        .is_refused(FILE, parts);
}

fn book_refused(from: &str, to: &str, parts: &[&str]) {
    let folder = Broken::book();
    folder
        .change_config(replaced(from, to))
        .is_refused(FILE, parts);
}

#[test]
fn keys_that_are_missing() {
    for key in ["vocab_size", "n_positions", "n_embd", "n_head", "n_layer"] {
        let quoted = format!("\"{key}\"");
        hugging_face_refused(
            &quoted,
            "\"something_else\"",
            &[&format!("{key} is missing")],
        );
    }
    for key in [
        "vocab_size",
        "context_length",
        "emb_dim",
        "n_heads",
        "n_layers",
        "qkv_bias",
    ] {
        let folder = Broken::book();
        folder.change_config(|text| {
            let lines = text
                .lines()
                .filter(|line| !line.contains(&format!("\"{key}\"")));
            lines.collect::<Vec<_>>().join("\n")
        });
        folder.is_refused(FILE, &[&format!("{key} is missing")]);
    }
}

#[test]
fn sizes_that_make_no_model() {
    hugging_face_refused(
        "\"n_head\": 2",
        "\"n_head\": 3",
        &["n_embd is 8", "n_head is 3"],
    );
    book_refused(
        "\"n_heads\": 2",
        "\"n_heads\": 3",
        &["emb_dim is 8", "n_heads is 3"],
    );
    for (key, value) in [
        ("n_layer", 2),
        ("vocab_size", 11),
        ("n_positions", 6),
        ("n_embd", 8),
        ("n_head", 2),
    ] {
        let from = format!("\"{key}\": {value}");
        for wrong in [
            "0",
            "-1",
            "2.5",
            "2.0",
            "\"2\"",
            "true",
            "[2]",
            "{}",
            "1e3",
            "18446744073709551616",
        ] {
            hugging_face_refused(&from, &format!("\"{key}\": {wrong}"), &[key, "at least 1"]);
        }
    }
    for (key, value) in [("n_layers", 2), ("vocab_size", 11), ("context_length", 6)] {
        let from = format!("\"{key}\": {value}");
        book_refused(&from, &format!("\"{key}\": 0"), &[key, "at least 1", "0"]);
    }
}

#[test]
fn numbers_that_would_fill_the_memory_are_checked_against_the_files() {
    for (from, to) in [
        ("\"n_layer\": 2", "\"n_layer\": 1000000000000"),
        ("\"n_positions\": 6", "\"n_positions\": 1000000000000000"),
        ("\"n_embd\": 8", "\"n_embd\": 18446744073709551614"),
        ("\"n_inner\": null", "\"n_inner\": 9223372036854775807"),
        ("\"vocab_size\": 11", "\"vocab_size\": 4611686018427387904"),
    ] {
        let folder = Broken::hugging_face();
        folder.change_config(replaced(from, to));
        folder.is_refused_somewhere(&[]);
    }
    let folder = Broken::book();
    folder.change_config(replaced("\"n_layers\": 2", "\"n_layers\": 1000000000000"));
    folder.is_refused_somewhere(&["trf_blocks.2.", "missing"]);
}

impl Broken {
    /// As `is_refused`, where the file to be named may be either.
    fn is_refused_somewhere(&self, parts: &[&str]) {
        self.is_refused("", parts);
    }
}

#[test]
fn ten_to_the_twelve_layers_miss_their_third() {
    let folder = Broken::hugging_face();
    folder.change_config(replaced("\"n_layer\": 2", "\"n_layer\": 1000000000000"));
    folder.is_refused_somewhere(&["h.2.ln_1.weight", "missing"]);
}

#[test]
fn unknown_keys_are_refused_in_our_own_files_only() {
    book_refused(
        "\"emb_dim\"",
        "\"emd_dim\"",
        &["\"emd_dim\"", "did you mean \"emb_dim\""],
    );
    book_refused(
        "\"n_heads\"",
        "\"n_head\"",
        &["\"n_head\"", "did you mean \"n_heads\""],
    );
    book_refused(
        "\"format\"",
        "\"learning_rate\": 1, \"format\"",
        &["unknown key \"learning_rate\""],
    );
    book_refused("\"book\"", "\"brook\"", &["format", "\"brook\""]);
    let folder = Broken::hugging_face();
    folder.change_config(replaced(
        "\"model_type\"",
        "\"learning_rate\": 1, \"model_type\"",
    ));
    load_model(folder.path()).unwrap();
}

#[test]
fn rates_and_epsilons_out_of_range() {
    for wrong in ["1.0", "1", "1.5", "-0.1", "\"0.1\"", "1e999"] {
        let part = if wrong == "1e999" { "" } else { "attn_pdrop" };
        hugging_face_refused(
            "\"attn_pdrop\": 0.3",
            &format!("\"attn_pdrop\": {wrong}"),
            &[part],
        );
        let part = if wrong == "1e999" {
            ""
        } else {
            "drop_rate_attn"
        };
        book_refused(
            "\"drop_rate_attn\": 0.3",
            &format!("\"drop_rate_attn\": {wrong}"),
            &[part],
        );
    }
    hugging_face_refused(
        "\"attn_pdrop\": 0.3",
        "\"attn_pdrop\": NaN",
        &["not a JSON object"],
    );
    for wrong in ["-1e-5", "1e300", "\"a\"", "[]"] {
        hugging_face_refused(
            "\"layer_norm_epsilon\": 0.00001",
            &format!("\"layer_norm_epsilon\": {wrong}"),
            &["layer_norm_epsilon", "finite"],
        );
    }
}

#[test]
fn settings_that_change_the_arithmetic_are_refused_by_name() {
    for (from, to, parts) in [
        (
            "\"gelu_new\"",
            "\"silu\"",
            ["activation_function", "\"silu\""],
        ),
        ("\"gelu_new\"", "7", ["activation_function", "7"]),
        (
            "\"scale_attn_weights\": true",
            "\"scale_attn_weights\": 3",
            ["scale_attn_weights", "3"],
        ),
        (
            "\"scale_attn_by_inverse_layer_idx\": false",
            "\"scale_attn_by_inverse_layer_idx\": 3",
            ["scale_attn_by_inverse_layer_idx", "3"],
        ),
        (
            "\"add_cross_attention\": false",
            "\"add_cross_attention\": true",
            ["add_cross_attention", "true"],
        ),
        (
            "\"add_cross_attention\": false",
            "\"add_cross_attention\": 0",
            ["add_cross_attention", "true or false"],
        ),
        ("\"gpt2\"", "\"llama\"", ["model_type", "\"llama\""]),
        (
            "\"GPT2LMHeadModel\"",
            "\"GPT2ForSequenceClassification\"",
            ["architectures", "GPT2ForSequenceClassification"],
        ),
        ("\"GPT2LMHeadModel\"", "7", ["architectures", "7"]),
        (
            "\"use_cache\"",
            "\"quantization_config\": {\"bits\": 4}, \"use_cache\"",
            ["quantization_config", "an object"],
        ),
        (
            "\"use_cache\"",
            "\"pruned_heads\": {\"0\": [1]}, \"use_cache\"",
            ["pruned_heads", "an object"],
        ),
    ] {
        hugging_face_refused(from, to, &parts);
    }
    let folder = Broken::hugging_face();
    folder.change_config(replaced(
        "\"reorder_and_upcast_attn\": false",
        "\"reorder_and_upcast_attn\": true",
    ));
    folder.change_config(replaced("gelu_new", "gelu_pytorch_tanh"));
    load_model(folder.path()).unwrap();
}

#[test]
fn text_that_is_no_json_object() {
    for (text, part) in [
        ("", "not a JSON object"),
        ("[]", "an object"),
        ("nonsense", "not a JSON object"),
        ("{\"n_head\": 2", "EOF"),
        ("{} {}", "trailing"),
        ("\u{feff}{}", "byte-order mark"),
    ] {
        let folder = Broken::hugging_face();
        folder
            .change_config(|_| text.into())
            .is_refused(FILE, &[part]);
    }
    let folder = Broken::hugging_face();
    fs::write(folder.config(), b"{\"a\": \"\xff\"}").unwrap();
    folder.is_refused(FILE, &["not UTF-8", "byte 7"]);
    hugging_face_refused(
        "\"n_head\": 2",
        "\"n_head\": 2, \"n_head\": 2",
        &["\"n_head\" is there twice"],
    );
}

#[test]
fn deep_nests_and_long_texts_cost_little() {
    for deep in [
        "[".repeat(100_000),
        format!("{}{}", "[".repeat(100_000), "]".repeat(100_000)),
    ] {
        hugging_face_refused(
            "\"n_head\": 2",
            &format!("\"n_head\": {deep}"),
            &["recursion limit"],
        );
        hugging_face_refused(
            "\"n_head\"",
            &format!("\"x\": {deep}, \"n_head\""),
            &["recursion limit"],
        );
    }
    let long = "x".repeat(200_000);
    hugging_face_refused(
        "\"n_head\": 2",
        &format!("\"n_head\": \"{long}\""),
        &["n_head", "xxx…"],
    );
    book_refused(
        "\"format\"",
        &format!("\"{long}\": 1, \"format\""),
        &["unknown key \"xxx"],
    );
    let huge = "x".repeat(300_000);
    hugging_face_refused(
        "\"n_head\"",
        &format!("\"x\": \"{huge}\", \"n_head\""),
        &["more than the 262144"],
    );
    book_refused(
        "\"format\"",
        "\"new\\nline\": 1, \"format\"",
        &["new\\nline"],
    );
}

#[test]
fn windows_line_ends_are_fine() {
    for folder in [Broken::hugging_face(), Broken::book()] {
        folder.change_config(|text| text.replace('\n', "\r\n"));
        load_model(folder.path()).unwrap();
    }
}

#[test]
fn the_books_own_dictionary_is_a_configuration() {
    let folder = Broken::book();
    let text = r#"{"vocab_size": 11, "context_length": 6, "emb_dim": 8, "n_heads": 2, "n_layers": 2, "drop_rate": 0.1, "qkv_bias": true}"#;
    fs::write(folder.config(), text).unwrap();
    let config = load_config(folder.path()).unwrap();
    let expected = gpt::GptConfig {
        drop_rates: gpt::DropRates::all(0.1),
        tied: false,
        ..SMALL
    };
    assert_eq!(config, expected);
    fs::write(folder.config(), text.replace(", \"drop_rate\": 0.1", "")).unwrap();
    folder.is_refused(FILE, &["drop_rate is missing"]);
}

#[test]
fn general_names_of_sizes_are_understood() {
    let folder = Broken::hugging_face();
    for (key, general) in [
        ("n_embd", "hidden_size"),
        ("n_head", "num_attention_heads"),
        ("n_layer", "num_hidden_layers"),
        ("n_positions", "max_position_embeddings"),
    ] {
        folder.change_config(replaced(&format!("\"{key}\""), &format!("\"{general}\"")));
    }
    assert_eq!(load_config(folder.path()).unwrap(), SMALL);
}

#[test]
fn a_folder_without_configuration_says_so() {
    let folder = Broken::hugging_face();
    fs::remove_file(folder.config()).unwrap();
    folder.is_refused_somewhere(&["no config.json"]);
    let error = load_config(folder.path()).unwrap_err();
    assert!(error.to_string().contains("no config.json"), "{error}");
}
