//! Tests byte pair encoding. Compares the token IDs with those of tiktoken, and the results of the
//! fast implementation with the results of the plain implementation.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use proptest::prelude::*;
use test_support::any_text;
use tokenizer::bpe::{Bpe, BpeConfig, EncodingRules, Merge, Ties, gpt2_piece, gpt2_pieces};
use tokenizer::{ENDOFTEXT, Tokenizer, TokenizerError};

static GPT2: LazyLock<&Bpe> = LazyLock::new(Bpe::gpt2);

fn the_whole(text: &str) -> &str {
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn with_gpt2s_merges_the_ids_are_those_of_tiktoken(text in any_text()) {
        let theirs = tiktoken_rs::r50k_base_singleton();
        prop_assert_eq!(GPT2.encode_ordinary(&text), theirs.encode_ordinary(&text));
        let ids = GPT2.encode(&text).unwrap();
        prop_assert_eq!(GPT2.decode(&ids).unwrap(), text.clone());
        prop_assert_eq!(ids, theirs.encode_with_special_tokens(&text));
    }

    #[test]
    fn pieces_joined_are_the_text(text in any_text()) {
        prop_assert_eq!(gpt2_pieces(&text).concat(), text);
    }

    /// Compares the fast implementation of byte pair encoding with the plain implementation, both
    /// for training and for encoding. The generated text consists of only a few distinct letters,
    /// so it contains many equally frequent pairs, overlapping pairs as in "aaa", and different
    /// pairs that have the same concatenation.
    #[test]
    fn the_fast_form_is_the_plain_one(
        text in "([ab]{1,12} ?|a{1,9} ?|[a-d ]{1,20}|<\\|endoftext\\|>){0,20}",
        more in 0usize..60,
        least_count in 1u64..4,
        whole: bool,
        first: bool,
    ) {
        let config = BpeConfig {
            vocab_size: 256 + more,
            least_count,
            divide: if whole { the_whole } else { gpt2_piece },
            ties: if first { Ties::FirstInText } else { Ties::SmallestIds },
            ..BpeConfig::default()
        };
        let bpe = Bpe::train(&text, &config).unwrap();
        let plain = Bpe::train_plain(&text, &config).unwrap();
        prop_assert_eq!(bpe.merges(), plain.merges());
        prop_assert_eq!(bpe.tokens(), plain.tokens());
        let documents: Vec<&str> = text.split(ENDOFTEXT).collect();
        let of_several = Bpe::train_texts(&documents, &config).unwrap();
        prop_assert_eq!(of_several.merges(), bpe.merges());
        let pieces = if whole { vec![&*text] } else { gpt2_pieces(&text) };
        for piece in pieces {
            prop_assert_eq!(bpe.encode_ordinary(piece), plain.encode_plain(piece));
        }
        let (tokens, merges) = (plain.tokens().to_vec(), plain.merges().to_vec());
        let kept = Bpe::from_merges(tokens, merges, config.divide).unwrap();
        prop_assert_eq!(kept.encode(&text).unwrap(), bpe.encode(&text).unwrap());
        prop_assert_eq!(bpe.decode(&bpe.encode(&text).unwrap()).unwrap(), text);
    }
}

/// Tests that the time for encoding a long string of repeated characters, and for training a
/// vocabulary on it, doesn't grow quadratically. In a release build, each string takes well under a
/// second. With algorithms that take quadratic time, the test would take hours.
#[test]
fn a_run_of_any_character_is_encoded_and_trained_on_in_linear_time() {
    let theirs = tiktoken_rs::r50k_base_singleton();
    for unit in ["a", " ", "\n", "!", "界", "ab", "'s", "^ "] {
        let text = unit.repeat(200_000 / unit.len()) + "x";
        let ids = GPT2.encode_ordinary(&text);
        assert!(ids == theirs.encode_ordinary(&text), "{unit:?}");
        let config = BpeConfig {
            vocab_size: 270,
            divide: the_whole,
            ..BpeConfig::default()
        };
        let bpe = Bpe::train(&text, &config).unwrap();
        assert_eq!(bpe.tokens().len(), 270, "{unit:?}");
    }
}

/// The function that divides text into pieces is called with all of the remaining text. If it
/// returns an empty string, the remaining text becomes a single piece. If it returns anything other
/// than a prefix of the remaining text, training and encoding must panic.
#[test]
fn a_division_into_anything_but_prefixes_panics_with_both_texts() {
    fn nothing(text: &str) -> &str {
        assert!(!text.is_empty());
        ""
    }
    fn equal_text(_: &str) -> &str {
        "ab"
    }
    fn longer(_: &str) -> &str {
        "ab, which is longer than the text"
    }
    fn in_a_character(text: &str) -> &str {
        assert_eq!(text, "é");
        "e"
    }
    fn without_the_first(text: &str) -> &str {
        &text[1..]
    }
    let config = |divide| BpeConfig {
        divide,
        ..BpeConfig::default()
    };
    for divide in [nothing, equal_text] {
        let bpe = Bpe::train("abab", &config(divide)).unwrap();
        let pieces: &[&str] = if divide("a").is_empty() {
            &["abab"]
        } else {
            &["ab"; 2]
        };
        assert_eq!(bpe.pieces("abab"), pieces);
        assert_eq!(bpe.pieces(""), [""; 0]);
    }
    for (divide, text, returned) in [
        (longer as fn(&str) -> &str, "ab", "ab, which is longer "),
        (in_a_character, "é", "e"),
        (without_the_first, "abc", "bc"),
    ] {
        let panic = std::panic::catch_unwind(|| Bpe::train(text, &config(divide))).unwrap_err();
        let message = panic.downcast_ref::<String>().unwrap();
        assert_eq!(
            *message,
            format!(
                "the function `divide` of a byte pair encoding returned {returned:?}, but it must \
                return a prefix of its argument, which begins with {text:?}"
            )
        );
    }
}

#[test]
fn gpt2_has_each_token_from_two_others_but_bytes_and_the_end() {
    assert_eq!(GPT2.merges().len(), 50_000);
    assert_eq!(GPT2.tokens().len(), 50_257);
    let distinct: HashSet<&Merge> = GPT2.merges().iter().collect();
    assert_eq!(distinct.len(), 50_000);
    let ids: HashMap<&[u8], u32> = GPT2.tokens().iter().map(Vec::as_slice).zip(0..).collect();
    assert_eq!(
        GPT2.merged(ids[&b" t"[..]], ids[&b"he"[..]]),
        Some(ids[&b" the"[..]])
    );
    assert_eq!(GPT2.merged(ids[&b" the"[..]], ids[&b" the"[..]]), None);
}

#[test]
fn an_alphabet_without_a_byte_and_an_id_without_a_token_are_refused() {
    let alphabet = BpeConfig::default()
        .alphabet
        .into_iter()
        .filter(|token| token[0] != 7);
    let config = BpeConfig {
        alphabet: alphabet.collect(),
        ..BpeConfig::default()
    };
    let error = Bpe::train("abc", &config).unwrap_err();
    assert_eq!(error, TokenizerError::MissingByte { byte: 7 });
    let mut config = BpeConfig {
        vocab_size: 263,
        ..BpeConfig::default()
    };
    let twice = ["th", " ", ENDOFTEXT].map(|token| token.as_bytes().to_vec());
    config.alphabet.extend([twice.clone(), twice].concat());
    let text = "the thin<|endoftext|> thing there";
    let [fast, plain] = [Bpe::train, Bpe::train_plain].map(|train| train(text, &config).unwrap());
    assert_eq!(fast.merges(), plain.merges());
    assert_eq!(fast.encode("th <|endoftext|>").unwrap(), [259, 260, 261]);
    let bpe = Bpe::train("", &BpeConfig::default()).unwrap();
    assert_eq!(bpe.tokens().len(), 256); // A text without pairs adds no tokens.
    assert!(matches!(
        bpe.decode(&[0, 256]),
        Err(TokenizerError::UnknownId {
            id: 256,
            position: 1,
            vocab_size: 256
        })
    ));
}

#[test]
fn every_character_is_divided_as_tiktoken_divides_it() {
    let theirs = tiktoken_rs::r50k_base_singleton();
    let rare = ('\u{10000}'..=char::MAX).step_by(7);
    let characters: Vec<char> = ('\0'..='\u{ffff}').chain(rare).collect();
    for block in characters.chunks(4096) {
        let text: String = block
            .iter()
            .map(|c| format!("{c}a {c}1{c} \n{c}"))
            .collect();
        let ids = GPT2.encode_ordinary(&text);
        assert!(ids == theirs.encode_ordinary(&text), "{:?}", block[0]);
    }
}

#[test]
fn an_encoder_that_remembers_returns_the_same_ids() {
    let text =
        "The bell rang, and rang; a very-long-identifier_of_words 1234567890123456 <|endoftext|>"
            .repeat(50);
    let (mut encoder, mut ids) = (GPT2.encoder(64), Vec::new()); // The cache has only 16 slots, so entries are replaced.
    for _ in 0..3 {
        encoder.encode(&text, &mut ids);
        encoder.encode_ordinary(&text, &mut ids);
    }
    let [special, ordinary] = [GPT2.encode(&text).unwrap(), GPT2.encode_ordinary(&text)];
    assert!(special.len() < ordinary.len());
    assert_eq!(ids, [special, ordinary].concat().repeat(3));
}

#[test]
fn the_unknown_token_has_the_range_of_the_bytes_without_a_token() {
    let tokens = ["[UNK]", "a", " ", "[", "aa", ""].map(|token| token.as_bytes().to_vec());
    let merge = Merge {
        left: 1,
        right: 1,
        id: 4,
    };
    let bpe = |unknown, fuse_unknown| {
        let rules = EncodingRules {
            ignore_merges: false,
            unknown,
            fuse_unknown,
        };
        Bpe::with_rules(tokens.to_vec(), vec![merge], gpt2_piece, rules).unwrap()
    };
    let ranges = |bpe: &Bpe, text: &str| {
        let tokens = bpe.encode_with_offsets(text).unwrap();
        let ids: Vec<u32> = tokens.iter().map(|(id, _)| *id).collect();
        assert_eq!(ids, bpe.encode(text).unwrap());
        tokens
    };
    let separate = bpe(Some(0), false);
    let expected = [
        (4, 0..2),
        (0, 2..3),
        (0, 3..4),
        (1, 4..5),
        (2, 5..6),
        (0, 6..7),
        (0, 7..8),
    ];
    assert_eq!(ranges(&separate, "aaéa é"), expected);
    // If `fuse_unknown` is true, adjacent bytes without a token share one unknown token, but only
    // if they belong to the same piece. In this text, "é" and "!" are separate pieces, so they are
    // encoded as two unknown tokens.
    let fused = bpe(Some(0), true);
    let expected = [
        (4, 0..2),
        (0, 2..4),
        (1, 4..5),
        (2, 5..6),
        (0, 6..8),
        (0, 8..9),
    ];
    assert_eq!(ranges(&fused, "aaéa é!"), expected);
    // The text "[UNK]" isn't encoded as the unknown token.
    let expected = [(3, 0..1), (0, 1..4), (0, 4..5)];
    assert_eq!(ranges(&fused, "[UNK]"), expected);

    let without = bpe(None, false);
    let missing = TokenizerError::MissingByte { byte: 0xc3 };
    assert_eq!(without.encode("aaéa").unwrap_err(), missing);
    assert_eq!(without.encode_with_offsets("aaéa").unwrap_err(), missing);

    // An empty token means that its ID isn't used.
    assert_eq!(fused.token_of(5), None);
    assert_eq!(fused.id_of(b""), None);
    assert!(fused.decode(&[5]).is_err());
}
