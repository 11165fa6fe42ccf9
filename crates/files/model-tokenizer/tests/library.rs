//! Tests that randomly generated tokenizers produce the same IDs, decoded text and ranges in this
//! crate as in Hugging Face's `tokenizers` library.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::unwrap_used)] // a test that can't begin panics

use std::collections::HashMap;
use std::fs;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};

use model_tokenizer::tokenizer::bpe::{gpt2_bytes, letters_of};
use model_tokenizer::{ModelTokenizer, ModelTokenizerError};
use proptest::prelude::*;
use serde_json::{Value, json};
use tokenizers::Tokenizer;

/// Strings from which the added tokens of the random tokenizers are chosen: white space, words,
/// strings that contain or begin with other strings in this list, and letters that represent bytes
/// in a vocabulary.
const CONTENTS: &[&str] = &[
    "<x>", "<x>a", "x>", "<|", "<|end|>", "\n", " ", "  ", "\t", "\u{3000}", "a", "ab", "b a",
    " a", "é", "e\u{301}", "1", "_", "đ", "ﬁ", "'s",
];

/// Strings in [`CONTENTS`] that Unicode normalization converts to another string in [`CONTENTS`].
/// For example, "e" with a combining accent becomes "é". Added tokens with these strings never get
/// the setting `normalized`, because it wouldn't be clear which of the two tokens the `tokenizers`
/// library finds in normalized text.
const SAME: &[&str] = &["\u{3000}", "e\u{301}"];

/// Strings that are combined at random to create the texts that are encoded both with this crate
/// and with the `tokenizers` library. The texts also contain strings from [`CONTENTS`].
const TEXTS: &[&str] = &[
    "a", "b", "c", "ab", "the", " the", "A", "x", "<", ">", "|", "é", "e", "\u{301}", "日本", "ﬁ",
    "①", "1", "23", "4567", "'s", "'LL", "'ſ", "'", "!?", "...", "#\n", "🙂", "\u{200b}", "\0",
    "Å", "Ω", "\u{9}", "\n", "\u{b}", "\u{c}", "\r\n", "\u{1c}", " ", "  ", "   ", "\u{85}",
    "\u{a0}", "\u{1680}", "\u{2000}", "\u{2005}", "\u{200a}", "\u{2028}", "\u{2029}", "\u{202f}",
    "\u{205f}", "\u{3000}",
];

/// Patterns with which public tokenizers divide text: GPT-2, GPT-4, Llama 3 (with `\p{N}` as in
/// Qwen 2), GPT-4o, BLOOM, and DeepSeek-V3, which applies three patterns one after another.
const PATTERNS: &[&[&str]] = &[
    &[r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"],
    &[
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    &[
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    &[
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    &[r" ?[^(\s|[.,!?…。，、।۔،])]+"],
    &[
        r"\p{N}{1,3}",
        "[一-龥぀-ゟ゠-ヿ]+",
        r"[!\x22#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
];

/// A random number generator (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) as usize % end
    }

    fn chance(&mut self, one_in: usize) -> bool {
        self.below(one_in) == 0
    }
}

/// Returns a random pre-tokenizer of one of the kinds that public tokenizers use.
fn pre_tokenizer(random: &mut Random) -> Value {
    let byte_level = |space: bool, use_regex: bool| json!({"type": "ByteLevel", "add_prefix_space": space, "trim_offsets": true, "use_regex": use_regex});
    let space = random.chance(3);
    let last = byte_level(space, random.chance(2));
    let mut parts = match random.below(4) {
        0 => return last,
        1 => vec![json!({"type": "Digits", "individual_digits": random.chance(2)})],
        2 => vec![
            json!({"type": "Split", "pattern": {"String": "b"}, "behavior": "Isolated", "invert": random.chance(2)}),
        ],
        _ => {
            let patterns = PATTERNS[random.below(PATTERNS.len())];
            // With the behavior "Removed", the `tokenizers` library omits all text that the pattern
            // doesn't match. The test therefore uses this behavior only with patterns that match
            // any text completely.
            let is_whole = patterns[0].ends_with(r"|\s+") && random.chance(2);
            let split = |pattern| match is_whole {
                true => {
                    json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Removed", "invert": true})
                }
                false => {
                    json!({"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": false})
                }
            };
            patterns.iter().map(split).collect()
        }
    };
    parts.push(last);
    json!({"type": "Sequence", "pretokenizers": parts})
}

/// Returns a tokenizer.json with random merges, added tokens and settings.
fn tokenizer(random: &mut Random) -> Value {
    let mut tokens: Vec<String> = gpt2_bytes().map(|byte| letters_of(&[byte])).to_vec();
    let lacks = random.chance(4);
    if lacks {
        tokens.retain(|token| !["b", "Ã", "Ċ", "©"].contains(&token.as_str()));
        tokens.push("[UNK]".to_owned());
    }
    let mut parts: Vec<String> = TEXTS[..40]
        .iter()
        .map(|text| letters_of(text.as_bytes()))
        .collect();
    parts = parts
        .iter()
        .flat_map(|part| part.chars().map(String::from))
        .collect();
    parts.retain(|part| tokens.contains(part));
    let mut merges = Vec::new();
    for _ in 0..random.below(60) {
        let [left, right] = [(); 2].map(|()| parts[random.below(parts.len())].clone());
        let both = left.clone() + &right;
        if both.len() > 12 {
            continue;
        }
        if !tokens.contains(&both) {
            tokens.push(both.clone());
        }
        parts.push(both);
        merges.push(json!([left, right]));
    }
    let ids: HashMap<String, usize> = tokens.iter().cloned().zip(0..).collect();
    let mut added: Vec<Value> = Vec::new();
    for content in CONTENTS {
        if random.chance(4) {
            let next = tokens.len()
                + added
                    .iter()
                    .filter(|token| !ids.contains_key(token["content"].as_str().unwrap()))
                    .count();
            let id = ids.get(*content).copied().unwrap_or(next);
            let mut flag = |one_in| random.chance(one_in);
            added.push(json!({"id": id, "content": content, "single_word": flag(4), "lstrip": flag(3), "rstrip": flag(3), "normalized": !SAME.contains(content) && flag(2), "special": flag(2)}));
        }
    }
    added.sort_by_key(|token| token["id"].as_u64());
    let normalizer = match random.below(6) {
        0 => json!({"type": "NFC"}),
        1 => json!({"type": "NFKC"}),
        2 => json!({"type": "Sequence", "normalizers": [{"type": "NFC"}]}),
        _ => Value::Null,
    };
    let unknown = if lacks && random.chance(2) {
        json!("[UNK]")
    } else {
        Value::Null
    };
    json!({
        "version": "1.0", "truncation": null, "padding": null, "added_tokens": added,
        "normalizer": normalizer, "pre_tokenizer": pre_tokenizer(random), "post_processor": null,
        "decoder": {"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true},
        "model": {
            "type": "BPE", "dropout": null, "unk_token": unknown, "continuing_subword_prefix": null,
            "end_of_word_suffix": null, "fuse_unk": random.chance(2), "byte_fallback": false,
            "ignore_merges": random.chance(3), "vocab": ids, "merges": merges,
        },
    })
}

fn text(random: &mut Random) -> String {
    let parts = (0..random.below(14)).map(|_| match random.chance(3) {
        true => CONTENTS[random.below(CONTENTS.len())],
        false => TEXTS[random.below(TEXTS.len())],
    });
    parts.collect()
}

/// Decodes IDs with the `tokenizers` library, except for added tokens, which are decoded to their
/// own text, as in this crate. The library would also decode the characters of added tokens that
/// can represent bytes (such as `Ġ` for a space).
fn decoded(library: &Tokenizer, ids: &[u32]) -> String {
    let added = library.get_added_vocabulary().get_added_tokens_decoder();
    let mut text = String::new();
    for run in ids.chunk_by(|a, b| !added.contains_key(a) && !added.contains_key(b)) {
        match added.get(&run[0]) {
            Some(token) => text += &token.content,
            None => text += &library.decode(run, false).unwrap(),
        }
    }
    text
}

/// Checks that the range of a token in this crate matches its range in the `tokenizers` library.
/// Because the library's ranges always consist of whole characters, this crate's range is first
/// extended to whole characters.
///
/// The ranges of this crate and of the library may differ in two cases. If the tokenizer adds a
/// space before the text, this crate returns an empty range for the space, whereas the library
/// returns the range of the text's first character. If Unicode normalization combines several
/// characters, the library's range may be only a part of this crate's range.
fn assert_same_range(text: &str, ours: Range<usize>, theirs: (usize, usize), is_normalized: bool) {
    let starts = |at: &usize| text.is_char_boundary(*at);
    let start = (0..=ours.start).rev().find(starts).unwrap();
    let end = (ours.end..=text.len()).find(starts).unwrap();
    let is_same = match (ours.is_empty(), is_normalized) {
        (true, true) => start <= theirs.0,
        (true, false) => (theirs.0..=theirs.1).contains(&start),
        (false, true) => start <= theirs.0 && theirs.1 <= end,
        (false, false) => (start, end) == theirs,
    };
    assert!(is_same, "{text:?}: {ours:?}, {theirs:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn random_tokenizers_have_the_librarys_ids(seed: u64) {
        let mut random = Random(seed);
        let json = tokenizer(&mut random);
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("tokenizer.json"), json.to_string()).unwrap();
        let library: Tokenizer = json.to_string().parse().unwrap();
        let ours = ModelTokenizer::from_folder(folder.path()).unwrap().unwrap();
        prop_assert_eq!(ours.vocab_size(), library.get_vocab_size(true));
        for text in std::iter::repeat_with(|| text(&mut random)).take(40) {
            let theirs = catch_unwind(AssertUnwindSafe(|| library.encode(text.as_str(), false).unwrap()));
            let tokens = ours.encode_with_offsets(&text);
            let ids = match ours.encode(&text) {
                Err(ModelTokenizerError::UnknownByte { .. }) => {
                    prop_assert!(json["model"]["unk_token"].is_null());
                    prop_assert_eq!(tokens.unwrap_err().to_string(), ours.encode(&text).unwrap_err().to_string());
                    continue;
                }
                ids => ids.unwrap(),
            };
            let tokens = tokens.unwrap();
            let with_range: Vec<u32> = tokens.iter().map(|(id, _)| *id).collect();
            prop_assert_eq!(&ids, &with_range, "{:?}\n{}", text, json);
            if let Ok(theirs) = theirs {
                prop_assert_eq!(&ids, theirs.get_ids(), "{:?}\n{}", text, json);
                for ((_, ours), theirs) in tokens.into_iter().zip(theirs.get_offsets()) {
                    assert_same_range(&text, ours, *theirs, !json["normalizer"].is_null());
                }
                prop_assert_eq!(ours.decode_lossy(&ids).unwrap(), decoded(&library, &ids), "{:?}\n{}", text, json);
            }
        }
    }
}

/// If the white space between two added tokens could belong to either of them, the `tokenizers`
/// library can panic. In this crate, the white space belongs to the first token. If nothing is left
/// for the second token, it isn't found.
#[test]
fn white_space_that_two_tokens_want_is_the_first_ones() {
    let token = |id: u32, content: &str, lstrip: bool, rstrip: bool| json!({"id": id, "content": content, "single_word": false, "lstrip": lstrip, "rstrip": rstrip, "normalized": false, "special": false});
    let folder = tempfile::tempdir().unwrap();
    ModelTokenizer::train_bpe("aa aa", 258)
        .unwrap()
        .save(folder.path())
        .unwrap();
    let path = folder.path().join("tokenizer.json");
    let mut json: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let added = json["added_tokens"].as_array_mut().unwrap();
    added.extend([
        token(258, "<x>", false, true),
        token(259, "\n", true, false),
        token(260, "\t\t", true, true),
    ]);
    fs::write(&path, json.to_string()).unwrap();
    let ours = ModelTokenizer::from_folder(folder.path()).unwrap().unwrap();
    let library: Tokenizer = json.to_string().parse().unwrap();
    for (text, expected, panics) in [
        ("a<x> \n b", &[64, 258, 65][..], true),
        ("a<x>\n\n\nb", &[64, 258, 65], true),
        ("<x> \t\t\n<x>\n", &[258, 258], false),
        ("\n\t\t \n", &[259, 260], false),
    ] {
        let theirs = catch_unwind(AssertUnwindSafe(|| {
            library.encode(text, false).unwrap().get_ids().to_vec()
        }));
        assert_eq!(theirs.is_err(), panics, "{text:?}");
        assert_eq!(theirs.unwrap_or(expected.to_vec()), expected, "{text:?}");
        assert_eq!(ours.encode(text).unwrap(), expected, "{text:?}");
    }
}

/// The post-processor is removed from each tokenizer.json, because it can exclude white space from
/// the ranges that the `tokenizers` library returns.
#[test]
fn the_ranges_in_the_fixtures_texts_are_the_librarys() {
    let fixtures = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures");
    let texts = fs::read_to_string(format!("{fixtures}/texts.json")).unwrap();
    let texts: Vec<String> = serde_json::from_str(&texts).unwrap();
    for name in [
        "bpe",
        "chars",
        "library_file",
        "mask_and_literal",
        "own_end",
    ] {
        let folder = format!("{fixtures}/{name}");
        let json = fs::read_to_string(format!("{folder}/tokenizer.json")).unwrap();
        let mut json: Value = serde_json::from_str(&json).unwrap();
        json["post_processor"] = Value::Null;
        let library: Tokenizer = json.to_string().parse().unwrap();
        let ours = ModelTokenizer::from_folder(folder).unwrap().unwrap();
        for text in &texts {
            let theirs = library.encode(text.as_str(), false).unwrap();
            let tokens = ours.encode_with_offsets(text).unwrap();
            let ids: Vec<u32> = tokens.iter().map(|(id, _)| *id).collect();
            assert_eq!(ids, theirs.get_ids(), "{name}, {text:?}");
            for ((_, ours), theirs) in tokens.into_iter().zip(theirs.get_offsets()) {
                assert_same_range(text, ours, *theirs, false);
            }
        }
    }
}
