#![doc = include_str!("../README.md")]
#![deny(unsafe_code)] // not `forbid`: the slicing macro of ndarray allows its own

mod book;
mod error;
mod filters;

pub use book::{BookSampling, generate, generate_text_simple};
pub use error::GenerateError;
pub use filters::{greedy_id, softmax_with_temperature, top_k_filter};
