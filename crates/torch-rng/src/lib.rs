#![doc = include_str!("../README.md")]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]

pub use build::Build;
pub use error::{ProbabilityError, StateError, UnknownBuild};
pub use keep_mask::KeepMask;
pub use state::RngState;
pub use torch_rng::TorchRng;

mod box_muller;
mod build;
mod dropout;
mod error;
mod keep_mask;
mod mcg31m1;
mod mt19937;
mod multinomial;
mod normal;
mod permutation;
mod rand_traits;
#[cfg(feature = "serde")]
mod serialize;
mod state;
mod torch_rng;
mod uniform;
