#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod activation;
mod bad_lm;
mod batch_parts;
mod config;
mod display;
mod dummy;
mod error;
mod feed_forward;
mod fields;
mod ids;
mod model;
mod model_train;
mod parameter_shapes;
mod plain;
mod shortcut;
mod size;
mod transformer_block;

// The crates `attention`, `ndarray`, `tensor_ops` and `torch_rng` are re-exported because their
// types appear in the public API. A crate that uses the re-exports always uses the same versions as
// this crate.
pub use {attention, ndarray, tensor_ops, torch_rng};

pub use activation::Activation;
pub use bad_lm::{BadLm, BadLmConfig};
pub use batch_parts::BatchParts;
pub use config::{DropRates, GptConfig};
pub use dummy::{DummyGptModel, DummyLayerNorm, DummyTransformerBlock};
pub use error::GptError;
pub use feed_forward::FeedForwardCache;
pub use ids::check_vocabulary;
pub use model::BlockTrace;
pub use model_train::{GptCache, HiddenCache};
pub use plain::{FeedForward, GptModel, TransformerBlock, gelu, layer_norm};
pub use shortcut::{ExampleDeepNeuralNetwork, ShortcutCache};
pub use size::{Memory, ModelSize};
pub use tensor_ops::{Dtype, LayerNorm, Parameters, UnsupportedDtype};
pub use transformer_block::TransformerBlockCache;

/// Internal functions and constants that the crate `train` uses. They aren't part of the public API
/// and may change in any version.
#[doc(hidden)]
pub mod engine {
    pub use crate::batch_parts::move_gradients;
    pub use crate::model::LOGIT_ROWS;
}
