//! Figures printed in the book and its notebooks that need no text but their own.

use tokenizer::{
    AllowedSpecial, ENDOFTEXT, Gpt2Tokenizer, Separators, SimpleTokenizerV1, SimpleTokenizerV2,
    TokenizerError, UNK, Vocabulary, preprocess, python_strip, split_keeping, split_text,
    strip_without_blanks, without_blanks,
};

const TEST_SENTENCE: &str = "Hello, world. This, is a test.";

#[test]
fn white_space_splits_as_in_section_2_2() {
    let pieces = split_keeping(TEST_SENTENCE, Separators::Whitespace);
    let printed = [
        "Hello,", " ", "world.", " ", "This,", " ", "is", " ", "a", " ", "test.",
    ];
    assert_eq!(pieces, printed);
}

#[test]
fn commas_and_periods_split_as_in_section_2_2() {
    let pieces = split_keeping(TEST_SENTENCE, Separators::CommasPeriods);
    let printed = [
        "Hello", ",", "", " ", "world", ".", "", " ", "This", ",", "", " ", "is", " ", "a", " ",
        "test", ".", "",
    ];
    assert_eq!(pieces, printed);
    let printed = [
        "Hello", ",", "world", ".", "This", ",", "is", "a", "test", ".",
    ];
    assert_eq!(without_blanks(&pieces), printed);
}

#[test]
fn all_punctuation_splits_as_in_section_2_2() {
    let printed = [
        "Hello", ",", "world", ".", "Is", "this", "--", "a", "test", "?",
    ];
    assert_eq!(preprocess("Hello, world. Is this-- a test?"), printed);
}

#[test]
fn the_three_ways_to_strip_differ_as_printed() {
    let items = ["Hello", "world", " ! ", "     "];
    assert_eq!(items.map(python_strip), ["Hello", "world", "!", ""]);
    assert_eq!(strip_without_blanks(&items), ["Hello", "world", "!"]);
    assert_eq!(without_blanks(&items), ["Hello", "world", " ! "]);
}

/// What CPython's `re.split` gives where separators meet, start or end a text, or nearly match.
#[test]
fn separators_side_by_side_keep_the_empty_strings_between_them() {
    assert_eq!(split_text(""), [""]);
    assert_eq!(split_text("-"), ["-"]);
    assert_eq!(split_text("---"), ["", "--", "-"]);
    assert_eq!(split_text("----"), ["", "--", "", "--", ""]);
    assert_eq!(split_text("a_b"), ["a", "_", "b"]);
    assert_eq!(split_text(" \u{1c}x"), ["", " ", "", "\u{1c}", "x"]);
}

#[test]
fn byte_pairs_of_section_2_5() {
    let tokenizer = Gpt2Tokenizer::new();
    let text = "Hello, do you like tea? <|endoftext|> In the sunlit terracesof someunknownPlace.";
    let printed = [
        15496, 11, 466, 345, 588, 8887, 30, 220, 50256, 554, 262, 4252, 18250, 8812, 2114, 1659,
        617, 34680, 27271, 13,
    ];
    let ids = tokenizer
        .encode(text, AllowedSpecial::Only(&[ENDOFTEXT]))
        .unwrap();
    assert_eq!(ids, printed);
    assert_eq!(tokenizer.decode(&ids).unwrap(), text);
    assert_eq!(tokenizer.vocab_size(), 50_257);
}

#[test]
fn byte_pairs_of_exercise_2_1() {
    let tokenizer = Gpt2Tokenizer::new();
    let ids = tokenizer
        .encode("Akwirw ier", AllowedSpecial::None)
        .unwrap();
    assert_eq!(ids, [33901, 86, 343, 86, 220, 959]);
    let pieces: Vec<_> = tokenizer.pieces(&ids).unwrap();
    let parts: [&[u8]; 6] = [b"Ak", b"w", b"ir", b"w", b" ", b"ier"];
    assert_eq!(pieces, parts);
}

/// V1 joins no colon or semicolon, V2 does; neither joins an underscore or a double dash.
#[test]
fn decoding_joins_the_punctuation_of_each_version() {
    let text = "It's a_b -- (c: d; \"e\")";
    let mut vocabulary = Vocabulary::from_text(text);
    vocabulary.extend([UNK]);
    let v1 = SimpleTokenizerV1::new(vocabulary.clone());
    let v2 = SimpleTokenizerV2::new(vocabulary).unwrap();
    let ids = v2.encode(text);
    assert_eq!(v1.encode(text).unwrap(), ids);
    assert_eq!(v1.decode(&ids).unwrap(), "It' s a _ b --( c : d ;\" e\")");
    assert_eq!(v2.decode(&ids).unwrap(), "It' s a _ b --( c: d;\" e\")");
}

#[test]
fn v1_names_the_word_it_does_not_know_and_v2_marks_it() {
    let mut vocabulary = Vocabulary::from_text("do you like tea?");
    vocabulary.extend([ENDOFTEXT, UNK]);
    assert_eq!(vocabulary.id(ENDOFTEXT), Some(5));
    assert_eq!(vocabulary.id(UNK), Some(6));
    let v1 = SimpleTokenizerV1::new(vocabulary.clone());
    let error = v1.encode("do Hello?").unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown token \"Hello\" at byte 3 of the text"
    );
    let unknown = TokenizerError::UnknownId {
        id: 7,
        position: 1,
        vocab_size: 7,
    };
    assert_eq!(v1.decode(&[0, 7]), Err(unknown.clone()));
    let v2 = SimpleTokenizerV2::new(vocabulary).unwrap();
    assert_eq!(v2.encode("do Hello?"), [1, 6, 0]);
    assert_eq!(v2.decode(&[0, 7]), Err(unknown));
}
