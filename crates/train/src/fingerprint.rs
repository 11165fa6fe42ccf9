//! A fingerprint of data, by which a resumed run knows it again: its size, its windows, and some of
//! its ids.
//!
//! It costs the same for any size: of a long corpus a thousand blocks of ids at fixed places are
//! read, so a change between two of them is not noticed; a corpus of a million ids is read whole.

use std::fmt;

use dataloader::{DataLoader, DataLoaderConfig, DataLoaderError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::manifest::hex;

/// Blocks of a corpus that are read, and ids of each.
const BLOCKS: usize = 1000;
const BLOCK: usize = 1024;

/// Digits of a SHA-256 for people.
const DIGITS: usize = 16;

/// A loader's data in short.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Fingerprint {
    /// Ids of the corpus.
    pub tokens: usize,
    /// Ids of a window.
    pub max_length: usize,
    /// Ids from the start of one window to the next.
    pub stride: usize,
    /// Windows of a batch.
    pub batch_size: usize,
    /// True if the order is drawn anew in each epoch.
    pub shuffle: bool,
    /// True if a last batch of fewer windows is left out.
    pub drop_last: bool,
    /// The SHA-256 of the ids that were read, four bytes each.
    pub sha256: String,
}

impl Fingerprint {
    pub(crate) fn of(loader: &DataLoader) -> Result<Self, DataLoaderError> {
        let corpus = loader.dataset().corpus();
        let tokens = corpus.len();
        let mut hasher = Sha256::new();
        let mut hash = |start: usize, end: usize| -> Result<(), DataLoaderError> {
            let ids = corpus.read(start..end)?;
            let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
            hasher.update(bytes);
            Ok(())
        };
        for block in 0..BLOCKS {
            match tokens <= BLOCKS * BLOCK {
                true => hash(
                    (block * BLOCK).min(tokens),
                    ((block + 1) * BLOCK).min(tokens),
                )?,
                false => {
                    // In 128 bits, as the product may be larger than any number of ids.
                    let last = (tokens - BLOCK) as u128;
                    let start = (last * block as u128 / (BLOCKS - 1) as u128) as usize;
                    hash(start, start + BLOCK)?;
                }
            }
        }
        let DataLoaderConfig {
            batch_size,
            max_length,
            stride,
            shuffle,
            drop_last,
        } = loader.config();
        Ok(Self {
            tokens,
            max_length,
            stride,
            batch_size,
            shuffle,
            drop_last,
            sha256: hex(&hasher.finalize()),
        })
    }
}

/// For people, on one line.
impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            tokens,
            max_length,
            stride,
            batch_size,
            ..
        } = self;
        let hash = self.sha256.get(..DIGITS).unwrap_or(&self.sha256);
        let shuffled = if self.shuffle { ", shuffled" } else { "" };
        let full = if self.drop_last { ", full ones" } else { "" };
        write!(
            f,
            "{tokens} tokens (SHA-256 {hash}) in windows of {max_length} every {stride} \
            and batches of {batch_size}{full}{shuffled}"
        )
    }
}

#[cfg(test)]
mod tests {
    use dataloader::Corpus;

    use super::*;

    fn fingerprint(ids: Vec<u32>) -> Fingerprint {
        let windows = DataLoaderConfig {
            max_length: 4,
            stride: 4,
            ..DataLoaderConfig::default()
        };
        let loader = DataLoader::new(&Corpus::from_ids(ids), windows).expect("long enough");
        Fingerprint::of(&loader).expect("ids in memory")
    }

    #[test]
    fn any_id_of_a_short_corpus_and_both_ends_of_a_long_one_are_seen() {
        for (tokens, changed) in [
            (100, vec![0, 42, 99]),
            (BLOCK + 1, vec![BLOCK - 1, BLOCK]),
            (BLOCKS * BLOCK, vec![500_000, BLOCKS * BLOCK - 1]),
            (3 * BLOCKS * BLOCK, vec![0, 3 * BLOCKS * BLOCK - 1]),
        ] {
            let ids: Vec<u32> = (0..tokens as u32).map(|i| i % 7).collect();
            let known = fingerprint(ids.clone());
            assert_eq!(fingerprint(ids.clone()), known);
            for at in changed {
                let mut other = ids.clone();
                other[at] += 1;
                assert_ne!(fingerprint(other), known, "{at} of {tokens}");
            }
        }
    }
}
