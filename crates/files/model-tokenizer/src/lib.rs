#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod added;
mod config;
mod error;
mod files;
mod gpt2;
mod model_tokenizer;
mod normalization;
mod pipeline;
mod spec;
mod split;
mod tokenizer_json;
mod train;

// Types of the crate `tokenizer` appear in the public API of this crate. Other crates should use
// them through this re-export, because then their version always matches.
pub use tokenizer;

pub use error::ModelTokenizerError;
pub use model_tokenizer::{BytePairs, ModelTokenizer};
pub use tokenizer::UNK;
