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

// Types of the crate `tokenizer` appear in this crate's public API. A crate that uses this
// re-export of `tokenizer` can't end up with an incompatible version.
pub use tokenizer;

pub use error::ModelTokenizerError;
pub use model_tokenizer::{BytePairs, ModelTokenizer};
pub use tokenizer::UNK;
