//! Tests with unusual text and invalid token IDs. No input may cause a panic, and the time for
//! encoding a text must be nearly proportional to the length of the text.

use std::time::{Duration, Instant};

use tokenizer::{
    AllowedSpecial, ENDOFTEXT, ENDOFTEXT_ID, Gpt2Tokenizer, SimpleTokenizerV2, StreamingDecoder,
    TokenizerError, UNK, Vocabulary,
};

const MILLION: usize = 1_000_000;

/// Tests that the time for encoding a long string of repeated characters doesn't grow
/// quadratically. In a release build, each string of a million bytes takes well under a second.
/// With an algorithm that takes quadratic time, the test would take hours.
#[test]
fn a_run_of_any_character_is_encoded_in_linear_time() {
    let tokenizer = Gpt2Tokenizer::new();
    let runs = [
        " ", "\n", " \n", "\u{a0}", "\u{3000}", "a", "9", "!", "'", "界", "\0", "\u{1c}", "  a",
    ];
    for unit in runs {
        for (before, after) in [("", "x"), ("x", "")] {
            let text = format!(
                "{before}{}{after}",
                unit.repeat(1 + MILLION / unit.chars().count())
            );
            let started = Instant::now();
            let ids = tokenizer.encode(&text).unwrap();
            let took = started.elapsed();
            println!("{unit:?} {before:?} {after:?}: {} ids, {took:?}", ids.len());
            assert!(took < Duration::from_secs(1000), "{unit:?}: {took:?}");
            assert_eq!(tokenizer.decode(&ids).unwrap(), text, "{unit:?}");
        }
    }
}

/// Compares the token IDs of white space with those of tiktoken-rs. The sequences of white space
/// are limited in length, because tiktoken-rs can't encode very long ones.
#[test]
fn long_white_space_has_the_ids_that_tiktoken_gives_it() {
    let tokenizer = Gpt2Tokenizer::new();
    let theirs = tiktoken_rs::r50k_base_singleton();
    for unit in [
        " ",
        "\n",
        "\u{a0}",
        "\u{3000}",
        " \n",
        "\r\n",
        "\u{2028}\u{85}",
    ] {
        for count in [
            1, 2, 3, 127, 128, 129, 255, 256, 257, 258, 259, 1_000, 9_999,
        ] {
            for (before, after) in [
                ("", ""),
                ("", "x"),
                ("a", "a"),
                ("!", "!"),
                ("1", " 1"),
                ("", "'s"),
            ] {
                let run = unit.repeat(count);
                let text = format!("{before}{run}{after}{run}");
                let expected = theirs.encode_ordinary(&text);
                assert_eq!(
                    tokenizer.encode_ordinary(&text),
                    expected,
                    "{unit:?} x {count}"
                );
            }
        }
    }
}

#[test]
fn a_special_token_that_is_not_allowed_is_named_with_its_place() {
    let tokenizer = Gpt2Tokenizer::new();
    let text = format!("é {ENDOFTEXT} b");
    let refused = TokenizerError::DisallowedSpecial {
        token: ENDOFTEXT,
        position: 3,
    };
    for allowed in [
        AllowedSpecial::None,
        AllowedSpecial::Only(&[]),
        AllowedSpecial::Only(&["<|unk|>"]),
    ] {
        let error = tokenizer.encode_allowing(&text, allowed).unwrap_err();
        assert_eq!(error, refused);
        let message = "the text contains the special token \"<|endoftext|>\" at byte 3, which the caller hasn't allowed";
        assert_eq!(error.to_string(), message);
    }
    for allowed in [AllowedSpecial::All, AllowedSpecial::Only(&[ENDOFTEXT])] {
        let ids = tokenizer.encode_allowing(&text, allowed).unwrap();
        assert_eq!(ids.iter().filter(|&&id| id == ENDOFTEXT_ID).count(), 1);
        assert_eq!(tokenizer.decode(&ids).unwrap(), text);
    }
    let plain = tokenizer.encode_ordinary(&text);
    assert!(!plain.contains(&ENDOFTEXT_ID));
    assert_eq!(tokenizer.decode(&plain).unwrap(), text);
}

#[test]
fn the_empty_text_has_no_ids_and_back() {
    let tokenizer = Gpt2Tokenizer::new();
    let ids = tokenizer.encode("").unwrap();
    assert!(ids.is_empty());
    assert_eq!(tokenizer.decode(&[]).unwrap(), "");
    assert_eq!(StreamingDecoder::new(&tokenizer).finish(), "");
}

#[test]
fn unknown_ids_are_named_with_their_place() {
    let tokenizer = Gpt2Tokenizer::new();
    for id in [50_257, u32::MAX] {
        let unknown = TokenizerError::UnknownId {
            id,
            position: 1,
            vocab_size: 50_257,
        };
        let ids = [15_496, id];
        assert_eq!(tokenizer.decode_bytes(&ids), Err(unknown.clone()));
        assert_eq!(tokenizer.decode(&ids), Err(unknown.clone()));
        assert_eq!(tokenizer.decode_lossy(&ids), Err(unknown.clone()));
        #[cfg(feature = "ndarray")]
        assert_eq!(
            tokenizer::token_ids_to_text(&ndarray::arr2(&[ids]), &tokenizer),
            Err(unknown.clone())
        );
        let mut decoder = StreamingDecoder::new(&tokenizer);
        decoder.push(15_496).unwrap();
        assert_eq!(decoder.push(id), Err(unknown));
        assert_eq!(decoder.push(11).unwrap(), ",");
    }
}

#[test]
fn half_a_character_is_an_error_when_strict_and_a_mark_when_lossy() {
    let tokenizer = Gpt2Tokenizer::new();
    let ids = tokenizer.encode("a🙂").unwrap();
    let half = &ids[..ids.len() - 1];
    let broken = TokenizerError::NotUtf8 { position: 1 };
    assert_eq!(tokenizer.decode(half), Err(broken));
    assert_eq!(tokenizer.decode_lossy(half).unwrap(), "a\u{fffd}");
}

#[cfg(feature = "ndarray")]
#[test]
fn a_batch_of_two_rows_is_no_text() {
    let tokenizer = Gpt2Tokenizer::new();
    let ids = ndarray::arr2(&[[0], [1]]);
    let error = tokenizer::token_ids_to_text(&ids, &tokenizer).unwrap_err();
    assert_eq!(error, TokenizerError::NotOneRow { rows: 2 });
}

#[test]
fn v2_needs_the_unknown_token() {
    let error = SimpleTokenizerV2::new(Vocabulary::from_text("a b")).unwrap_err();
    assert_eq!(error, TokenizerError::MissingToken { token: UNK });
}

#[cfg(feature = "ndarray")]
#[test]
fn a_row_of_any_tokenizers_ids_or_its_refusal() {
    let v1 = tokenizer::SimpleTokenizerV1::new(Vocabulary::from_text("a b"));
    let row = tokenizer::text_to_token_ids("b a", &v1).unwrap();
    assert_eq!(row, ndarray::arr2(&[[1, 0]]));
    assert_eq!(tokenizer::token_ids_to_text(&row, &v1).unwrap(), "b a");
    assert!(tokenizer::text_to_token_ids("c", &v1).is_err());
}
