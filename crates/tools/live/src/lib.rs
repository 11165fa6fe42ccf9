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

/// The beginning of the script `live.js`. It is followed by the WebAssembly module in Base64, the
/// closing `";`, and the code that calls the module. The command `cargo xtask notebook --html DIR
/// --live` writes the script to the folder of the pages.
pub const SCRIPT_START: &str = "const LIVE_WASM = \"";

/// The beginning of the script that contains the trained model of a page. It is followed by the
/// packed model in Base64. See [`PageModel::unpack`] for the format of a packed model.
pub const MODEL_START: &str = "const LIVE_MODEL = \"";
