#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod chapter2;
mod chapter3;
mod chapter4;
mod chapter5;
mod check;
mod exercises;

// Crates whose types appear in the exercises.
pub use {ndarray, tokenizer};

pub use chapter2::{merge_pair, simple_tokenizer, windows};
pub use chapter3::{
    attention_with_weights, causal_weights, context_vectors, heads, softmax, weights_of_linear,
};
pub use chapter4::{block, gelu, greedy, layer_norm, shortcut};
pub use chapter5::{cross_entropy, decoding};
pub use check::{Outcome, Report};
pub use exercises::{EXERCISES, Exercise};
