//! GPT-2's vocabulary, which is derived from the list of merges that OpenAI published with the
//! model.
//!
//! The list of merges is this crate's file `data/gpt2-merges.txt`, which OpenAI published as
//! `vocab.bpe` under the MIT license. The list determines all token IDs. The IDs below 256
//! represent single bytes in the order of [`gpt2_bytes`], each merge then adds one token, and the
//! last ID represents `<|endoftext|>`.

use std::collections::HashMap;

use crate::letters::{bytes_of_letters, gpt2_bytes};
use crate::pairs::Pair;

/// GPT-2's only special token, which marks the end of a document.
pub const ENDOFTEXT: &str = "<|endoftext|>";

/// ID of [`ENDOFTEXT`] in GPT-2's vocabulary.
pub const ENDOFTEXT_ID: u32 = 50_256;

/// Number of tokens in GPT-2's vocabulary: 256 bytes, 50,000 merges and `<|endoftext|>`.
pub(crate) const VOCAB_SIZE: usize = 50_257;

/// Contents of the file with GPT-2's merges. The first line is a version number. Each of the other
/// lines contains the two tokens of a merge, separated by a space. Each byte of a token is written
/// as a printable character (see [`letters_of`](crate::bpe::letters_of)).
const MERGES: &str = include_str!("../data/gpt2-merges.txt");

/// Returns the bytes of all tokens in the order of their IDs, and the pair of token IDs that each
/// merge replaces. The first merge replaces its pair with the token 256, the second merge replaces
/// its pair with the token 257, and so on.
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
