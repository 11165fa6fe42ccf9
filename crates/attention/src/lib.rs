#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

// The following modules contain the code of chapter 3 of the book. To read along with the book,
// start with `simple.rs` (section 3.3), and continue with `self_attention.rs` (section 3.4),
// `causal.rs` (section 3.5), and `wrapper.rs` and `plain.rs` (section 3.6). `scores.rs` contains
// functions that several of the other modules use.
mod causal;
mod plain;
mod scores;
mod self_attention;
mod simple;
mod wrapper;

// The following modules contain the fast implementation of multi-head attention (listing 3.5): the
// forward pass, the backward pass, and decoding with a KV cache.
mod blockwise;
mod head;
mod kv_cache;
mod multi_head;

mod config;
mod error;

// The crates `ndarray`, `tensor_ops` and `torch_rng` are re-exported because their types appear in
// the public API. A crate that uses the re-exports always uses the same versions as this crate.
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
