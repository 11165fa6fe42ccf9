//! Weight matrices in bf16 and f16, which take half as much memory as matrices of `f32` weights.
//! The speed of a decoder is limited by reading the weights, so they also make it faster.
//!
//! When a matrix is created, each weight is rounded to the nearest bf16 value (8 bits of precision)
//! or f16 value (11 bits), with ties to even. Products multiply and add in `f32`, usually without
//! rounding their inputs. The exception is a product with bf16 weights on a CPU that can multiply
//! bf16 values. It rounds its inputs to bf16, regardless of the number of rows.

use half::{bf16, f16};
use ndarray::{ArrayRef2, ArrayView2, ArrayViewMut2};

use crate::decoding::packed_matrix::Format;
use crate::operands::has_bf16;
use crate::product::gemm::{self, Threads};
use crate::threads::huge_pages::room;
use crate::weight::Weight;
use crate::{Dtype, PackedMatrix};

/// A matrix whose weights are stored as bf16, like those of `nn.Linear(..., dtype=torch.bfloat16)`
/// in PyTorch. A weight that is NaN remains NaN.
pub type Bf16Matrix = PackedMatrix<Halves<bf16>>;

/// A matrix whose weights are stored as f16, like those of `nn.Linear(..., dtype=torch.float16)` in
/// PyTorch. Weights beyond ±65504 are stored as ±65504, and a weight that is NaN remains NaN.
pub type F16Matrix = PackedMatrix<Halves<f16>>;

/// The 16-bit weights of a matrix of the shape (outputs, inputs), in row-major order.
#[derive(Clone, PartialEq)]
pub struct Halves<T>(Vec<T>);

/// A 16-bit weight. Each implementation calls the generic product for its own type, so the product
/// is compiled once in this crate and not again in every crate that uses a matrix of such weights.
pub(crate) trait Half: Weight {
    fn matmul_rows(weights: &[Self], x: &ArrayRef2<f32>, out: ArrayViewMut2<f32>);

    /// Returns the format in which products multiply their operands.
    fn operands() -> Dtype {
        Dtype::Float32
    }
}

impl Half for bf16 {
    fn matmul_rows(weights: &[Self], x: &ArrayRef2<f32>, out: ArrayViewMut2<f32>) {
        matmul_rows(weights, x, out);
    }

    /// Returns [`Dtype::BFloat16`] if the CPU can multiply bf16 values, in which case products
    /// round their inputs to bf16. Otherwise, returns [`Dtype::Float32`].
    fn operands() -> Dtype {
        match has_bf16() {
            true => Dtype::BFloat16,
            false => Dtype::Float32,
        }
    }
}

impl Half for f16 {
    fn matmul_rows(weights: &[Self], x: &ArrayRef2<f32>, out: ArrayViewMut2<f32>) {
        matmul_rows(weights, x, out);
    }
}

impl<T: Half> Format for Halves<T> {
    fn with_room((outputs, inputs): (usize, usize)) -> Self {
        Self(room(outputs * inputs))
    }

    fn push_rows(&mut self, rows: &ArrayRef2<f32>) {
        self.0.extend(rows.iter().map(|&w| T::nearest(w)));
    }

    fn read_row(&self, row: usize, out: &mut [f32]) {
        T::widen(&self.0[row * out.len()..][..out.len()], out);
    }

    fn bytes((outputs, inputs): (usize, usize)) -> usize {
        outputs
            .saturating_mul(inputs)
            .saturating_mul(size_of::<T>())
    }

    fn matmul_rows(&self, x: &ArrayRef2<f32>, out: ArrayViewMut2<f32>) {
        T::matmul_rows(&self.0, x, out);
    }
}

/// Computes `out = x W^T`, where `weights` contains the matrix `W` of the shape (outputs, inputs)
/// in row-major order.
fn matmul_rows<T: Half>(weights: &[T], x: &ArrayRef2<f32>, out: ArrayViewMut2<f32>) {
    let shape = (out.ncols(), x.ncols());
    let w = ArrayView2::from_shape(shape, weights).expect("as many elements");
    gemm::widening_accumulate(x, &w.t(), 0.0, out, Threads::Pool, T::operands());
}
