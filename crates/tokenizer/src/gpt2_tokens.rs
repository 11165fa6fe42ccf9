//! GPT-2's vocabulary, which is derived from the list of merges that OpenAI published with the
//! model.
//!
//! The list is the file `data/gpt2-merges.txt` of this crate. OpenAI calls it `vocab.bpe` and
//! published it under the MIT license. The merges determine all IDs: IDs below 256 are the single
//! bytes, in the order of [`gpt2_bytes`], each merge then adds one token, and the last ID is
//! `<|endoftext|>`.

use std::collections::HashMap;

use crate::letters::{bytes_of_letters, gpt2_bytes};
use crate::pairs::Pair;

/// GPT-2's only special token, which marks the end of a document.
pub const ENDOFTEXT: &str = "<|endoftext|>";

/// ID of [`ENDOFTEXT`] in GPT-2's vocabulary.
pub const ENDOFTEXT_ID: u32 = 50_256;

/// Number of tokens in GPT-2's vocabulary: 256 bytes, 50,000 merges and `<|endoftext|>`.
pub(crate) const VOCAB_SIZE: usize = 50_257;

/// The text of the merges file. The first line is a version number. Each other line contains the
/// two parts of a merge, written in letters (see [`letters_of`](crate::bpe::letters_of)) and
/// separated by a space.
const MERGES: &str = include_str!("../data/gpt2-merges.txt");

/// Returns the bytes of each token in the order of the IDs, and the two IDs that each merge joins.
/// The first merge makes the token 256, the second one 257, and so on.
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
