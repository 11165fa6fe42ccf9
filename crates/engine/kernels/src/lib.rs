#![doc = include_str!("../README.md")]
#![allow(unsafe_code)] // vector instructions, and output that is written before it is read

mod decoding;
mod dtype;
pub mod elementwise;
mod operands;
mod prefetch;
mod product;
mod register;
mod threads;
mod weight;

// The crate whose types appear in this crate's public API: dependents need no matching version.
pub use ndarray;

pub use decoding::{
    Bf16Matrix, F16Matrix, Int4Matrix, Int8Matrix, PAGE, PackedMatrix, attend_query,
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
