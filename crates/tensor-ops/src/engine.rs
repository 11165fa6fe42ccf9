//! Tools for the fast forms of attention, gpt, train and checkpoint: pooled memory, threads that
//! stay awake, attention by blocks of queries, the loops of the optimizer, the transpose.
//!
//! A custom layer doesn't need this module.

pub use kernels::gemm::packed_bytes;
pub use kernels::{
    AdamWStep, OPTIMIZER_BLOCK, PAGE, adamw_update, attend_query, awake, for_each, move_into_sum,
    sum_of_squares, sums_of_squares, transpose_into, zeros,
};

pub use crate::matmul::matmul_into_serial;
pub use crate::pooled::Pooled;
pub use crate::rows::empty;
pub use crate::softmax::{causal_softmax_from_log_sums, causal_softmax_rows, softmax_backward_row};
