//! Tests that damaged files and unusual text never cause a panic, and that each error message about
//! a file is a single line that contains the name of the file.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::unwrap_used)] // a test that can't begin panics

use std::fs;
use std::path::Path;

use model_tokenizer::{ModelTokenizer, ModelTokenizerError};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Returns the contents of a small tokenizer.json, whose vocabulary consists of a token for each
/// byte, one merged token and one special token.
fn small() -> Value {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = ModelTokenizer::train_bpe("aa aa", 258).unwrap();
    tokenizer.save(folder.path()).unwrap();
    let text = fs::read_to_string(folder.path().join("tokenizer.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn read(files: &[(&str, &str)]) -> Result<Option<ModelTokenizer>, String> {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), text).unwrap();
    }
    let prefix = format!("{}/", folder.path().display());
    ModelTokenizer::from_folder(folder.path()).map_err(|error| {
        let message = error.to_string();
        assert!(!message.chars().any(char::is_control), "{message:?}");
        message.replace(&prefix, "")
    })
}

fn refusal(files: &[(&str, &str)]) -> String {
    read(files).unwrap_err()
}

fn refusal_of(folder: &Path) -> String {
    let error = ModelTokenizer::from_folder(folder).unwrap_err();
    error.to_string()
}

/// Replaces the value at `pointer` (a JSON Pointer) in the tokenizer.json that [`small`] returns.
/// Then tries to load the changed tokenizer, which must fail, and returns the error message without
/// the name of the file.
fn with(pointer: &str, value: Value) -> String {
    let mut json = small();
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    json.pointer_mut(parent).unwrap()[key] = value;
    let config = r#"{"tokenizer_class": "PreTrainedTokenizerFast"}"#;
    let error = refusal(&[
        ("tokenizer.json", &json.to_string()),
        ("tokenizer_config.json", config),
    ]);
    let message = error.strip_prefix("tokenizer.json: ").unwrap();
    message.to_owned()
}

const OTHER: &str = "this tokenizer isn't supported, because ";
const READ: &str = "; only byte-level BPE and character tokenizers are supported";

/// Test cases for tokenizers that aren't supported. Each line consists of the path of a value in
/// the small tokenizer.json, the value with which it is replaced, and the reason that the error
/// message must contain.
const KINDS: &str = r####"
/model | {"type": "Unigram", "vocab": [["a", -1.0]]} | it is a Unigram (SentencePiece) tokenizer
/model | {"type": "WordPiece", "vocab": {"a": 0}} | the tokenizer's model is WordPiece
/model | {"type": "Word\nLevel"} | the tokenizer's model is Word\nLevel
/model/byte_fallback | true | byte_fallback is set, as in SentencePiece
/pre_tokenizer | {"type": "Sequence", "pretokenizers": [{"type": "ByteLevel"}, {"type": "Digits"}]} | the decoder is ByteLevel, but the pre-tokenizer is Sequence
/decoder | {"type": "Metaspace"} | the pre-tokenizer is ByteLevel and the decoder is Metaspace
"####;

/// Test cases for settings that aren't supported, in the same form as [`KINDS`].
const SETTINGS: &str = r####"
/model/dropout | 0.1 | the BPE model has dropout
/model/end_of_word_suffix | "</w>" | the BPE model has an end_of_word_suffix
/model/continuing_subword_prefix | "##" | the BPE model has a continuing_subword_prefix
/normalizer | {"type": "Lowercase"} | the normalizer is Lowercase
/normalizer | {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "NFC"}]} | the normalizer is Sequence
/pre_tokenizer | {"type": "Sequence", "pretokenizers": [{"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "(a+)+$"}}, {"type": "ByteLevel"}]} | the pre-tokenizer splits text with the unsupported pattern (a+)+$
/pre_tokenizer | {"type": "Sequence", "pretokenizers": [{"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "a++|b"}}, {"type": "ByteLevel"}]} | the pre-tokenizer splits text with the unsupported pattern a++|b
/pre_tokenizer | {"type": "Sequence", "pretokenizers": [{"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "a(\\s+(?!\\S)|b)"}}, {"type": "ByteLevel"}]} | the pre-tokenizer splits text with the unsupported pattern a(\\s+(?!\\S)|b)
/pre_tokenizer | {"type": "Sequence", "pretokenizers": [{"type": "Split", "behavior": "Isolated", "pattern": {"Regex": "a*"}}, {"type": "ByteLevel"}]} | the pre-tokenizer splits text with the unsupported pattern a*
/pre_tokenizer | {"type": "Sequence", "pretokenizers": [{"type": "Split", "behavior": "Removed", "pattern": {"String": " "}}, {"type": "ByteLevel"}]} | the pre-tokenizer is Split with behavior Removed and invert false
/pre_tokenizer | {"type": "Sequence", "pretokenizers": [{"type": "Whitespace"}, {"type": "ByteLevel"}]} | the list of pre-tokenizers contains an unsupported entry of type Whitespace
/post_processor | {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "a token that it lacks"}}, {"Sequence": {}}], "special_tokens": {}} | the post-processor is TemplateProcessing
/post_processor | {"type": "TemplateProcessing", "single": [{"Sequence": {}}, {"Sequence": {"id": "the text twice"}}], "special_tokens": {}} | the post-processor is TemplateProcessing
/post_processor | {"type": "Sequence", "processors": [{"type": "ByteLevel"}, {"type": "Other"}]} | the post-processor is Sequence
"####;

/// Test cases for damaged files. Each line consists of the path of a value in the small
/// tokenizer.json, the value with which it is replaced, and the expected error message.
const DAMAGE: &str = r####"
/model/vocab | {} | the vocabulary is empty
/model/vocab/aa | 3 | two tokens have the same ID, 3, but all IDs must be distinct
/model/vocab/aa | 65536 | the token "aa" has the ID 65536, but in a vocabulary of this size, all IDs must be less than 65536
/model/vocab/aa | 4294967295 | the token "aa" has the ID 4294967295, but in a vocabulary of this size, all IDs must be less than 65536
/model/merges | [["aa", "<|endoftext|>"]] | the merge of "aa" and "<|endoftext|>" needs the token "aa<|endoftext|>", which isn't in the vocabulary
/model/merges | ["a  b"] | the merge "a  b" must consist of two tokens separated by one space
/added_tokens/0/content | "<\n>" | the added token "<\n>" has the ID 257, which belongs to another token
/added_tokens/0/content | "" | an added token is empty, but it must contain at least one character
/post_processor | {"type": "BertProcessing", "cls": ["<s>", 9999], "sep": ["<s>", 1]} | the post-processor adds the ID 9999 to each text, but no token has this ID
"####;

/// Checks all test cases of a table. Each line contains the path of a value in the tokenizer.json
/// that [`small`] returns, a replacement for this value, and a string. Loading the file with the
/// replacement must fail with the error message that `message` returns for this string.
fn check_table(table: &str, message: impl Fn(&str) -> String) {
    for line in table.trim().lines() {
        let cells: Vec<&str> = line.split(" | ").collect();
        let [pointer, value, expected] = cells[..] else {
            panic!("three cells: {line}");
        };
        let value = serde_json::from_str(value).unwrap();
        assert_eq!(with(pointer, value), message(expected));
    }
}

#[test]
fn other_kinds_are_refused_by_name() {
    let of_kind = |kind: &str| format!("{OTHER}{kind}{READ}");
    check_table(KINDS, of_kind);
    let of_setting = |setting: &str| format!("{OTHER}{setting}");
    check_table(SETTINGS, of_setting);
    for (file, kind) in [
        ("tokenizer.model", "it is a SentencePiece tokenizer"),
        ("vocab.txt", "it is a WordPiece tokenizer"),
        (
            "meta.pkl",
            "it is nanoGPT's vocabulary, stored as a Python pickle",
        ),
    ] {
        let expected = format!("{file}: {}", of_kind(kind));
        assert_eq!(refusal(&[(file, "")]), expected);
    }
    let tokenizer = small().to_string();
    for (config, reason) in [
        (
            r#"{"tokenizer_class": "Llama\u001bTokenizer"}"#,
            of_kind(r#"the tokenizer_class is "Llama\u{1b}Tokenizer""#),
        ),
        (
            r#"{"split_special_tokens": true}"#,
            of_setting("split_special_tokens is set"),
        ),
    ] {
        let error = refusal(&[
            ("tokenizer_config.json", config),
            ("tokenizer.json", &tokenizer),
        ]);
        assert_eq!(error, format!("tokenizer_config.json: {reason}"));
    }
}

/// The class `GPT2Tokenizer` of transformers ignores some settings in tokenizer.json. If these
/// settings differ from those of the class, loading fails. The error message must list the settings
/// that differ and recommend a class with which the same file can be loaded.
#[test]
fn settings_that_contradict_the_class_gpt2_are_listed() {
    const GPT2: &str = r#"{"tokenizer_class": "GPT2Tokenizer"}"#;
    const AS_WRITTEN: &str = r#"{"tokenizer_class": "PreTrainedTokenizerFast"}"#;
    const OF_MODEL: &str = r#"{"model_type": "gpt2"}"#;
    let byte_level = |use_regex| json!({"type": "ByteLevel", "use_regex": use_regex});
    let digits = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Digits", "individual_digits": true}, byte_level(true)
    ]});
    for (pre_tokenizer, ignores, normalizer, settings) in [
        (byte_level(false), false, Value::Null, "use_regex is false"),
        (byte_level(true), true, Value::Null, "ignore_merges is true"),
        (
            digits,
            true,
            Value::Null,
            "it has a pre-tokenizer before ByteLevel and ignore_merges is true",
        ),
        (
            byte_level(true),
            false,
            json!({"type": "NFC"}),
            "the normalizer is NFC",
        ),
    ] {
        let mut json = small();
        json["pre_tokenizer"] = pre_tokenizer;
        json["model"]["ignore_merges"] = ignores.into();
        json["normalizer"] = normalizer;
        let json = json.to_string();
        let expected = format!(
            "tokenizer.json: {OTHER}{settings}, but the tokenizer's class is GPT2Tokenizer, which \
            has other settings; to use the settings in this file, set tokenizer_class in \
            tokenizer_config.json to \"PreTrainedTokenizerFast\""
        );
        let files = [("tokenizer.json", &*json), ("tokenizer_config.json", GPT2)];
        assert_eq!(refusal(&files), expected);
        let files = [("tokenizer.json", &*json), ("config.json", OF_MODEL)];
        assert_eq!(refusal(&files), expected);
        let as_written = [
            ("tokenizer.json", &*json),
            ("config.json", OF_MODEL),
            ("tokenizer_config.json", AS_WRITTEN),
        ];
        assert!(read(&as_written).unwrap().is_some());
    }
}

/// The setting `ignore_merges` isn't supported for tokenizers whose tokens are characters. With
/// this setting, a text that is equal to a token of the vocabulary would be encoded as this token
/// instead of character by character.
#[test]
fn characters_that_ignore_merges_are_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let tokenizer = ModelTokenizer::train_chars("ab").unwrap();
    tokenizer.save(folder.path()).unwrap();
    let path = folder.path().join("tokenizer.json");
    let mut json: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    json["model"]["ignore_merges"] = true.into();
    fs::write(&path, json.to_string()).unwrap();
    assert!(refusal_of(folder.path()).contains(OTHER));
}

#[test]
fn damaged_vocabularies_are_refused_with_the_token() {
    // One of the test cases is a merge whose result isn't in the vocabulary. In the `tokenizers`
    // library, such a merge causes a write past the end of a buffer.
    check_table(DAMAGE, str::to_owned);
    let long = with("/added_tokens/0/content", json!("x".repeat(1 << 20)));
    let limit = "bytes in total, but they must have fewer than 1048576";
    assert!(long.ends_with(limit), "{long}");
    assert!(with("/added_tokens/0/id", json!(-1)).starts_with("invalid value: integer `-1`"));
    assert!(with("/model/vocab", json!(["\u{1b}"])).starts_with("invalid type: sequence"));
}

#[test]
fn damaged_files_are_refused_with_their_name() {
    assert!(read(&[]).unwrap().is_none());
    let missing = ModelTokenizer::from_folder("no such folder").unwrap_err();
    assert!(matches!(missing, ModelTokenizerError::Io(_)), "{missing}");
    assert!(read(&[("config.json", "{}")]).unwrap().is_none());
    assert_eq!(
        refusal(&[("vocab.json", "{}")]),
        "vocab.json: this file requires a merges.txt in the same folder, but there is none"
    );
    assert_eq!(
        refusal(&[("merges.txt", "")]),
        "merges.txt: this file requires a vocab.json in the same folder, but there is none"
    );
    assert_eq!(
        refusal(&[("vocab.json", "{}"), ("merges.txt", "")]),
        "vocab.json: the vocabulary is empty"
    );
    assert!(refusal(&[("tokenizer.json", "")]).starts_with("tokenizer.json: EOF"));
    let error = refusal(&[
        ("tokenizer_config.json", r#"{"extra_special_tokens": 3}"#),
        ("tokenizer.json", "{}"),
    ]);
    assert!(
        error.contains("extra_special_tokens must be a list"),
        "{error}"
    );
    let deep = "[".repeat(100_000);
    assert!(refusal(&[("tokenizer.json", &deep)]).starts_with("tokenizer.json: "));
    let config = format!("{{\"x\": {deep}");
    let error = refusal(&[("tokenizer_config.json", &config), ("tokenizer.json", "{}")]);
    assert!(
        error.starts_with("tokenizer_config.json: recursion limit"),
        "{error}"
    );

    let folder = tempfile::tempdir().unwrap();
    let name = folder.path().join("tokenizer.json");
    fs::write(&name, b"{\"a\": \xff}").unwrap();
    let message = refusal_of(folder.path());
    assert!(
        message.ends_with("the file must be UTF-8, but the byte at position 6 is invalid"),
        "{message}"
    );
}

#[test]
fn bytes_without_a_token_are_named_and_nothing_is_left_out() {
    let mut json = small();
    let vocabulary = json["model"]["vocab"].as_object_mut().unwrap();
    // Remove the tokens of two bytes from the vocabulary: the byte 0xf0, with which the UTF-8
    // encoding of an emoji begins and which tokenizer.json represents by `ð`, and the byte `|`. The
    // special token `<|endoftext|>` must still be encoded, although it contains `|`.
    for token in ["ð", "|"] {
        let id = vocabulary.remove(token).unwrap();
        vocabulary.insert(format!("instead of {token}"), id);
    }
    let text = json.to_string();
    let tokenizer = read(&[("tokenizer.json", &text)]).unwrap().unwrap();
    let text = "aa<|endoftext|>é";
    assert_eq!(
        tokenizer.decode(&tokenizer.encode(text).unwrap()).unwrap(),
        text
    );
    let error = tokenizer.encode("aa🙂").unwrap_err();
    assert!(
        matches!(error, ModelTokenizerError::UnknownByte { byte: 0xf0 }),
        "{error}"
    );
    let error = tokenizer.encode("<|endoftext|>|").unwrap_err();
    assert!(
        matches!(error, ModelTokenizerError::UnknownByte { byte: b'|' }),
        "{error}"
    );
}

/// If the tokenizer adds a space before the text, but its vocabulary contains no token for a space,
/// encoding fails even for a text without spaces.
#[test]
fn a_space_without_a_token_is_named() {
    let mut json = small();
    let vocabulary = json["model"]["vocab"].as_object_mut().unwrap();
    let id = vocabulary.remove("Ġ").unwrap();
    vocabulary.insert("instead of a space".to_owned(), id);
    let last = json!({"type": "ByteLevel", "add_prefix_space": true, "use_regex": false});
    let digits = json!({"type": "Digits", "individual_digits": true});
    for parts in [vec![last.clone()], vec![digits, last]] {
        json["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": parts});
        let config = r#"{"tokenizer_class": "PreTrainedTokenizerFast"}"#;
        let files = [
            ("tokenizer.json", &*json.to_string()),
            ("tokenizer_config.json", config),
        ];
        let tokenizer = read(&files).unwrap().unwrap();
        let errors = [
            tokenizer.encode("aa").unwrap_err(),
            tokenizer.encode_with_offsets("aa").unwrap_err(),
        ];
        for error in errors {
            let is_space = matches!(error, ModelTokenizerError::UnknownByte { byte: b' ' });
            assert!(is_space, "{error}");
        }
    }
}

/// After about a million spaces, the regular expression engine of the `tokenizers` library gives
/// up, and the library encodes the rest of the text as a single piece. This crate must divide the
/// rest of the text as usual.
#[test]
fn long_white_space_is_divided() {
    let blank = " ".repeat(1_500_000);
    let text = format!("a{blank}b aa");
    let json = small();
    let config = r#"{"tokenizer_class": "GPT2Tokenizer", "add_prefix_space": true}"#;
    for (config, space) in [("{}", ""), (config, " ")] {
        let files = [
            ("tokenizer.json", &*json.to_string()),
            ("tokenizer_config.json", config),
        ];
        let tokenizer = read(&files).unwrap().unwrap();
        let ids = tokenizer.encode(&text).unwrap();
        let end = tokenizer.encode(" b aa").unwrap();
        assert!(ids.ends_with(&end));
        assert!(tokenizer.decode(&ids).unwrap() == format!("{space}{text}"));
    }
}

/// Tests that a text of 1,500,000 line breaks is encoded in linear time. Each line break is an
/// added token that also includes all of the white space around it. If the end of the white space
/// were searched for again at each line break, the running time would be quadratic.
#[test]
fn a_text_of_tokens_that_take_white_space_takes_linear_time() {
    let mut json = small();
    let token =
        json!({"id": 259, "content": "\n", "lstrip": true, "rstrip": true, "special": true});
    json["added_tokens"].as_array_mut().unwrap().push(token);
    let tokenizer = read(&[("tokenizer.json", &json.to_string())])
        .unwrap()
        .unwrap();
    let ids = tokenizer.encode(&"\n".repeat(1_500_000)).unwrap();
    assert_eq!(ids, [258]);
}

#[test]
fn text_that_a_pattern_leaves_out_is_refused() {
    let mut json = small();
    json["pre_tokenizer"] = json!({"type": "Sequence", "pretokenizers": [
        {"type": "Split", "behavior": "Removed", "invert": true, "pattern": {"Regex": "[a-z ]+"}},
        {"type": "ByteLevel", "add_prefix_space": false, "use_regex": false},
    ]});
    let files = [
        ("tokenizer.json", json.to_string()),
        (
            "tokenizer_config.json",
            r#"{"tokenizer_class": "PreTrainedTokenizerFast"}"#.to_owned(),
        ),
    ];
    let tokenizer = read(&files.each_ref().map(|(name, text)| (*name, text.as_str())));
    let tokenizer = tokenizer.unwrap().unwrap();
    assert_eq!(
        tokenizer
            .decode(&tokenizer.encode("aa b").unwrap())
            .unwrap(),
        "aa b"
    );
    let error = tokenizer.encode("aa, b").unwrap_err().to_string();
    assert_eq!(
        error,
        "the tokenizer's pattern doesn't match \",\", so this part of the text can't be encoded"
    );
}

#[test]
fn vocabularies_that_a_text_cannot_make_are_refused() {
    let too_small = ModelTokenizer::train_bpe("aa aa", 256)
        .unwrap_err()
        .to_string();
    assert_eq!(
        too_small,
        "a vocabulary of 256 tokens is too small, because the 256 bytes and the special tokens alone need 257 tokens"
    );
    let too_short = ModelTokenizer::train_bpe("aa aa", 300).unwrap_err();
    // The text "aa aa" contains enough byte pairs for 258 tokens: 256 bytes, the learned token
    // "aa", which occurs twice, and `<|endoftext|>`. The pair of a space and "aa" occurs only once,
    // and a pair must occur at least twice to become a token.
    let message = "the text contains enough byte pairs for a vocabulary of 258 tokens, but not for one of 300 tokens; ";
    assert!(too_short.to_string().starts_with(message), "{too_short}");
    assert!(ModelTokenizer::train_bpe("", 257).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Sets a randomly chosen field of tokenizer.json to a random value. The file must either be
    /// loaded or be rejected with an error. If it is loaded, encoding and decoding must not panic.
    #[test]
    fn a_changed_file_never_panics(
        name in "(added_tokens|normalizer|pre_tokenizer|post_processor|decoder|model|vocab|merges|type|[a-z_]{1,12})",
        value in prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::from),
            "\\PC{0,8}".prop_map(Value::from),
            Just(json!([["a", "a"], ["aa", "aa"]])),
            Just(json!({"type": "Sequence"})),
            Just(json!([{"id": 258, "content": "a"}])),
        ],
        inside in any::<bool>(),
    ) {
        let mut json = small();
        match inside {
            true => json["model"][name] = value,
            false => json[name] = value,
        }
        let text = "aa aaé <|endoftext|>";
        if let Ok(Some(tokenizer)) = read(&[("tokenizer.json", &json.to_string())])
            && let Ok(ids) = tokenizer.encode(text)
        {
            prop_assert!(tokenizer.decode(&ids).is_ok());
            let tokens = tokenizer.encode_with_offsets(text).unwrap();
            prop_assert!(tokens.iter().all(|(_, range)| text.as_bytes().get(range.clone()).is_some()));
        }
    }
}
