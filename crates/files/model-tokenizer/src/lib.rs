#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod byte_chars;
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

// The crate whose types stand in this crate's signatures, so that a dependent needs no version of
// its own.
pub use tokenizer;

pub use error::ModelTokenizerError;
pub use files::{MOST_FILE_BYTES, TOKENIZER_FILES};
pub use model_tokenizer::{BytePairs, ModelTokenizer};
pub use train::UNK;
