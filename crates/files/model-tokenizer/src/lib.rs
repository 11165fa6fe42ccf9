#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod config;
mod error;
mod fast;
mod files;
mod gpt2;
mod model_tokenizer;
mod parts;
mod recipe;
mod tokenizer_json;
mod train;

// The crate whose types appear in this crate's public API: dependents need no matching version.
pub use tokenizer;

pub use error::ModelTokenizerError;
pub use model_tokenizer::{BytePairs, ModelTokenizer};
pub use train::UNK;
