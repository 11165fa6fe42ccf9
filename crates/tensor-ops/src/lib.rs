#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

// Each of these modules implements the forward pass and the backward pass of an operation that GPT
// models need, such as softmax.
mod cross_entropy;
mod dropout;
mod embedding;
mod gelu;
mod gelu_exact;
mod layer_norm;
mod linear;
mod matmul;
mod mse;
mod relu;
mod softmax;

mod parameters;

#[doc(hidden)]
pub mod engine;
mod pooled;
mod rows;

// Types from the crates `ndarray` and `torch_rng` appear in the public API of this crate. A program
// that uses these re-exports always gets the matching versions of the two crates.
pub use {ndarray, torch_rng};

pub use cross_entropy::{
    IGNORE_INDEX, counted_targets, cross_entropy, cross_entropy_rows, cross_entropy_train,
};
pub use dropout::{Dropout, DropoutCache};
pub use embedding::Embedding;
pub use gelu::{gelu, gelu_backward};
pub use gelu_exact::{gelu_exact, gelu_exact_backward};
pub use kernels::{
    Dtype, OPERAND_DTYPES, UnsupportedDtype, has_bf16, instruction_sets, round_to_bf16,
};
pub use layer_norm::{LayerNorm, LayerNormCache};
pub use linear::Linear;
pub use matmul::{
    matmul, matmul_batched, matmul_batched_backward, matmul_in, matmul_into, matmul_into_in,
};
pub use mse::{mse_loss, mse_loss_backward};
pub use parameters::{Parameters, Selection};
pub use relu::{relu, relu_backward};
pub use rows::add_assign;
pub use softmax::{softmax, softmax_backward, softmax_naive};
