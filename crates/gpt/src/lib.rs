#![doc = include_str!("../README.md")]

mod activation;
mod bad_lm;
mod batch_parts;
mod config;
mod display;
mod dummy;
mod embed;
mod error;
mod feed_forward;
mod maker;
mod model;
mod model_backward;
mod model_loss;
mod model_skip;
mod parameter_shapes;
mod shortcut;
mod size;
mod transformer_block;

// The crates whose types stand in this crate's signatures, so that a dependent needs no versions of its own.
pub use {ndarray, torch_rng};

pub use activation::Activation;
pub use bad_lm::BadLm;
pub use batch_parts::{BatchParts, move_gradients};
pub use config::{DropRates, GptConfig};
pub use display::thousands;
pub use dummy::{DummyGptModel, DummyLayerNorm, DummyTransformerBlock};
pub use error::GptError;
pub use feed_forward::{FeedForward, FeedForwardCache};
pub use model::{GptCache, GptModel};
pub use shortcut::{ExampleDeepNeuralNetwork, ShortcutCache};
pub use size::{Memory, ModelSize};
pub use tensor_ops::{LayerNorm, Parameters};
pub use transformer_block::{TransformerBlock, TransformerBlockCache};
