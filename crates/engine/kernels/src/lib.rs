#![doc = include_str!("../README.md")]
#![allow(unsafe_code)] // vector instructions, and output that is written before it is read

mod activations;
mod adamw;
mod attend_query;
mod awake;
mod buffers;
pub mod elementwise;
mod fresh;
pub mod gemm;
#[cfg(target_arch = "x86_64")]
mod gemm_amx;
mod gemm_kernel;
mod gemm_pack;
#[cfg(target_arch = "x86_64")]
mod gemm_pairs;
mod gemm_tiles;
pub mod gemv;
mod gemv_kernel;
mod half_matrix;
mod huge_pages;
mod int4;
mod int8;
mod math;
mod operands;
mod packed_matrix;
mod panels;
mod passes;
mod prefetch;
pub mod reduce;
mod register;
mod shared_out;
mod team;
mod transpose;
mod weight;

// The crate whose types appear in this crate's public API: dependents need no matching version.
pub use ndarray;

pub use adamw::{
    AdamWStep, OPTIMIZER_BLOCK, adamw_update, move_into_sum, sum_of_squares, sums_of_squares,
};
pub use attend_query::attend_query;
pub use awake::awake;
pub use buffers::{buffer, recycle};
pub use fresh::fresh;
pub use half_matrix::{Bf16Matrix, F16Matrix};
pub use huge_pages::zeros;
pub use int4::Int4Matrix;
pub use int8::Int8Matrix;
pub use operands::{Operands, autocast, has_bf16, operands};
pub use packed_matrix::PackedMatrix;
pub use shared_out::{SharedOut, for_each, shared_out};
pub use transpose::transpose_into;
