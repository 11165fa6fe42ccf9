//! Tests properties that hold for any text and any vocabulary.

#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]
#![allow(clippy::unwrap_used)] // a test that can't begin panics

use std::sync::LazyLock;

use model_tokenizer::tokenizer::StreamingDecoder;
use model_tokenizer::{ModelTokenizer, UNK};
use proptest::prelude::*;
use test_support::any_text;

const TEXT: &str = "the bell rang once, and the bell's keeper went up the stairs to the bell";

/// A byte pair encoding in which some learned tokens consist only of white space. With such tokens,
/// cutting a text in the middle of white space could change its IDs.
static BPE: LazyLock<ModelTokenizer> = LazyLock::new(|| {
    ModelTokenizer::train_bpe(&format!("{TEXT}\n\n  \n\n  \n\n  ").repeat(2), 270).unwrap()
});
static CHARS: LazyLock<ModelTokenizer> =
    LazyLock::new(|| ModelTokenizer::train_chars(TEXT).unwrap());
static GPT2: LazyLock<ModelTokenizer> = LazyLock::new(ModelTokenizer::gpt2);

fn streamed(tokenizer: &ModelTokenizer, ids: &[u32]) -> String {
    let mut stream = StreamingDecoder::new(tokenizer);
    let mut text: String = ids.iter().map(|&id| stream.push(id).unwrap()).collect();
    text.push_str(&stream.finish());
    text
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn byte_pairs_give_every_text_back(text in any_text()) {
        for tokenizer in [&*BPE, &*GPT2] {
            let ids = tokenizer.encode(&text).unwrap();
            prop_assert_eq!(tokenizer.decode(&ids).unwrap(), text.clone());
            prop_assert_eq!(streamed(tokenizer, &ids), text.clone());
        }
    }

    #[test]
    fn characters_give_a_text_back_with_a_mark_for_unknown_ones(text in any_text()) {
        let ids = CHARS.encode(&text).unwrap();
        let known = |c: char| if TEXT.contains(c) { c.to_string() } else { UNK.to_owned() };
        let expected: Vec<String> = text.split("<|endoftext|>").map(|part| part.chars().map(known).collect()).collect();
        let expected = expected.join("<|endoftext|>");
        prop_assert_eq!(CHARS.decode(&ids).unwrap(), expected.clone());
        prop_assert_eq!(streamed(&CHARS, &ids), expected);
    }

}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, failure_persistence: None, ..ProptestConfig::default() })]

    /// A `ModelTokenizer` cuts a long text into parts, which several threads encode. The resulting
    /// IDs must be the same as those of `Bpe::encode`, which encodes the text as a whole.
    #[test]
    fn parts_change_no_id(unit in "[a-z]{0,9}[ \n]{0,4}(<?[a-z'é]{0,5}|(\n\n)?<\\|endoftext\\|>)") {
        let text = unit.repeat(200_000 / unit.len().max(1));
        prop_assert!(BPE.encode(&text).unwrap() == BPE.bpe().unwrap().encode(&text).unwrap());
    }
}

/// With GPT-2's vocabulary, two consecutive line breaks must be encoded as the token 628, as in
/// tiktoken and transformers. If the text were cut between the two line breaks, each of them would
/// be encoded as the token 198.
#[test]
fn blanks_before_a_special_token_are_one_piece_in_a_long_text() {
    let text = format!("{}\n\n<|endoftext|>b", "a".repeat(1 << 16));
    let ids = GPT2.encode(&text).unwrap();
    assert_eq!(ids[ids.len() - 3..], [628, 50256, 65]);
    assert!(BPE.encode(&text).unwrap() == BPE.bpe().unwrap().encode(&text).unwrap());
}

#[test]
fn training_gives_the_same_tokens_on_any_number_of_threads() {
    let text: String = (0..40_000).map(|n| format!("{} ", n * n % 7919)).collect();
    let trained = |threads| {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .build()
            .unwrap();
        let tokenizer = pool
            .install(|| ModelTokenizer::train_bpe(&text, 600))
            .unwrap();
        let folder = tempfile::tempdir().unwrap();
        tokenizer.save(folder.path()).unwrap();
        std::fs::read_to_string(folder.path().join("tokenizer.json")).unwrap()
    };
    let once = trained(1);
    assert!(once == trained(4) && once == trained(3));
}
