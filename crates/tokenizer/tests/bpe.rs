//! Byte pairs from the ground up: as tiktoken applies them, and as the slow definition trains them.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use proptest::prelude::*;
use test_support::any_text;
use tokenizer::bpe::{Bpe, BpeConfig, Ties, gpt2_pieces};
use tokenizer::{ENDOFTEXT, TokenizerError};

static GPT2: LazyLock<Bpe> = LazyLock::new(Bpe::gpt2);

fn the_whole(text: &str) -> Vec<&str> {
    vec![text]
}

/// Counts all pairs anew for each token.
fn trained_slowly(text: &str, config: &BpeConfig) -> (Vec<(u32, u32)>, Vec<Vec<u8>>) {
    let (mut tokens, mut merges) = (config.alphabet.clone(), Vec::new());
    let pieces = text.split(ENDOFTEXT).flat_map(config.divide);
    let id_of = |byte| {
        tokens
            .iter()
            .rposition(|token| token == &[byte])
            .expect("all are there") as u32
    };
    let mut words: Vec<Vec<u32>> = pieces
        .map(|piece| piece.bytes().map(id_of).collect())
        .collect();
    while tokens.len() < config.vocab_size {
        let mut pairs: Vec<((u32, u32), u64)> = Vec::new(); // in the order of the text
        for pair in words.iter().flat_map(|word| word.windows(2)) {
            let pair = (pair[0], pair[1]);
            match pairs.iter_mut().find(|(known, _)| *known == pair) {
                Some((_, count)) => *count += 1,
                None => pairs.push((pair, 1)),
            }
        }
        if config.ties == Ties::SmallestIds {
            pairs.sort_unstable();
        }
        let most = pairs.iter().rev().max_by_key(|(_, count)| *count); // the first of equals
        let Some(&(pair, _)) = most.filter(|(_, count)| *count >= config.least_count) else {
            break;
        };
        let bytes = [&*tokens[pair.0 as usize], &tokens[pair.1 as usize]].concat();
        let known = tokens.iter().position(|token| *token == bytes);
        let id = known.unwrap_or(tokens.len()) as u32;
        if known.is_none() {
            tokens.push(bytes);
        }
        merges.push(pair);
        for word in &mut words {
            let mut at = 0;
            while at + 1 < word.len() {
                if (word[at], word[at + 1]) == pair {
                    word.splice(at..at + 2, [id]);
                }
                at += 1;
            }
        }
    }
    (merges, tokens)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn with_gpt2s_merges_the_ids_are_those_of_tiktoken(text in any_text()) {
        let theirs = tiktoken_rs::r50k_base_singleton();
        prop_assert_eq!(GPT2.encode_ordinary(&text), theirs.encode_ordinary(&text));
        let ids = GPT2.encode(&text);
        prop_assert_eq!(GPT2.decode(&ids).unwrap(), text.clone());
        prop_assert_eq!(ids, theirs.encode_with_special_tokens(&text));
    }

    #[test]
    fn pieces_joined_are_the_text(text in any_text()) {
        prop_assert_eq!(gpt2_pieces(&text).concat(), text);
    }

    /// Few letters make many ties, runs of one letter overlapping pairs, and tokens that two pairs
    /// spell.
    #[test]
    fn training_is_counting_anew_for_each_token(
        text in "([ab]{1,12} ?|a{1,9} ?|[a-d ]{1,20}|<\\|endoftext\\|>){0,20}",
        more in 0usize..60,
        least_count in 1u64..4,
        whole: bool,
        first: bool,
    ) {
        let config = BpeConfig {
            vocab_size: 256 + more,
            least_count,
            divide: if whole { the_whole } else { gpt2_pieces },
            ties: if first { Ties::FirstInText } else { Ties::SmallestIds },
            ..BpeConfig::default()
        };
        let bpe = Bpe::train(&text, &config).unwrap();
        let (merges, tokens) = trained_slowly(&text, &config);
        prop_assert_eq!(bpe.merges(), merges);
        prop_assert_eq!(bpe.tokens(), tokens);
        prop_assert_eq!(bpe.decode(&bpe.encode(&text)).unwrap(), text);
    }
}

/// Runs of half a million characters take well under a second in a release build; quadratic time
/// would take hours.
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

#[test]
fn gpt2_has_each_token_from_two_others_but_bytes_and_the_end() {
    assert_eq!(GPT2.merges().len(), 50_000);
    assert_eq!(GPT2.tokens().len(), 50_257);
    let distinct: HashSet<&(u32, u32)> = GPT2.merges().iter().collect();
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
    let bpe = Bpe::train("", &BpeConfig::default()).unwrap();
    assert_eq!(bpe.tokens().len(), 256); // a text without pairs makes none
    assert!(matches!(
        bpe.decode(&[0, 256]),
        Err(TokenizerError::UnknownId {
            id: 256,
            position: 1,
            vocab_size: 256
        })
    ));
}
