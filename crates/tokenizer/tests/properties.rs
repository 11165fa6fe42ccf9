//! Tests properties that hold for any text and any list of token IDs.

use std::sync::LazyLock;

use proptest::prelude::*;
use test_support::{any_text, proptest_config};
use tokenizer::bpe::{Bpe, BpeConfig};
use tokenizer::{
    AllowedSpecial, Gpt2Tokenizer, Separators, SimpleTokenizerV1, SimpleTokenizerV2,
    StreamingDecoder, Tokenizer, UNK, Vocabulary, preprocess, python_strip, split_keeping,
    split_text, without_blanks,
};

/// A byte pair encoding without a special token.
static BPE: LazyLock<Bpe> = LazyLock::new(|| {
    let config = BpeConfig {
        vocab_size: 280,
        ..BpeConfig::default()
    };
    Bpe::train(
        "the bell 界é界é rang  in the\n\n\n\n night of the bells",
        &config,
    )
    .expect("the alphabet has all bytes")
});

fn streamed(tokenizer: &impl Tokenizer, ids: &[u32]) -> String {
    let mut decoder = StreamingDecoder::new(tokenizer);
    let pushed: Vec<String> = ids
        .iter()
        .map(|&id| decoder.push(id).expect("ids of the vocabulary"))
        .collect();
    pushed.concat() + &decoder.finish()
}

/// Returns the text that a word tokenizer of the book must return when it decodes the words in
/// `text`, which are joined with single spaces. Removes each space before one of the characters in
/// `punctuation`, like `re.sub(r'\s+([punctuation])', r'\1', text)` in the book.
fn without_space_before(punctuation: &str, text: &str) -> String {
    let marks = punctuation.chars();
    marks.fold(text.to_owned(), |text, mark| {
        text.replace(&format!(" {mark}"), &mark.to_string())
    })
}

proptest! {
    #![proptest_config(proptest_config(2_000))]

    #[test]
    fn byte_pairs_give_every_text_back(text in any_text()) {
        let tokenizer = Gpt2Tokenizer::new();
        let ids = tokenizer.encode(&text).unwrap();
        prop_assert_eq!(tokenizer.decode(&ids).unwrap(), text.clone());
        prop_assert_eq!(tokenizer.decode(&tokenizer.encode_ordinary(&text)).unwrap(), text);
    }

    #[test]
    fn ids_are_those_of_tiktoken(text in any_text()) {
        let tokenizer = Gpt2Tokenizer::new();
        let theirs = tiktoken_rs::r50k_base_singleton();
        prop_assert_eq!(tokenizer.encode_ordinary(&text), theirs.encode_ordinary(&text));
        prop_assert_eq!(
            tokenizer.encode(&text).unwrap(),
            theirs.encode_with_special_tokens(&text)
        );
    }

    #[test]
    fn ranges_of_byte_pairs_cover_the_text_and_contain_the_tokens_bytes(text in any_text()) {
        let gpt2 = Gpt2Tokenizer::new();
        let all: [&dyn Tokenizer; 2] = [&gpt2, &*BPE];
        for tokenizer in all {
            let tokens = tokenizer.encode_with_offsets(&text).unwrap();
            let ids: Vec<u32> = tokens.iter().map(|(id, _)| *id).collect();
            prop_assert_eq!(ids, tokenizer.encode(&text).unwrap());
            let mut end = 0;
            for (id, range) in tokens {
                let token = tokenizer.token_of(id).unwrap();
                prop_assert_eq!(range.start, end);
                prop_assert_eq!(&text.as_bytes()[range.clone()], &*token);
                prop_assert_eq!(tokenizer.id_of(&token), Some(id));
                end = range.end;
            }
            prop_assert_eq!(end, text.len());
        }
    }

    #[test]
    fn ranges_of_words_contain_the_words(known in any_text(), text in any_text()) {
        let mut vocabulary = Vocabulary::from_text(&text);
        let v1 = SimpleTokenizerV1::new(vocabulary.clone());
        vocabulary = Vocabulary::from_text(&known);
        vocabulary.extend([UNK]);
        let v2 = SimpleTokenizerV2::new(vocabulary).unwrap();
        let all: [&dyn Tokenizer; 2] = [&v1, &v2];
        for tokenizer in all {
            let tokens = tokenizer.encode_with_offsets(&text).unwrap();
            let ids: Vec<u32> = tokens.iter().map(|(id, _)| *id).collect();
            prop_assert_eq!(&ids, &tokenizer.encode(&text).unwrap());
            let words: Vec<&str> = tokens.into_iter().map(|(_, range)| &text[range]).collect();
            prop_assert_eq!(words, preprocess(&text));
            for id in ids {
                let token = tokenizer.token_of(id).unwrap();
                prop_assert_eq!(tokenizer.id_of(&token), Some(id));
            }
        }
    }

    #[test]
    fn only_a_special_token_makes_encoding_fail(text in any_text()) {
        let refused = Gpt2Tokenizer::new().encode_allowing(&text, AllowedSpecial::None).is_err();
        prop_assert_eq!(refused, text.contains("<|endoftext|>"));
    }

    /// Tests that decoding token IDs one at a time gives the same text as decoding them all at
    /// once. Some of the lists contain random IDs of the whole vocabulary, and others contain only
    /// IDs from 90 to 255. IDs below 256 represent single bytes, so the latter lists mix ASCII
    /// characters with all kinds of invalid UTF-8.
    #[test]
    fn decoding_id_by_id_is_decoding_at_once(ids in prop_oneof![
        proptest::collection::vec(0u32..50_257, 0..50),
        proptest::collection::vec(90u32..256, 0..20),
    ]) {
        let tokenizer = Gpt2Tokenizer::new();
        prop_assert_eq!(streamed(&tokenizer, &ids), tokenizer.decode_lossy(&ids).unwrap());
    }

    #[test]
    fn words_one_by_one_are_what_the_book_joins(text in any_text(), ids in proptest::collection::vec(0u32..30, 0..30)) {
        let mut vocabulary = Vocabulary::from_text(&text);
        vocabulary.extend([UNK]);
        let ids: Vec<u32> = ids.iter().map(|id| id % vocabulary.len() as u32).collect();
        let words: Vec<&str> = ids.iter().filter_map(|&id| vocabulary.token(id)).collect();
        let text = words.join(" ");
        let v1 = SimpleTokenizerV1::new(vocabulary.clone());
        prop_assert_eq!(v1.decode(&ids).unwrap(), without_space_before(",.?!\"()'", &text));
        prop_assert_eq!(Tokenizer::decode(&v1, &ids), v1.decode(&ids));
        prop_assert_eq!(streamed(&v1, &ids), v1.decode(&ids).unwrap());
        let v2 = SimpleTokenizerV2::new(vocabulary).unwrap();
        prop_assert_eq!(v2.decode(&ids).unwrap(), without_space_before(",.:;?!\"()'", &text));
        prop_assert_eq!(Tokenizer::decode(&v2, &ids), v2.decode(&ids));
        prop_assert_eq!(streamed(&v2, &ids), v2.decode(&ids).unwrap());
    }

    #[test]
    fn split_pieces_joined_are_the_text_and_alternate(text in any_text()) {
        for separators in [
            Separators::Whitespace,
            Separators::CommasPeriods,
            Separators::WithoutColons,
            Separators::Full,
        ] {
            let pieces = split_keeping(&text, separators);
            prop_assert_eq!(pieces.concat(), text.as_str());
            prop_assert_eq!(pieces.len() % 2, 1);
            for (place, piece) in pieces.iter().enumerate() {
                // `split_keeping` alternates between words and separators. If a separator, such as
                // a comma, is split again, the result must be the separator between two empty
                // strings. If a word is split again, the result must be the word itself.
                let again = split_keeping(piece, separators);
                if place % 2 == 1 {
                    prop_assert_eq!(again, ["", *piece, ""]);
                } else {
                    prop_assert_eq!(again, [*piece]);
                }
            }
        }
    }

    #[test]
    fn words_are_never_blank_and_stripping_finds_nothing_more(text in any_text()) {
        let words = preprocess(&text);
        prop_assert_eq!(&words, &without_blanks(&split_text(&text)));
        for word in words {
            prop_assert!(!word.is_empty());
            prop_assert_eq!(python_strip(word), word);
        }
    }

    #[test]
    fn v2_encodes_every_text_and_decodes_what_it_encoded(known in any_text(), text in any_text()) {
        let mut vocabulary = Vocabulary::from_text(&known);
        vocabulary.extend([UNK]);
        let tokenizer = SimpleTokenizerV2::new(vocabulary).unwrap();
        let ids = tokenizer.encode(&text).unwrap();
        prop_assert_eq!(ids.len(), preprocess(&text).len());
        prop_assert!(tokenizer.decode(&ids).is_ok());
    }

    #[test]
    fn v1_encodes_the_text_that_its_vocabulary_is_from(text in any_text()) {
        let tokenizer = SimpleTokenizerV1::new(Vocabulary::from_text(&text));
        let ids = tokenizer.encode(&text).unwrap();
        let words: Vec<&str> = ids.iter().map(|&id| tokenizer.vocabulary().token(id).unwrap()).collect();
        prop_assert_eq!(words, preprocess(&text));
    }

    #[test]
    fn vocabularies_are_sorted_distinct_and_read_both_ways(text in any_text()) {
        let vocabulary = Vocabulary::from_text(&text);
        let tokens = vocabulary.tokens();
        prop_assert!(tokens.is_sorted_by(|a, b| a.chars().lt(b.chars())));
        for (id, token) in tokens.iter().enumerate() {
            prop_assert_eq!(vocabulary.id(token), Some(id as u32));
        }
    }
}
