#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod config;
mod encoding;
mod error;
mod generation_config;
mod gguf;
mod json;
mod layout;
mod model_files;
mod model_folder;
mod named_tensors;
mod save;
mod special_tokens;
mod tensor_file;
mod weights;
mod writer;

// The crates `atomic_file` and `gpt` are re-exported because their types appear in the public API
// of this crate. A program that uses the re-exports always gets the versions that this crate was
// built with.
pub use {atomic_file, gpt};

pub use tensor_ops::{Dtype, UnsupportedDtype};

pub use encoding::FILE_DTYPES;
pub use error::{CheckpointError, one_line};
pub use generation_config::{GenerationSettings, SamplingDefaults};
pub use gguf::{GGUF_DTYPES, GgufToken, GgufTokenKind, GgufTokens, save_gguf};
pub use model_files::{CONFIG, GENERATION_CONFIG, WEIGHTS};
pub use model_folder::{ModelFolder, load_config, load_model};
pub use named_tensors::{
    load_tensors_into, read_metadata, save_tensors, save_tensors_with_metadata,
};
pub use save::{save_book, save_hugging_face};
pub use special_tokens::SpecialTokens;
pub use writer::LazyTensor;
