#![doc = include_str!("../README.md")]

mod model;
#[cfg(feature = "notebooks")]
mod notebook;
#[cfg(feature = "pack")]
mod pack;
mod tokenizer;
#[cfg(feature = "notebooks")]
mod training;
#[cfg(feature = "notebooks")]
pub mod wasm;

pub use model::{LogSumExps, PageModel, block, tokens};
#[cfg(feature = "pack")]
pub use pack::{MAX_NUMBERS, NotPacked, model_script, pack};

/// The beginning of the script that `cargo xtask notebook --html DIR --live` writes beside the
/// pages: WebAssembly in Base64 follows, and the code that calls it.
pub const SCRIPT_START: &str = "const LIVE_WASM = \"";

/// The beginning of the script of a page's own model, which follows, packed, in Base64.
pub const MODEL_START: &str = "const LIVE_MODEL = \"";
