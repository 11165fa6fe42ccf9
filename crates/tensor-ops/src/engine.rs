//! Building blocks that the crates `attention`, `gpt`, `train` and `checkpoint` need for speed:
//! arrays that reuse memory, a thread pool whose threads stay awake during a forward or backward
//! pass, the softmax of causal attention, the inner loops of the optimizer, and matrix
//! transposition.
//!
//! You don't need this module to write your own layers. Its items may change in any release.

pub use kernels::gemm::packed_bytes;
pub use kernels::{
    AdamWStep, OPTIMIZER_BLOCK, PAGE, adamw_update, attend_query, awake, for_each, move_into_sum,
    sum_of_squares, sums_of_squares, transpose_into, zeros,
};

pub use crate::matmul::matmul_into_serial;
pub use crate::parameters::{row_major, row_major_mut};
pub use crate::pooled::Pooled;
pub use crate::rows::empty;
pub use crate::softmax::{causal_softmax_from_log_sums, causal_softmax_rows, softmax_backward_row};
