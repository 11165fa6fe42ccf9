#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

mod batches;
mod corpus;
mod dataset;
mod epoch;
mod error;
mod files;
mod format;
mod loader;
mod number_format;
mod split;
mod text;
mod tokens;

// Types of the following crates appear in the public API, so the crates are re-exported. A program
// that uses the re-exports always gets the matching versions.
#[cfg(feature = "text")]
pub use tokenizer;
pub use {
    atomic_file::{FileError, FileFormat},
    ndarray, torch_rng,
};

pub use batches::{BatchSource, Batches, EpochPosition, Mix, MixPosition};
pub use corpus::Corpus;
pub use dataset::{GptDataset, Window, WindowConfig};
pub use epoch::{Batch, Epoch};
pub use error::DataLoaderError;
pub use files::{TokenFormat, TokenWriter, write_token_file};
#[cfg(feature = "text")]
pub use loader::create_dataloader_v1;
pub use loader::{DataLoader, DataLoaderConfig};
pub use split::train_validation_split;
pub use text::text_of;
