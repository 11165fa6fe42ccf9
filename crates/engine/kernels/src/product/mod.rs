//! Matrix products: [`gemm`] is the entry, `pack` lays both matrices out, `tiles` divides the work,
//! and `kernel` is the inner loop. `pairs` and `amx` are the forms for bf16, and `few_rows` is the
//! form for a decoder's few rows.

#[cfg(target_arch = "x86_64")]
mod amx;
mod few_rows;
pub mod gemm;
pub(crate) mod kernel;
mod pack;
#[cfg(target_arch = "x86_64")]
mod pairs;
mod tiles;
