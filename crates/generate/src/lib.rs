#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod batch;
mod book;
mod decoder;
mod decoder_config;
mod error;
mod filters;
mod forward;
mod inspection;
mod layers;
mod packed;
mod sampling;
mod slot;
mod state;
mod stop;
mod stream;
mod streams;
mod weight_bytes;
mod weights;

// The public API of the crate `generate` contains types of the crates `gpt`, `ndarray` and
// `torch_rng`. They are re-exported so that other crates can use the same versions of them as
// `generate`.
pub use {gpt, ndarray, torch_rng};

pub use batch::Batch;
pub use book::{BookSampling, generate, generate_text_simple};
pub use decoder::Decoder;
pub use decoder_config::{DecoderConfig, PastContext};
pub use error::GenerateError;
pub use filters::{greedy_id, likeliest, softmax_with_temperature, top_k_filter};
pub use inspection::{BlockView, Candidate, Inspection, Token};
pub use kernels::Dtype;
pub use sampling::{RandomSampler, Sampler, Sampling};
pub use slot::Slot;
pub use state::DecoderState;
pub use stop::StopStrings;
pub use stream::{FinishReason, GenerateOptions, Timings, TokenStream};
pub use streams::{EndedStream, StreamEvent, TokenStreams};
pub use weight_bytes::{step_bytes, weight_bytes};
pub use weights::{AsWeights, DecoderWeights, WeightsRef};
