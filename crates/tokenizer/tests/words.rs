//! Tests details of the word tokenizers: empty strings between separators, spaces before
//! punctuation, and unknown words.

use tokenizer::{
    ENDOFTEXT, SimpleTokenizerV1, SimpleTokenizerV2, TokenizerError, UNK, Vocabulary, split_text,
};

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
fn decoding_joins_the_punctuation_of_each_version() {
    let text = "It's a_b -- (c: d; \"e\")";
    let mut vocabulary = Vocabulary::from_text(text);
    vocabulary.extend([UNK]);
    let v1 = SimpleTokenizerV1::new(vocabulary.clone());
    let v2 = SimpleTokenizerV2::new(vocabulary).unwrap();
    let ids = v2.encode(text).unwrap();
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
        "the vocabulary doesn't contain the word \"Hello\", which is at byte 3 of the text"
    );
    let unknown = TokenizerError::UnknownId {
        id: 7,
        position: 1,
        vocab_size: 7,
    };
    assert_eq!(v1.decode(&[0, 7]), Err(unknown.clone()));
    let v2 = SimpleTokenizerV2::new(vocabulary).unwrap();
    assert_eq!(v2.encode("do Hello?").unwrap(), [1, 6, 0]);
    assert_eq!(v2.decode(&[0, 7]), Err(unknown));
}
