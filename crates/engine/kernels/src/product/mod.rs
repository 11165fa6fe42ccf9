//! Matrix products `C = A B`, computed from packed panels in register tiles, as in the library
//! BLIS.
//!
//! A *micro-kernel* computes a tile of `C` that fits in the vector registers, for example 14 rows
//! by 32 columns with AVX-512. In each *step* along the inner dimension, the micro-kernel
//! multiplies a column of 14 values of `A` by a row of 32 values of `B` and adds the products to
//! the 448 sums of the tile. Before that, both operands are copied, or *packed*, into panels that
//! contain their values in the order in which the micro-kernel reads them. With AVX-512, there are
//! two kinds of panels:
//!
//! - A *row panel* contains 14 rows and up to 384 columns of `A`, stored column by column.
//! - A *column panel* contains up to 384 rows and 32 columns of `B`, stored row by row. If fewer
//!   than 32 columns are left, the panel is padded with zeros.
//!
//! For example, consider the product of a 256 x 768 matrix and a 768 x 3072 matrix. Its inner
//! dimension is divided into two *blocks* of 384 steps. Each block has 96 column panels and 19 row
//! panels, the last of which contains only 4 rows. `B` is packed once for all threads, whereas `A`
//! is packed by the tasks, each of which packs the rows that it needs.
//!
//! The files of this module contain the following parts:
//!
//! - `gemm` contains the public functions, which select the method and the micro-kernel for the
//!   CPU.
//! - `tiles` divides `C` into tasks for the threads and iterates over the panels of each task.
//! - `pack` packs both operands.
//! - `kernel` contains the micro-kernels for AVX-512, AVX2 and other CPUs.
//! - `pairs` rounds operands to bf16, and `amx` contains the micro-kernel for AMX.
//! - `few_rows` computes products in which `A` has few rows, such as the products of a decoder,
//!   without packing `B`.
//! - `weight_panels` computes products with weights that the model already stores in panels.

#[cfg(target_arch = "x86_64")]
mod amx;
mod few_rows;
pub mod gemm;
pub(crate) mod kernel;
mod pack;
#[cfg(target_arch = "x86_64")]
mod pairs;
mod tiles;
pub(crate) mod weight_panels;
