#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod corpus;
mod dataset;
mod epoch;
mod error;
mod files;
mod format;
mod loader;
mod signs;
mod split;
mod text;
mod tokens;

// Crates whose types appear in this crate's public API: dependents need no matching versions.
pub use {ndarray, tokenizer, torch_rng};

pub use corpus::Corpus;
pub use dataset::{GptDataset, Window, WindowConfig};
pub use epoch::{Batch, Epoch};
pub use error::DataLoaderError;
pub use loader::{DataLoader, DataLoaderConfig, create_dataloader_v1};
pub use split::train_validation_split;
pub use text::text_of;
