#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub mod bpe;
mod cache;
mod error;
mod gpt2;
mod gpt2_tokens;
#[cfg(feature = "ndarray")]
mod ids;
mod letters;
mod pairs;
mod pattern;
mod simple;
mod split;
mod streaming;
mod tokenizer;
mod vocabulary;
mod whitespace;

// Types of ndarray appear in this crate's public API, so ndarray is re-exported. A program that
// uses the re-export always gets the matching version.
#[cfg(feature = "ndarray")]
pub use ndarray;

pub use error::{OtherError, TokenizerError};
pub use gpt2::{AllowedSpecial, Gpt2Tokenizer};
pub use gpt2_tokens::{ENDOFTEXT, ENDOFTEXT_ID};
#[cfg(feature = "ndarray")]
pub use ids::{text_to_token_ids, token_ids_to_text};
pub use simple::{SimpleTokenizerV1, SimpleTokenizerV2};
pub use split::{
    Separators, preprocess, split_keeping, split_text, strip_without_blanks, without_blanks,
};
pub use streaming::StreamingDecoder;
pub use tokenizer::Tokenizer;
pub use vocabulary::{UNK, Vocabulary, build_vocabulary};
pub use whitespace::{is_python_whitespace, python_strip};
