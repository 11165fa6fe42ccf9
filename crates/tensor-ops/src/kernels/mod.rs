//! The loops that everything else is built from, over plain slices.
//!
//! This is the only place of the workspace with `unsafe` code: the raw call of the GEMM crate, memory that is written before it is read, the vector instructions of the decoding kernels, an allocator, and what the `multiversion` macro emits to compile one safe loop for AVX-512, AVX2 and the baseline.
//! Every reduction uses a fixed number of lanes and a fixed order, so a result's bits depend neither on the instruction set's width nor on the number of threads.

pub(crate) mod dot_bf16;
pub(crate) mod elementwise;
pub(crate) mod fresh;
pub(crate) mod gemm;
pub(crate) mod gemv;
pub(crate) mod int8;
pub(crate) mod kept_blocks;
pub(crate) mod math;
pub(crate) mod optimizer;
pub(crate) mod reduce;
pub(crate) mod transpose;
pub(crate) mod weighted_rows;
