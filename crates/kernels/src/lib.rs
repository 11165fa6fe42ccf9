#![doc = include_str!("../README.md")]
#![allow(unsafe_code)] // vector instructions, and output that is written before it is read

mod adamw;
mod attend_query;
mod bf16_matrix;
mod dot_bf16;
pub mod elementwise;
mod fresh;
pub mod gemm;
pub mod gemv;
mod int8;
mod int8_matrix;
mod math;
mod packed_rows;
pub mod reduce;
mod transpose;
mod weighted_rows;

// The crate whose types stand in this crate's signatures, so that a dependent needs no version of its own.
pub use ndarray;

pub use adamw::{AdamWStep, adamw_update, sum_of_squares};
pub use attend_query::attend_query;
pub use bf16_matrix::Bf16Matrix;
pub use fresh::fresh;
pub use int8_matrix::Int8Matrix;
