//! Tests that token IDs and decoded text are the same as those of `AutoTokenizer` in transformers.
//! The tokenizers are loaded from folders that transformers or this crate has written. The script
//! fixtures/make.py computed the expected results.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::unwrap_used)] // a test that can't begin panics

use std::fs;
use std::path::{Path, PathBuf};

use model_tokenizer::ModelTokenizer;
use model_tokenizer::tokenizer::Tokenizer;
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

/// The results that transformers computed for the strings in texts.json.
#[derive(Deserialize)]
struct Expected {
    length: usize,
    end_of_text: Option<u32>,
    ids: Vec<Vec<u32>>,
    decoded: Vec<String>,
}

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

fn read_json<T: for<'de> Deserialize<'de>>(name: &str) -> T {
    let text = fs::read_to_string(fixtures().join(name)).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn from_folder(folder: &Path) -> ModelTokenizer {
    ModelTokenizer::from_folder(folder).unwrap().unwrap()
}

fn assert_equal(tokenizer: &ModelTokenizer, name: &str) {
    let expected: Expected = read_json(&format!("{name}.json"));
    let texts: Vec<String> = read_json("texts.json");
    assert_eq!(texts.len(), expected.ids.len());
    for (number, text) in texts.iter().enumerate() {
        let ids = tokenizer.encode(text).unwrap();
        assert_eq!(ids, expected.ids[number], "{name}, {text:?}");
        let decoded = tokenizer.decode_lossy(&ids).unwrap();
        assert_eq!(decoded, expected.decoded[number], "{name}, {text:?}");
    }
    assert_eq!(tokenizer.vocab_size(), expected.length, "{name}");
    assert_eq!(tokenizer.eos_token_id(), expected.end_of_text, "{name}");
}

/// Saves a tokenizer and checks that the written files are identical to the expected files, which
/// are in the folder of the test fixture `name`.
fn assert_saved(tokenizer: &ModelTokenizer, name: &str) {
    let folder = tempfile::tempdir().unwrap();
    tokenizer.save(folder.path()).unwrap();
    for entry in fs::read_dir(fixtures().join(name)).unwrap() {
        let path = entry.unwrap().path();
        let ours = fs::read_to_string(folder.path().join(path.file_name().unwrap())).unwrap();
        let theirs = fs::read_to_string(&path).unwrap();
        assert_eq!(ours, theirs, "{}", path.display());
    }
}

/// Returns a folder that contains the files of GPT-2's tokenizer, after `change` has been applied
/// to tokenizer.json.
fn gpt2_with(change: impl FnOnce(&mut Value)) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    ModelTokenizer::gpt2().save(folder.path()).unwrap();
    let path = folder.path().join("tokenizer.json");
    let mut json: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut json);
    fs::write(&path, json.to_string()).unwrap();
    folder
}

/// Returns a folder with the files of a tokenizer: the tokenizer.json of the test fixture "bpe",
/// and the given files, such as a tokenizer_config.json with the settings to be tested.
fn bpe_with(files: &[(&str, Value)]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = fixtures().join("bpe/tokenizer.json");
    fs::copy(tokenizer, folder.path().join("tokenizer.json")).unwrap();
    for (name, json) in files {
        fs::write(folder.path().join(name), json.to_string()).unwrap();
    }
    folder
}

/// Loads a tokenizer from the tokenizer.json of the fixture "bpe" and the given files, and encodes
/// text with it.
fn ids_with(files: &[(&str, Value)], text: &str) -> Vec<u32> {
    from_folder(bpe_with(files).path()).encode(text).unwrap()
}

#[test]
fn folders_of_others_are_read_as_transformers_reads_them() {
    for name in [
        "own_end",
        "vocab_merges",
        "legacy",
        "mask_and_literal",
        "library_file",
    ] {
        assert_equal(&from_folder(&fixtures().join(name)), name);
    }
}

#[test]
fn what_we_train_and_write_is_what_transformers_loaded() {
    let story = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../tools/cli/data/the-answering-bell.txt"
    );
    let story = fs::read_to_string(story).unwrap();
    let trained = [
        ("chars", ModelTokenizer::train_chars(&story).unwrap()),
        ("bpe", ModelTokenizer::train_bpe(&story, 400).unwrap()),
    ];
    for (name, tokenizer) in trained {
        assert_equal(&tokenizer, name);
        assert_saved(&tokenizer, name);
    }
}

/// If a folder contains exactly the files of GPT-2's tokenizer, `from_folder` recognizes them and
/// returns the built-in tokenizer.
#[test]
fn gpt2s_own_files_are_known_again_and_equal() {
    let folder = tempfile::tempdir().unwrap();
    let gpt2 = ModelTokenizer::gpt2();
    gpt2.save(folder.path()).unwrap();
    assert_equal(&gpt2, "gpt2");
    let whole = from_folder(folder.path());
    assert!(whole.is_gpt2());
    assert_equal(&whole, "gpt2");
    fs::remove_file(folder.path().join("tokenizer.json")).unwrap();
    fs::remove_file(folder.path().join("tokenizer_config.json")).unwrap();
    assert!(from_folder(folder.path()).is_gpt2());

    // If one merge is missing, the tokenizer is no longer GPT-2's.
    let merges = folder.path().join("merges.txt");
    let text = fs::read_to_string(&merges).unwrap();
    let (all_but_one, _) = text.trim_end().rsplit_once('\n').unwrap();
    fs::write(&merges, all_but_one).unwrap();
    let other = from_folder(folder.path());
    assert!(!other.is_gpt2());
    let text = "The bell rang <|endoftext|> once.";
    assert_eq!(other.encode(text).unwrap(), gpt2.encode(text).unwrap());
}

#[test]
fn a_folder_that_was_read_is_written_as_it_was() {
    for name in ["own_end", "legacy", "mask_and_literal"] {
        assert_saved(&from_folder(&fixtures().join(name)), name);
    }
}

#[test]
fn gpt2s_vocabulary_without_its_special_token_has_none() {
    let folder = gpt2_with(|json| json["added_tokens"] = json!([]));
    let config = json!({"tokenizer_class": "PreTrainedTokenizerFast"});
    let path = folder.path().join("tokenizer_config.json");
    fs::write(path, config.to_string()).unwrap();
    let tokenizer = from_folder(folder.path());
    assert!(!tokenizer.is_gpt2());
    let ids = tokenizer.encode("<|endoftext|>").unwrap();
    assert_eq!(ids, [27, 91, 437, 1659, 5239, 91, 29]);
}

const CLASSES: [&str; 2] = ["GPT2Tokenizer", "PreTrainedTokenizerFast"];

#[test]
fn tokenizer_config_says_how_an_added_token_that_both_files_have_behaves() {
    let token = |lstrip| json!({"content": "<|endoftext|>", "lstrip": lstrip, "special": true});
    for (class, lstrip) in CLASSES
        .into_iter()
        .flat_map(|class| [(class, true), (class, false)])
    {
        let mut tokenizer: Value = read_json("bpe/tokenizer.json");
        tokenizer["added_tokens"][0]["lstrip"] = (!lstrip).into();
        let config =
            json!({"tokenizer_class": class, "added_tokens_decoder": {"399": token(lstrip)}});
        let files = [
            ("tokenizer.json", tokenizer),
            ("tokenizer_config.json", config),
        ];
        let expected: &[u32] = match lstrip {
            true => &[399, 220, 258],
            false => &[220, 220, 399, 220, 258],
        };
        assert_eq!(
            ids_with(&files, "  <|endoftext|>  a"),
            expected,
            "{class}, {lstrip}"
        );
    }
}

#[test]
fn tokenizer_json_says_how_a_token_of_added_tokens_behaves() {
    let mut tokenizer: Value = read_json("bpe/tokenizer.json");
    let token = json!({"id": 400, "content": "<x>", "lstrip": true, "special": true});
    tokenizer["added_tokens"]
        .as_array_mut()
        .unwrap()
        .push(token);
    let files = [
        ("tokenizer.json", tokenizer),
        ("added_tokens.json", json!({"<x>": 400})),
    ];
    assert_eq!(ids_with(&files, "  <x>"), [400]);
}

#[test]
fn special_tokens_by_name_get_ids_in_the_order_of_the_file() {
    // Write the JSON as a string in which the names aren't in alphabetical order. The `json!` macro
    // would sort them, and the test couldn't show that the order of the file determines the IDs.
    let names = r#"{"extra_special_tokens": {"zulu": "<z>", "alpha": "<a>", "mike": "<m>"}}"#;
    for file in ["tokenizer_config.json", "special_tokens_map.json"] {
        let folder = bpe_with(&[]);
        fs::write(folder.path().join(file), names).unwrap();
        let ids = from_folder(folder.path()).encode("<z><a><m>").unwrap();
        assert_eq!(ids, [400, 401, 402], "{file}");
    }
}

/// transformers reads the class of the tokenizer from tokenizer_config.json or, if that file
/// doesn't contain it, from config.json. In this test, the class is `PreTrainedTokenizerFast`,
/// which follows the setting `add_prefix_space` in tokenizer.json.
#[test]
fn config_json_names_the_class_if_tokenizer_config_does_not() {
    let mut tokenizer: Value = read_json("bpe/tokenizer.json");
    tokenizer["pre_tokenizer"]["add_prefix_space"] = true.into();
    let files = |own: Value| {
        [
            ("tokenizer.json", tokenizer.clone()),
            ("tokenizer_config.json", own),
            ("config.json", json!({"tokenizer_class": CLASSES[1]})),
        ]
    };
    let (with_space, without) = (ids_with(&[], " bell"), ids_with(&[], "bell"));
    assert_ne!(with_space, without);
    assert_eq!(ids_with(&files(json!({})), "bell"), with_space);
    assert_eq!(
        ids_with(&files(json!({"tokenizer_class": CLASSES[0]})), "bell"),
        without
    );

    // Tests that the class of the tokenizer isn't lost when the tokenizer is saved. In the original
    // folder, only config.json contains the class, and this file isn't saved with the tokenizer.
    let (folder, saved) = (bpe_with(&files(json!({}))), tempfile::tempdir().unwrap());
    from_folder(folder.path()).save(saved.path()).unwrap();
    assert_eq!(
        from_folder(saved.path()).encode("bell").unwrap(),
        with_space
    );
    // Tests that a config.json which contains the numbers `NaN` and `-Infinity` can be loaded.
    // Python's `json` module writes them in this way, although they aren't valid JSON.
    let config = folder.path().join("config.json");
    let text = format!(
        r#"{{"a": NaN, "tokenizer_class": {:?}, "b": -Infinity}}"#,
        CLASSES[1]
    );
    fs::write(&config, text).unwrap();
    let again = from_folder(folder.path()).encode("bell").unwrap();
    assert_eq!(again, with_space);
    let other = json!({"tokenizer_class": "BertTokenizer"});
    fs::write(config, other.to_string()).unwrap();
    let error = ModelTokenizer::from_folder(folder.path()).unwrap_err();
    let message = error.to_string();
    let expected = ["/config.json: ", "BertTokenizer"];
    assert!(
        expected.iter().all(|part| message.contains(part)),
        "{message}"
    );
}

/// An added token can contain characters that represent bytes in a vocabulary. transformers decodes
/// these characters to the bytes that they represent, whereas this crate decodes an added token to
/// its own text.
///
/// If the IDs of the added tokens in tokenizer.json aren't consecutive, the tokens get consecutive
/// IDs instead, as in transformers 5.24. The setting `add_bos_token` has no effect if the folder
/// contains a tokenizer.json.
#[test]
fn added_tokens_decode_to_their_own_text_and_gaps_are_closed() {
    let texts = ["đem", "Začnimo", "été", "naïve", "<|été|>", "日本"];
    let mut tokenizer: Value = read_json("bpe/tokenizer.json");
    let added = tokenizer["added_tokens"].as_array_mut().unwrap();
    for (text, id) in texts.into_iter().zip((410..).step_by(10)) {
        added.push(json!({"id": id, "content": text, "special": false}));
    }
    let tokenizer = from_folder(bpe_with(&[("tokenizer.json", tokenizer)]).path());
    let text = texts.concat();
    let ids = tokenizer.encode(&text).unwrap();
    assert_eq!(ids, [400, 401, 402, 403, 404, 405]);
    assert_eq!(tokenizer.decode(&ids).unwrap(), text);
    assert_eq!(tokenizer.vocab_size(), 406);
    let config = json!({"add_bos_token": true, "bos_token": "<|endoftext|>"});
    let with_bos = ids_with(&[("tokenizer_config.json", config)], "a bell");
    assert_eq!(with_bos, [64, 312]);
}

/// If a tokenizer consists of vocab.json and merges.txt, the settings `add_bos_token` and
/// `add_eos_token` add the same tokens as in transformers 5.24. If there is a tokenizer.json, they
/// have no effect, as in transformers. `encode_part` never adds tokens.
#[test]
fn bos_and_eos_are_put_around_each_text_if_asked_for() {
    let cases = [
        (json!({}), &[64, 312][..], [Some(399), Some(399), None]),
        (
            json!({"add_bos_token": true, "add_eos_token": true}),
            &[399, 64, 312, 399],
            [Some(399), Some(399), None],
        ),
        (
            json!({"add_bos_token": true, "bos_token": "<s>", "pad_token": "[PAD]"}),
            &[400, 64, 312],
            [Some(400), Some(399), Some(401)],
        ),
        (
            json!({"add_bos_token": true, "bos_token": null, "add_eos_token": null}),
            &[64, 312],
            [None, Some(399), None],
        ),
    ];
    for (config, expected, names) in cases {
        let folder = tempfile::tempdir().unwrap();
        for name in ["vocab.json", "merges.txt"] {
            let from = fixtures().join("vocab_merges").join(name);
            fs::copy(from, folder.path().join(name)).unwrap();
        }
        let path = folder.path().join("tokenizer_config.json");
        fs::write(path, config.to_string()).unwrap();
        let tokenizer = from_folder(folder.path());
        let encoded: &dyn Tokenizer = &tokenizer;
        assert_eq!(encoded.encode("a bell").unwrap(), expected, "{config}");
        assert_eq!(encoded.encode_part("a bell").unwrap(), [64, 312]);
        let around = [tokenizer.ids_before(), &[64, 312], tokenizer.ids_after()];
        assert_eq!(around.concat(), expected);
        let ids = [
            tokenizer.bos_token_id(),
            tokenizer.eos_token_id(),
            tokenizer.pad_token_id(),
        ];
        assert_eq!(ids, names, "{config}");
    }
}

/// If the class is `PreTrainedTokenizerFast`, bytes that the vocabulary doesn't contain are encoded
/// as the unknown token, as in transformers 5.24. If the class is `GPT2Tokenizer`, transformers
/// omits these bytes, whereas this crate returns an error.
#[test]
fn bytes_that_a_vocabulary_lacks_are_its_unknown_token() {
    let tokens = ["[UNK]", "t", "h", "e", "Ġ", "th", "the"];
    let vocabulary: serde_json::Map<String, Value> = tokens
        .iter()
        .zip(0..)
        .map(|(token, id)| (token.to_string(), id.into()))
        .collect();
    let mut tokenizer: Value = read_json("bpe/tokenizer.json");
    tokenizer["added_tokens"] = json!([]);
    tokenizer["model"]["vocab"] = vocabulary.into();
    tokenizer["model"]["merges"] = json!(["t h", "th e"]);
    let mut ids = |unknown: &str, fuse: bool, class: &str| {
        tokenizer["model"]["unk_token"] = unknown.into();
        tokenizer["model"]["fuse_unk"] = fuse.into();
        let files = [
            ("tokenizer.json", tokenizer.clone()),
            ("tokenizer_config.json", json!({"tokenizer_class": class})),
        ];
        from_folder(bpe_with(&files).path()).encode("the !é")
    };
    let [gpt2, as_written] = CLASSES;
    assert_eq!(ids("[UNK]", false, as_written).unwrap(), [6, 4, 0, 0, 0]);
    assert_eq!(ids("[UNK]", true, as_written).unwrap(), [6, 4, 0, 0]);
    assert!(ids("[UNK]", false, gpt2).is_err());
    assert!(ids("a token that it lacks", false, as_written).is_err());
}

/// The post-processor in tokenizer.json adds tokens before and after each text. As in transformers
/// 5.24, these tokens don't depend on the class of the tokenizer.
#[test]
fn a_post_processors_tokens_are_put_around_each_text() {
    let ends = json!({"<|endoftext|>": {"id": "<|endoftext|>", "ids": [399], "tokens": ["<|endoftext|>"]}});
    let (end, text) = (
        json!({"SpecialToken": {"id": "<|endoftext|>", "type_id": 0}}),
        json!({"Sequence": {"id": "A", "type_id": 0}}),
    );
    let template = |single: Value| json!({"type": "TemplateProcessing", "single": single, "special_tokens": ends});
    let bytes = json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true});
    let begin = template(json!([end, text]));
    let roberta = json!({"type": "RobertaProcessing", "sep": ["x", 399], "cls": ["y", 399]});
    for (part, expected) in [
        (bytes.clone(), &[64, 312][..]),
        (template(json!([text])), &[64, 312]),
        (begin.clone(), &[399, 64, 312]),
        (template(json!([text, end, end])), &[64, 312, 399, 399]),
        (
            json!({"type": "Sequence", "processors": [bytes, begin]}),
            &[399, 64, 312],
        ),
        (roberta, &[399, 64, 312, 399]),
    ] {
        let mut tokenizer: Value = read_json("bpe/tokenizer.json");
        tokenizer["post_processor"] = part;
        for class in CLASSES {
            let files = [
                ("tokenizer.json", tokenizer.clone()),
                ("tokenizer_config.json", json!({"tokenizer_class": class})),
            ];
            assert_eq!(ids_with(&files, "a bell"), expected, "{class}");
        }
    }
    // If a post-processor is added to GPT-2's tokenizer.json, tokens are added before and after
    // each text, but the text itself is still encoded as in GPT-2.
    let bert = json!({"type": "BertProcessing", "sep": ["x", 50256], "cls": ["y", 0]});
    let folder = gpt2_with(|json| json["post_processor"] = bert);
    let ids = from_folder(folder.path()).encode("Hello").unwrap();
    assert_eq!(ids, [0, 15496, 50256]);
}
