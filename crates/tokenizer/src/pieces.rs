//! The bytes of GPT-2's tokens in one table, so that decoding is a slice for each id.
//!
//! tiktoken-rs holds the vocabulary (inside the crate: nothing is read or downloaded) but hands out
//! copies only; the table is copied from it once in a process, on first use.

use std::sync::LazyLock;

use tiktoken_rs::{CoreBPE, r50k_base_singleton};

/// The number of GPT-2's tokens: 256 bytes, 50,000 merges and `<|endoftext|>`.
pub(crate) const VOCAB_SIZE: usize = 50_257;

/// GPT-2's encoder and the bytes of its tokens.
pub(crate) struct Tables {
    pub(crate) bpe: &'static CoreBPE,
    bytes: Vec<u8>,   // all tokens, one after the other
    ends: Vec<usize>, // id -> where its bytes end
}

impl Tables {
    /// The tables of this process.
    pub(crate) fn shared() -> &'static Self {
        static TABLES: LazyLock<Tables> = LazyLock::new(Tables::build);
        &TABLES
    }

    fn build() -> Self {
        let bpe = r50k_base_singleton();
        let mut bytes = Vec::new();
        let mut ends = Vec::with_capacity(VOCAB_SIZE);
        for id in 0..VOCAB_SIZE as u32 {
            let piece = bpe.decode_bytes(&[id]);
            bytes.extend(piece.expect("GPT-2's vocabulary has every id below 50,257"));
            ends.push(bytes.len());
        }
        Self { bpe, bytes, ends }
    }

    /// The bytes of one token.
    pub(crate) fn piece(&self, id: u32) -> Option<&[u8]> {
        let id = id as usize;
        let end = *self.ends.get(id)?;
        let start = if id == 0 { 0 } else { self.ends[id - 1] };
        Some(&self.bytes[start..end])
    }
}
