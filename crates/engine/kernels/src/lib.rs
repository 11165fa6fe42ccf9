#![doc = include_str!("../README.md")]
// The kernels need `unsafe` code for vector intrinsics, inline assembly, and uninitialized memory,
// which they write before they read it. By default, the lints of the workspace deny `unsafe` code.
#![allow(unsafe_code)]

mod decoding;
mod dtype;
pub mod elementwise;
mod operands;
mod prefetch;
mod product;
mod register;
mod threads;
mod weight;

// Some public functions take or return ndarray arrays. With this re-export, callers can use the
// same version of ndarray as this crate.
pub use ndarray;

pub use decoding::{
    Bf16Matrix, F16Matrix, F32Matrix, Int4Matrix, Int8Matrix, PAGE, PackedMatrix, attend_query,
};
pub use dtype::{Dtype, UnsupportedDtype};
pub use elementwise::reduce;
pub use elementwise::{
    AdamWStep, OPTIMIZER_BLOCK, adamw_update, move_into_sum, sum_of_squares, sums_of_squares,
    transpose_into,
};
pub use operands::{OPERAND_DTYPES, has_bf16, round_to_bf16};
pub use product::gemm;
pub use product::gemm::instruction_sets;
pub use threads::{LoopCounts, awake, buffer, fill_blocks, for_each, loop_counts, recycle, zeros};
