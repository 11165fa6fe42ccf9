#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

// The modules of chapter 3. Read them in the book's order: `simple` (section 3.3),
// `self_attention` (3.4), `causal` (3.5), `wrapper` and `plain` (3.6). They share `scores`.
mod causal;
mod plain;
mod scores;
mod self_attention;
mod simple;
mod wrapper;

// The fast form of listing 3.5: forward, backward, and decoding with a cache.
mod blockwise;
mod head;
mod kv_cache;
mod multi_head;

mod config;
mod error;

// Crates whose types appear in this crate's public API: dependents need no matching versions.
pub use {ndarray, tensor_ops, torch_rng};

pub use blockwise::attend;
pub use causal::CausalAttention;
pub use config::AttentionConfig;
pub use error::AttentionError;
pub use kv_cache::{KvCache, KvCacheSize};
pub use multi_head::MultiHeadAttentionCache;
pub use plain::MultiHeadAttention;
pub use scores::{causal_mask, mask_future, normalize_rows, scaled_softmax};
pub use self_attention::{SelfAttentionV1, SelfAttentionV2, WeightInit};
pub use simple::{attention_scores, attention_weights, context_vectors, normalize_by_sum};
pub use tensor_ops::Parameters;
pub use wrapper::MultiHeadAttentionWrapper;
