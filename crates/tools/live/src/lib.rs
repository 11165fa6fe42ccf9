#![doc = include_str!("../README.md")]

mod model;
#[cfg(feature = "notebooks")]
mod notebook;
#[cfg(feature = "pack")]
mod pack;
#[cfg(feature = "notebooks")]
pub mod wasm;

pub use model::{PageModel, Scales, block, tokens};
#[cfg(feature = "pack")]
pub use pack::{MOST_NUMBERS, NotPacked, model_script, pack};

/// How the script of pages that compute begins, which `cargo xtask notebook --html DIR --live`
/// writes: WebAssembly in Base64, and what asks it.
pub const SCRIPT_START: &str = "const LIVE_WASM = \"";

/// How the script of a page's own model begins: then it stands, packed, in Base64.
pub const MODEL_START: &str = "const LIVE_MODEL = \"";
