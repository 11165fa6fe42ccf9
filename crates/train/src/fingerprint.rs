//! A fingerprint of the training or validation data. When a run is resumed, the fingerprints show
//! whether the data is the same as before. A fingerprint contains the number of token IDs, the
//! settings of the data loader, and a hash of some of the token IDs.
//!
//! The hash covers at most 1,000 blocks of 1,024 token IDs each. The blocks are spread evenly over
//! the data, so the fingerprint of even a very large text can be computed quickly, but a change
//! between two blocks isn't detected. If the data contains at most 1,024,000 token IDs, the blocks
//! cover all of them.

use dataloader::{DataLoader, DataLoaderConfig, DataLoaderError};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::hex::hex;

/// Maximum number of blocks of token IDs that are hashed. Each block contains up to `BLOCK` token
/// IDs.
const BLOCKS: usize = 1000;
const BLOCK: usize = 1024;

/// A fingerprint of the data of a data loader.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Fingerprint {
    /// Number of token IDs in the data.
    tokens: usize,
    max_length: usize,
    stride: usize,
    batch_size: usize,
    shuffle: bool,
    drop_last: bool,
    /// SHA-256 hash of the blocks as hexadecimal digits. Each token ID is hashed as four bytes in
    /// little-endian order.
    sha256: String,
}

impl Fingerprint {
    pub(crate) fn of(loader: &DataLoader) -> Result<Self, DataLoaderError> {
        let corpus = loader.dataset().corpus();
        let tokens = corpus.len();
        let blocks = tokens.div_ceil(BLOCK).min(BLOCKS);
        let last = tokens.saturating_sub(BLOCK) as u64;
        let mut hasher = Sha256::new();
        for block in 0..blocks {
            // Choose the start of each block that is hashed: the first block starts at the first
            // token ID, the last block ends at the last token ID, and the other blocks are spread
            // evenly in between. If there are few token IDs, the blocks overlap and cover all of
            // them.
            let start = (last * block as u64 / (blocks - 1).max(1) as u64) as usize;
            let ids = corpus.read(start..tokens.min(start + BLOCK))?;
            let bytes: Vec<u8> = ids.iter().flat_map(|id| id.to_le_bytes()).collect();
            hasher.update(bytes);
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
            (BLOCK + 1, vec![0, BLOCK - 1, BLOCK]),
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
