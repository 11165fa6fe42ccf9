//! GPT-2's tokens and merges, from the file of merges that OpenAI published with the model.
//!
//! The file is part of this crate (`data/gpt2-merges.txt`, which OpenAI calls `vocab.bpe`; MIT
//! licence), so that nothing is downloaded. The ids follow from it: first the 256 bytes, then the
//! token of each merge, and `<|endoftext|>`.

use std::collections::HashMap;

use crate::letters::{bytes_of_letters, gpt2_bytes};
use crate::pairs::Pair;

/// GPT-2's one special token: the end of a document.
pub const ENDOFTEXT: &str = "<|endoftext|>";

/// The id of [`ENDOFTEXT`].
pub const ENDOFTEXT_ID: u32 = 50_256;

/// The number of GPT-2's tokens: 256 bytes, 50,000 merges and `<|endoftext|>`.
pub(crate) const VOCAB_SIZE: usize = 50_257;

/// After a line with the version, one merge per line: two tokens in letters, with a space between.
const MERGES: &str = include_str!("../data/gpt2-merges.txt");

/// Returns the bytes of all tokens, in the order of their ids, and the pairs that became the tokens
/// from 256 on.
pub(crate) fn gpt2_tokens_and_pairs() -> (Vec<Vec<u8>>, Vec<Pair>) {
    let mut tokens: Vec<Vec<u8>> = gpt2_bytes().map(|byte| vec![byte]).to_vec();
    let mut ids: HashMap<Vec<u8>, u32> = tokens.iter().cloned().zip(0..).collect();
    let mut pairs = Vec::new();
    for line in MERGES.lines().skip(1) {
        let (left, right) = line.split_once(' ').expect("two tokens per line");
        let [left, right] = [left, right]
            .map(|token| bytes_of_letters(token).expect("OpenAI's file has only letters"));
        pairs.push((ids[&left], ids[&right]));
        let token = [left, right].concat();
        ids.insert(token.clone(), tokens.len() as u32);
        tokens.push(token);
    }
    tokens.push(ENDOFTEXT.into());
    (tokens, pairs)
}
