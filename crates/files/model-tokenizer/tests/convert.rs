//! Tests that this crate, the crate `tokenizer` and Hugging Face's `tokenizers` library learn the
//! same byte pairs from a text, and that converting a byte pair encoding doesn't change the IDs of
//! its tokens.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::unwrap_used)] // a test that can't begin panics

use model_tokenizer::tokenizer::bpe::{
    Bpe, BpeConfig, EncodingRules, Merge, Ties, gpt2_bytes, gpt2_piece, gpt2_pieces, letters_of,
};
use model_tokenizer::tokenizer::{ENDOFTEXT, Tokenizer};
use model_tokenizer::{ModelTokenizer, ModelTokenizerError};
use proptest::prelude::*;
use test_support::any_text;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::tokenizer::Trainer;

/// A regular expression for random training text that consists of only a few different letters. In
/// such text, many byte pairs occur equally often, so the tests also check that all implementations
/// of the training choose the same one of these pairs.
const TIES: &str = "([ab]{1,12} ?|a{1,9} ?|[a-d ]{1,20}|é{1,4}|<\\|endoftext\\|>){0,20}";

fn config(vocab_size: usize) -> BpeConfig {
    BpeConfig {
        vocab_size,
        ..BpeConfig::default()
    }
}

/// Saves a tokenizer to a folder and loads it again.
fn reloaded(tokenizer: &ModelTokenizer) -> ModelTokenizer {
    let folder = tempfile::tempdir().unwrap();
    tokenizer.save(folder.path()).unwrap();
    ModelTokenizer::from_folder(folder.path()).unwrap().unwrap()
}

#[test]
fn saving_creates_missing_folders() {
    let parent = tempfile::tempdir().unwrap();
    let folder = parent.path().join("models").join("new");
    let tokenizer = ModelTokenizer::train_chars("ab").unwrap();
    tokenizer.save(&folder).unwrap();
    let loaded = ModelTokenizer::from_folder(&folder).unwrap().unwrap();
    assert_eq!(loaded.encode("ba").unwrap(), [1, 0]);
    let file = folder.join("tokenizer.json");
    let error = tokenizer.save(&file).unwrap_err();
    assert!(matches!(error, ModelTokenizerError::Io(_)), "{error}");
}

/// Returns the merges that the `tokenizers` library learns from a text. Each byte of a token is
/// represented by a printable character.
fn merges_of_library(text: &str, vocab_size: usize) -> Vec<(String, String)> {
    let alphabet = gpt2_bytes().map(|byte| letters_of(&[byte]));
    let mut trainer = BpeTrainer::builder()
        .vocab_size(vocab_size)
        .min_frequency(2)
        .show_progress(false)
        .initial_alphabet(alphabet.iter().flat_map(|letter| letter.chars()).collect())
        .build();
    let pieces = |document: &str| {
        let pieces = gpt2_pieces(document).into_iter();
        Ok(pieces.map(|piece| letters_of(piece.as_bytes())).collect())
    };
    trainer.feed(text.split(ENDOFTEXT), pieces).unwrap();
    let mut model = BPE::default();
    trainer.train(&mut model).unwrap();
    let json = serde_json::to_value(&model).unwrap();
    serde_json::from_value(json["merges"].clone()).unwrap()
}

fn merges_in_letters(bpe: &Bpe) -> Vec<(String, String)> {
    let letters = |id: u32| letters_of(&bpe.tokens()[id as usize]);
    let merges = bpe.merges().iter();
    let merges = merges.map(|merge| (letters(merge.left), letters(merge.right)));
    merges.collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 100, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_trainers_choose_the_same_pairs(text in TIES, more in 0usize..60) {
        let bpe = Bpe::train(&text, &config(256 + more)).unwrap();
        let trained = ModelTokenizer::train_bpe_at_most(&text, 257 + more).unwrap();
        prop_assert_eq!(trained.bpe().unwrap().merges(), bpe.merges());
        prop_assert_eq!(merges_in_letters(&bpe), merges_of_library(&text, 256 + more));
    }

    #[test]
    fn conversions_keep_the_ids(
        training in TIES,
        text in any_text(),
        more in 0usize..60,
        has_end: bool,
        first: bool,
    ) {
        let mut config = config(256 + more);
        if has_end {
            config.vocab_size += 1;
            config.alphabet.insert(100, ENDOFTEXT.into());
        }
        if first {
            config.ties = Ties::FirstInText;
        }
        let bpe = Bpe::train(&training, &config).unwrap();
        let tokenizer = ModelTokenizer::try_from(&bpe).unwrap();
        let end = bpe.id_of(ENDOFTEXT.as_bytes()).unwrap_or(bpe.vocab_size() as u32);
        prop_assert_eq!(tokenizer.eos_token_id(), Some(end));
        let back = tokenizer.bpe().unwrap();
        prop_assert_eq!(back.merges(), bpe.merges());
        prop_assert_eq!(&back.tokens()[..bpe.vocab_size()], bpe.tokens());
        let ids = tokenizer.encode_part(&text).unwrap();
        prop_assert_eq!(&ids, &back.encode(&text).unwrap());
        prop_assert_eq!(&ids, &reloaded(&tokenizer).encode(&text).unwrap());
        prop_assert_eq!(tokenizer.encode_with_offsets(&text).unwrap(), back.encode_with_offsets(&text).unwrap());
        // Compare the IDs with those of the original `bpe`, except if the text contains
        // `<|endoftext|>` and `bpe` has no such token. In this case, `bpe` encodes the string
        // `<|endoftext|>` as ordinary text, whereas the converted tokenizer encodes it as a special
        // token.
        if has_end || !text.contains(ENDOFTEXT) {
            prop_assert_eq!(&ids, &bpe.encode(&text).unwrap());
        }
        for id in ids {
            let token = tokenizer.token_of(id).unwrap();
            prop_assert_eq!(tokenizer.id_of(&token), Some(id));
            prop_assert_eq!(&*token, &back.tokens()[id as usize]);
        }
    }

    #[test]
    fn several_texts_are_one_text_with_special_tokens_between(
        texts in prop::collection::vec(TIES, 1..5),
        more in 0usize..60,
    ) {
        let refs: Vec<&str> = texts.iter().map(String::as_str).collect();
        let special = ["<|user|>", "<|bot|>"];
        let size = 259 + more;
        let several = ModelTokenizer::train_bpe_on(&refs, &special, size).unwrap();
        for separator in [ENDOFTEXT, "<|user|>", "<|bot|><|user|>"] {
            let joined = texts.join(separator);
            let one = ModelTokenizer::train_bpe_on(&[&joined], &special, size).unwrap();
            prop_assert_eq!(several.files().unwrap(), one.files().unwrap());
        }
        let joined = ModelTokenizer::train_bpe_at_most(&texts.join(ENDOFTEXT), size - 2).unwrap();
        let pairs = |tokenizer: &ModelTokenizer| tokenizer.byte_pairs().unwrap().unwrap().merges;
        prop_assert_eq!(pairs(&several), pairs(&joined));
    }
}

#[test]
fn special_tokens_get_the_last_ids() {
    let texts = ["<|user|>aa aa<|bot|>", "aa<|user|>aa"];
    let train = |special: &[&str]| ModelTokenizer::train_bpe_on(&texts, special, 400).unwrap();
    let tokenizer = reloaded(&train(&["<|user|>", "<|user|>!", "<|bot|>"]));
    // The expected vocabulary consists of 256 bytes, the learned token "aa" and four special
    // tokens. The training texts contain "aa" four times, so it becomes a token. The pair of a
    // space and "aa" occurs only once, and a pair must occur at least twice to become a token.
    assert_eq!(tokenizer.vocab_size(), 261);
    assert_eq!(tokenizer.id_of(b"aa"), Some(256));
    let ids = tokenizer
        .encode("<|user|>aa<|user|>!<|bot|><|endoftext|>")
        .unwrap();
    assert_eq!(ids, [257, 256, 258, 259, 260]);
    assert_eq!(tokenizer.eos_token_id(), Some(260));
    assert!((257..261).all(|id| tokenizer.is_special(id)) && !tokenizer.is_special(256));
    let tokens = tokenizer.encode_with_offsets("é<|user|>!aa").unwrap();
    assert_eq!(tokens[2..], [(258, 2..11), (256, 11..13)]);
    assert!(tokenizer.bpe().is_none()); // A `Bpe` can have only one special token.

    // The position of `<|endoftext|>` in the list determines its ID.
    let tokenizer = train(&[ENDOFTEXT, "<|user|>"]);
    assert_eq!(
        tokenizer.encode("<|endoftext|><|user|>").unwrap(),
        [257, 258]
    );
    assert_eq!(tokenizer.eos_token_id(), Some(257));
    assert_eq!(
        train(&[ENDOFTEXT]).files().unwrap(),
        train(&[]).files().unwrap()
    );
}

#[test]
fn impossible_special_tokens_are_refused() {
    let refusal = |special: &[&str], size| {
        let texts = ["bell bell"];
        let refused = ModelTokenizer::train_bpe_on(&texts, special, size);
        refused.unwrap_err().to_string()
    };
    assert_eq!(
        refusal(&["<x>", ""], 300),
        "a special token is empty, but it must contain at least one byte"
    );
    assert_eq!(
        refusal(&["<x>", "<x>"], 300),
        "the vocabulary contains the token \"<x>\" twice"
    );
    assert_eq!(
        refusal(&["b"], 300),
        "the vocabulary contains the token \"b\" twice"
    );
    let small = "a vocabulary of 258 tokens is too small, because the 256 bytes and the special tokens alone need 259 tokens";
    assert_eq!(refusal(&["<x>", "<y>"], 258), small);
}

#[test]
fn gpt2_converts_to_itself() {
    let tokenizer = ModelTokenizer::try_from(Bpe::gpt2()).unwrap();
    assert!(tokenizer.is_gpt2());
    assert!(std::ptr::eq(tokenizer.bpe().unwrap(), Bpe::gpt2()));
}

#[test]
fn encodings_that_files_cannot_hold_are_refused() {
    let tokens = || BpeConfig::default().alphabet;
    let refusal = |bpe: &Bpe| {
        let message = ModelTokenizer::try_from(bpe).unwrap_err().to_string();
        let expected = "this byte pair encoding can't be saved as a model's tokenizer, because ";
        message.strip_prefix(expected).unwrap().to_owned()
    };
    let whole = Bpe::from_merges(tokens(), Vec::new(), |text| text).unwrap();
    assert_eq!(
        refusal(&whole),
        "it doesn't split text with GPT-2's pattern"
    );
    let rules = EncodingRules {
        ignore_merges: true,
        ..EncodingRules::default()
    };
    let ignoring = Bpe::with_rules(tokens(), Vec::new(), gpt2_piece, rules).unwrap();
    assert!(refusal(&ignoring).contains("ignore_merges: true"));
    let twice = [tokens(), vec![b"a".to_vec()]].concat();
    let twice = Bpe::from_merges(twice, Vec::new(), gpt2_piece).unwrap();
    assert_eq!(
        refusal(&twice),
        "the vocabulary contains the token \"a\" twice"
    );
    let empty = [tokens(), vec![Vec::new()]].concat();
    let empty = Bpe::from_merges(empty, Vec::new(), gpt2_piece).unwrap();
    assert_eq!(
        refusal(&empty),
        "the token with the ID 256 is empty, but each token must contain at least one byte"
    );
    let merge = Merge {
        left: 64,
        right: 65,
        id: 66,
    };
    let other = Bpe::from_merges(tokens(), vec![merge], gpt2_piece).unwrap();
    assert_eq!(
        refusal(&other),
        "the merge of \"a\" and \"b\" produces the token \"c\", which isn't their concatenation"
    );
}

#[test]
fn tokenizers_that_are_more_than_byte_pairs_have_none() {
    let text = "aa aa";
    assert!(ModelTokenizer::train_chars(text).unwrap().bpe().is_none());
    let trained = ModelTokenizer::train_bpe(text, 258).unwrap();
    assert_eq!(trained.bpe().unwrap().vocab_size(), 258);
    let files = trained.files().unwrap();
    let changed = |from: &str, to: &str| {
        let folder = tempfile::tempdir().unwrap();
        let json = files["tokenizer.json"].replace(from, to);
        assert_ne!(json, files["tokenizer.json"]);
        std::fs::write(folder.path().join("tokenizer.json"), json).unwrap();
        ModelTokenizer::from_folder(folder.path()).unwrap().unwrap()
    };
    assert!(
        changed("\"version\": \"1.0\"", "\"version\": \"1.1\"")
            .bpe()
            .is_some()
    );
    let space = ("\"add_prefix_space\": false", "\"add_prefix_space\": true");
    let pattern = ("\"use_regex\": true", "\"use_regex\": false");
    let nfc = (
        "\"normalizer\": null",
        "\"normalizer\": {\"type\": \"NFC\"}",
    );
    let white = ("\"lstrip\": false", "\"lstrip\": true");
    for (from, to) in [space, pattern, nfc, white] {
        assert!(changed(from, to).bpe().is_none(), "{to}");
    }
}
