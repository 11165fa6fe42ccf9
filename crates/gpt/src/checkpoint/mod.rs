//! Models in files: GPT-2 as Hugging Face's transformers writes it, and the book's own `state_dict` in safetensors.
//!
//! A model is a folder with a config.json and a model.safetensors (or shards and their index).
//! Everything in a file is taken for a lie until it is checked, and every refusal is one line that names the file and the tensor or key.
//!
//! It does not read pickles (`.pt`, `.bin`) or GGUF files: it says so.

mod error;
mod precision;
mod signatures;

pub use error::{CheckpointError, ConfigProblem, FormatProblem, Quoted, Shape, TensorProblem};
pub use precision::{Precision, UnknownPrecision};
pub use signatures::*;
