//! Tests that each invalid configuration is rejected with a single-line error message that contains
//! the name of the file and, if possible, the invalid setting.

use std::fs;

use checkpoint::{load_config, load_model};

use crate::support::{Broken, SMALL};

const FILE: &str = "config.json";

fn replaced(from: &str, to: &str) -> impl Fn(String) -> String {
    move |text| text.replacen(from, to, 1)
}

/// Returns a function that sets a key in the JSON text of a configuration to `value`. If the text
/// already contains the key, its old value must be on the same line as the key. Otherwise, the key
/// is added.
fn set(key: &str, value: &str) -> impl Fn(String) -> String {
    move |text| {
        let quoted = format!("\"{key}\": ");
        let Some((before, rest)) = text.split_once(&quoted) else {
            return text.replacen('{', &format!("{{{quoted}{value},"), 1);
        };
        let end = rest.find([',', '\n']).expect("a line ends");
        format!("{before}{quoted}{value}{}", &rest[end..])
    }
}

fn hugging_face_refused(change: impl FnOnce(String) -> String, parts: &[&str]) {
    let folder = Broken::hugging_face();
    folder.change_config(change).is_refused(FILE, parts);
}

fn book_refused(change: impl FnOnce(String) -> String, parts: &[&str]) {
    let folder = Broken::book();
    folder.change_config(change).is_refused(FILE, parts);
}

#[test]
fn keys_that_are_missing() {
    // Each size is removed from a valid configuration in turn. If the configuration contains
    // `model_type`, the size then has GPT-2's default value, which doesn't match the tensors of the
    // small test model. Without `model_type`, sizes have no default values, so the error message
    // must contain the name of the missing size.
    for key in ["vocab_size", "n_positions", "n_embd", "n_head", "n_layer"] {
        let change = |text: String| text.replace(&format!("\"{key}\""), "\"something_else\"");
        let folder = Broken::hugging_face();
        folder.change_config(change);
        folder.is_refused("", &[]);
        folder.change_config(replaced("\"model_type\"", "\"other\""));
        folder.is_refused(FILE, &[&format!("{key} is missing")]);
    }
    for key in [
        "vocab_size",
        "context_length",
        "emb_dim",
        "n_heads",
        "n_layers",
        "qkv_bias",
    ] {
        let without = |text: String| text.replace(&format!("\"{key}\""), "\"something_else\"");
        book_refused(without, &[&format!("{key} is missing")]);
    }
}

#[test]
fn sizes_that_make_no_model() {
    hugging_face_refused(set("n_head", "3"), &["emb_dim", "8", "n_heads", "3"]);
    for key in ["n_layer", "vocab_size", "n_positions", "n_embd", "n_head"] {
        for wrong in ["0", "-1", "2.5", "\"2\"", "[2]", "18446744073709551616"] {
            hugging_face_refused(set(key, wrong), &[key, "at least 1"]);
        }
    }
    for key in ["n_layers", "vocab_size", "context_length"] {
        book_refused(set(key, "0"), &[key, "at least 1", "0"]);
    }
}

#[test]
fn numbers_that_would_fill_the_memory_are_checked_against_the_files() {
    for (key, huge) in [
        ("n_positions", "1000000000000000"),
        ("n_embd", "18446744073709551614"),
        ("n_inner", "9223372036854775807"),
        ("vocab_size", "4611686018427387904"),
    ] {
        let folder = Broken::hugging_face();
        folder.change_config(set(key, huge)).is_refused("", &[]);
    }
    for (folder, key, tensor) in [
        (Broken::hugging_face(), "n_layer", "h.2."),
        (Broken::book(), "n_layers", "trf_blocks.2."),
    ] {
        folder
            .change_config(set(key, "1000000000000"))
            .is_refused("", &[tensor, "missing"]);
    }
}

#[test]
fn rates_and_epsilons_out_of_range() {
    for wrong in ["1.5", "-0.1", "\"0.1\""] {
        hugging_face_refused(set("attn_pdrop", wrong), &["attn_pdrop"]);
        book_refused(set("drop_rate_attn", wrong), &["drop_rate_attn"]);
    }
    hugging_face_refused(set("attn_pdrop", "1e999"), &[]);
    // Checks that a dropout rate of 1 is accepted, as in PyTorch. With this rate, dropout sets all
    // values to zero during training, but has no effect during evaluation.
    let folder = Broken::hugging_face();
    folder.change_config(set("attn_pdrop", "1"));
    let rates = load_config(folder.path()).unwrap().drop_rates;
    assert_eq!(rates.attention, 1.0);
    hugging_face_refused(set("attn_pdrop", "NaN"), &["attn_pdrop", "NaN"]);
    for wrong in ["-1e-5", "1e300", "\"a\""] {
        let key = "layer_norm_epsilon";
        hugging_face_refused(set(key, wrong), &[key, "at least 0"]);
    }
}

#[test]
fn settings_that_change_the_arithmetic_are_refused_by_name() {
    for (key, value, part) in [
        ("activation_function", "\"silu\"", "\"silu\""),
        ("activation_function", "7", "7"),
        ("scale_attn_weights", "3", "3"),
        ("scale_attn_by_inverse_layer_idx", "3", "3"),
        ("add_cross_attention", "true", "true"),
        ("add_cross_attention", "0", "only false"),
        ("model_type", "\"llama\"", "\"llama\""),
        ("quantization_config", "{\"bits\": 4}", "{\"bits\":4}"),
    ] {
        hugging_face_refused(set(key, value), &[key, part]);
    }
    for (other, part) in [("\"LlamaForCausalLM\"", "LlamaForCausalLM"), ("7", "7")] {
        let change = replaced("\"GPT2LMHeadModel\"", other);
        hugging_face_refused(change, &["architectures", part]);
    }
    let folder = Broken::hugging_face();
    folder.change_config(set("reorder_and_upcast_attn", "true"));
    for same in ["gelu_pytorch_tanh", "gelu_fast"] {
        folder.change_config(set("activation_function", &format!("\"{same}\"")));
        assert_eq!(load_config(folder.path()).unwrap(), SMALL);
    }
    folder.change_config(replaced("GPT2LMHeadModel", "GPT2ForSequenceClassification"));
    load_model(folder.path()).unwrap();
}

#[test]
fn a_setting_may_have_either_of_two_names_or_both_with_one_value() {
    let folder = Broken::hugging_face();
    folder.change_config(set("num_attention_heads", "2"));
    assert_eq!(load_config(folder.path()).unwrap(), SMALL);
    let folder = Broken::hugging_face();
    for (key, other) in [
        ("n_head", "num_attention_heads"),
        ("n_layer", "num_hidden_layers"),
        ("n_embd", "hidden_size"),
        ("n_positions", "max_position_embeddings"),
    ] {
        hugging_face_refused(set(other, "4"), &[key, other, "is 4"]);
        folder.change_config(replaced(&format!("\"{key}\""), &format!("\"{other}\"")));
    }
    assert_eq!(load_config(folder.path()).unwrap(), SMALL);
}

#[test]
fn text_that_is_no_json_object() {
    for (text, part) in [
        ("", "isn't a JSON object"),
        ("[]", "a map"),
        ("nonsense", "isn't a JSON object"),
        ("{\"n_head\": 2", "EOF"),
        ("{} {}", "trailing"),
        ("\u{feff}{}", "byte-order mark"),
    ] {
        hugging_face_refused(|_| text.into(), &[part]);
    }
    let folder = Broken::hugging_face();
    fs::write(folder.config(), b"{\"a\": \"\xff\"}").unwrap();
    folder.is_refused(FILE, &["isn't valid UTF-8", "index 7"]);
}

#[test]
fn deep_nests_and_long_texts_cost_little() {
    for key in ["n_head", "x"] {
        hugging_face_refused(set(key, &"[".repeat(100_000)), &["recursion limit"]);
    }
    let long = "x".repeat(200_000);
    hugging_face_refused(set("n_head", &format!("\"{long}\"")), &["n_head", "xxx…"]);
    let huge = format!("\"{}\"", "x".repeat(300_000));
    hugging_face_refused(set("x", &huge), &["the maximum is 262144"]);
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
fn a_folder_without_configuration_says_so() {
    let folder = Broken::hugging_face();
    fs::remove_file(folder.config()).unwrap();
    folder.is_refused("", &["no config.json"]);
}
