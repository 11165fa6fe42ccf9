#![doc = include_str!("../README.md")]

mod adamw;
mod attend_query;
mod bf16_matrix;
mod cross_entropy;
mod dropout;
mod embedding;
mod gelu;
mod int8_matrix;
mod kernels;
mod layer_norm;
mod linear;
mod matmul;
mod mse;
mod packed_rows;
mod parameters;
mod relu;
mod rows;
mod softmax;

// The crates whose types stand in this crate's signatures, so that a dependent needs no versions of its own.
pub use {ndarray, torch_rng};

pub use adamw::{
    AdamWStep, OPTIMIZER_BLOCK, adamw_update, move_into_sum, sum_of_squares, sums_of_squares,
};
pub use attend_query::attend_query;
pub use bf16_matrix::Bf16Matrix;
pub use cross_entropy::{CrossEntropyCache, cross_entropy, cross_entropy_train};
pub use dropout::{Dropout, DropoutCache};
pub use embedding::Embedding;
pub use gelu::{gelu, gelu_backward};
pub use int8_matrix::Int8Matrix;
pub use kernels::kept_blocks::KeptBlocks;
pub use layer_norm::{LayerNorm, LayerNormCache};
pub use linear::Linear;
pub use matmul::{matmul, matmul_batched, matmul_into, matmul_into_serial};
pub use mse::{mse_loss, mse_loss_backward};
pub use parameters::Parameters;
pub use relu::{relu, relu_backward};
pub use rows::add_assign;
pub use softmax::{
    causal_softmax_from_log_sums, causal_softmax_rows, log_softmax, softmax, softmax_backward_row,
    softmax_naive,
};
