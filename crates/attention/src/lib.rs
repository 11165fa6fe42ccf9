#![doc = include_str!("../README.md")]

mod blockwise;
mod causal;
mod config;
mod error;
mod head;
mod kv_cache;
mod multi_head;
mod plain;
mod scores;
mod self_attention;
mod simple;
mod wrapper;

// The crates whose types stand in this crate's signatures, so that a dependent needs no versions of
// its own.
pub use {ndarray, torch_rng};

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
