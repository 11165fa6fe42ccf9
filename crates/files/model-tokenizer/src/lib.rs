#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod byte_chars;
mod config;
mod end_of_text;
mod error;
mod files;
mod gpt2;
mod model_tokenizer;
mod parts;
mod recipe;
mod streaming;
mod tokenizer_json;
mod train;

pub use end_of_text::end_of_text_ids;
pub use error::ModelTokenizerError;
pub use model_tokenizer::ModelTokenizer;
pub use streaming::StreamingDecoder;
pub use train::UNK;
