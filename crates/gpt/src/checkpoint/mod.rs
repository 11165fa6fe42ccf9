//! Models in files: GPT-2 as Hugging Face's transformers writes it, and the book's own `state_dict` in safetensors.
//!
//! A model is a folder with a config.json and a model.safetensors (or shards and their index).
//! Everything in a file is taken for a lie until it is checked, and every refusal is one line that names the file and the tensor or key.
//!
//! It does not read pickles (`.pt`, `.bin`) or GGUF files: it says so.
//!
//! ```
//! use gpt::checkpoint::{Precision, load_model, save_book, save_hugging_face};
//! use gpt::{GptConfig, GptModel};
//!
//! let config = GptConfig {
//!     vocab_size: 20,
//!     context_length: 8,
//!     emb_dim: 4,
//!     n_heads: 2,
//!     n_layers: 1,
//!     ..GptConfig::GPT2_124M
//! };
//! let model = GptModel::new(config, &mut torch_rng::TorchRng::manual_seed(123))?;
//! let folder = tempfile::tempdir()?;
//! save_book(&model, folder.path().join("book"))?;
//! assert_eq!(load_model(folder.path().join("book"))?, model);
//!
//! // For transformers: `GPT2LMHeadModel.from_pretrained(".../hf")`
//! save_hugging_face(&model, folder.path().join("hf"), Precision::F32)?;
//! let same = load_model(folder.path().join("hf"))?;
//! assert_eq!(same.head_weight(), model.head_weight());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod book_config;
mod error;
mod file;
mod folder;
mod header;
mod header_json;
mod hugging_face_config;
mod json;
mod layout;
mod load;
mod named_tensors;
mod nearest;
mod precision;
mod save;
mod shown;
mod tensor_file;
mod weights;
mod writer;

pub use error::{CheckpointError, ConfigProblem, FormatProblem, TensorProblem};
pub use file::{remove_unfinished, write_atomically};
pub use folder::load_config;
pub use load::load_model;
pub use named_tensors::{load_tensors, load_tensors_into, save_tensors};
pub use precision::{Precision, UnknownPrecision};
pub use save::{save_book, save_hugging_face};
pub use shown::{JsonProblem, Quoted, Shape};
