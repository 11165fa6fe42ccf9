//! Tests that `is_special` returns true for exactly the tokens that transformers omits from decoded
//! text.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]

use std::fs;

use model_tokenizer::ModelTokenizer;

/// In the Python package tokenizers 0.23.3,
/// `decode(encode("a<|user|>b<|plain|>c<|endoftext|>").ids, skip_special_tokens=True)` returns
/// "ab<|plain|>c" if the tokens `<|user|>` and `<|endoftext|>` were added with `special=True`, and
/// `<|plain|>` was added with `special=False`.
#[test]
fn special_tokens_are_those_that_decode_skips() {
    let folder = tempfile::tempdir().unwrap();
    let text = "the bell rang ".repeat(20);
    let trained = ModelTokenizer::train_bpe_at_most(&text, 300).unwrap();
    trained.save(folder.path()).unwrap();
    let path = folder.path().join("tokenizer.json");
    let mut json: serde_json::Value =
        serde_json::from_str(&fs::read_to_string(&path).unwrap()).unwrap();
    let added = json["added_tokens"].as_array_mut().unwrap();
    let id = added[0]["id"].as_u64().unwrap() + 1;
    for (content, special, id) in [("<|user|>", true, id), ("<|plain|>", false, id + 1)] {
        let mut token = added[0].clone();
        (token["content"], token["special"]) = (content.into(), special.into());
        token["id"] = id.into();
        added.push(token);
    }
    fs::write(&path, json.to_string()).unwrap();
    let read = ModelTokenizer::from_folder(folder.path()).unwrap().unwrap();
    for (tokenizer, text) in [
        (&read, "a<|user|>b<|plain|>c<|endoftext|>"),
        (&ModelTokenizer::gpt2(), "ab<|plain|>c<|endoftext|>"),
    ] {
        let mut ids = tokenizer.encode(text).unwrap();
        ids.retain(|&id| !tokenizer.is_special(id));
        assert_eq!(tokenizer.decode(&ids).unwrap(), "ab<|plain|>c");
    }
}
