#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod error;
mod replace;

pub use error::FileError;
pub use replace::{remove_unfinished, replace, sync_folder, unfinished_of, write_atomically};
