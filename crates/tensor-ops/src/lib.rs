#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod cross_entropy;
mod dropout;
mod embedding;
mod gelu;
mod gelu_exact;
mod layer_norm;
mod linear;
mod matmul;
mod mse;
mod parameters;
mod pooled;
mod relu;
mod rows;
mod softmax;

// The crates whose types stand in this crate's signatures, so that a dependent needs no versions of
// its own.
pub use {ndarray, torch_rng};

pub use cross_entropy::{cross_entropy, cross_entropy_rows, cross_entropy_train};
pub use dropout::{Dropout, DropoutCache};
pub use embedding::Embedding;
pub use gelu::{gelu, gelu_backward};
pub use gelu_exact::{gelu_exact, gelu_exact_backward};
pub use kernels::gemm::packed_bytes;
pub use kernels::{
    AdamWStep, OPTIMIZER_BLOCK, adamw_update, attend_query, awake, count_tasks, move_into_sum,
    sum_of_squares, sums_of_squares, zeros,
};
pub use layer_norm::{LayerNorm, LayerNormCache};
pub use linear::Linear;
pub use matmul::{matmul, matmul_batched, matmul_into, matmul_into_serial};
pub use mse::{mse_loss, mse_loss_backward};
pub use parameters::Parameters;
pub use pooled::Pooled;
pub use relu::{relu, relu_backward};
pub use rows::{add_assign, empty};
pub use softmax::{
    causal_softmax_from_log_sums, causal_softmax_rows, log_softmax, softmax, softmax_backward_row,
    softmax_naive,
};
