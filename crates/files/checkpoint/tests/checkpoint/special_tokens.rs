//! Tests which BOS, EOS and padding tokens this crate reads from the files of a model folder. The
//! expected IDs are those that transformers 5.24 uses for the same files.

use std::fs;

use checkpoint::{Dtype, SpecialTokens, save_hugging_face};
use serde_json::Value;

use crate::support::{SMALL, small_model};

/// The IDs of a model's special tokens, as these tests compare them: the ID of the BOS token, the
/// IDs of all EOS tokens, and the ID of the padding token.
type Ids = (Option<u32>, Vec<u32>, Option<u32>);

/// Returns the special tokens of a model folder in which generation_config.json and config.json
/// have the given contents, or don't exist if `None` is given. The tokenizer's BOS token has the ID
/// 31, and its EOS token has the ID 32.
fn read(generation: Option<&str>, config: Option<&str>) -> Result<Ids, String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, json) in [
        ("generation_config.json", generation),
        ("config.json", config),
    ] {
        if let Some(json) = json {
            fs::write(folder.path().join(name), json).unwrap();
        }
    }
    let tokenizer = |name: &str| match name {
        "bos_token" => Some(31),
        "eos_token" => Some(32),
        _ => None,
    };
    let tokens = SpecialTokens::of_folder(folder.path(), tokenizer);
    let prefix = format!("{}/", folder.path().display());
    let tokens = tokens.map_err(|error| error.to_string().replace(&prefix, ""))?;
    Ok((tokens.bos, tokens.eos, tokens.pad))
}

#[test]
fn each_is_what_the_first_file_says_that_says_something() {
    let all = r#"{"bos_token_id": 5, "eos_token_id": [7, 8], "pad_token_id": 9}"#;
    let other = r#"{"do_sample": true, "eos_token_id": 3}"#;
    assert_eq!(read(None, None), Ok((Some(31), vec![32], None)));
    assert_eq!(read(None, Some(all)), Ok((Some(5), vec![7, 8], Some(9))));
    assert_eq!(
        read(Some(other), Some(all)),
        Ok((Some(5), vec![3], Some(9)))
    );
    assert_eq!(
        read(Some(all), Some(other)),
        Ok((Some(5), vec![7, 8], Some(9)))
    );
    for none in ["null", "-1", "[]", "[-1]", "4294967296"] {
        let none = format!(r#"{{"eos_token_id": {none}}}"#);
        assert_eq!(
            read(Some(&none), Some(all)),
            Ok((Some(5), vec![], Some(9))),
            "{none}"
        );
    }
    // If generation_config.json exists, transformers ignores the EOS token in config.json.
    assert_eq!(read(Some("{}"), Some(all)), Ok((Some(5), vec![], Some(9))));
    // If neither the files nor the tokenizer define a BOS token, the EOS token also serves as the
    // BOS token.
    let ends = SpecialTokens::of_folder(".", |name| (name == "eos_token").then_some(7));
    assert_eq!(ends.unwrap(), SpecialTokens::between(7));
    let tokens = SpecialTokens::between(7);
    assert_eq!(tokens.clone().within(8), tokens);
    assert_eq!(tokens.within(7), SpecialTokens::default());
}

#[test]
fn what_is_no_id_is_refused_with_file_key_and_value() {
    for (generation, expected) in [
        (
            r#"{"eos_token_id": "x"}"#,
            "generation_config.json: eos_token_id must be an ID, a list of IDs or null, got \"x\"",
        ),
        (
            r#"{"eos_token_id": [1.5]}"#,
            "generation_config.json: eos_token_id must be an ID, a list of IDs or null, got 1.5",
        ),
        (
            r#"{"pad_token_id": NaN}"#,
            "generation_config.json: pad_token_id must be an ID, a list of IDs or null, got \"NaN\"",
        ),
    ] {
        assert_eq!(read(Some(generation), None), Err(expected.to_owned()));
    }
}

#[test]
fn what_is_saved_is_read_again() {
    let mut tokens = SpecialTokens::between(5);
    (tokens.eos, tokens.pad) = (vec![7, 8], Some(9));
    let folder = tempfile::tempdir().unwrap();
    let model = small_model(SMALL);
    save_hugging_face(&model, folder.path(), Dtype::Float32, &tokens).unwrap();
    let config = folder.path().join("config.json");
    let config: Value = serde_json::from_str(&fs::read_to_string(config).unwrap()).unwrap();
    assert_eq!(config["bos_token_id"], 5);
    assert_eq!(config["eos_token_id"], serde_json::json!([7, 8]));
    assert_eq!(config["pad_token_id"], 9);
    let again = SpecialTokens::of_folder(folder.path(), |_| None).unwrap();
    assert_eq!(again, tokens);
}
