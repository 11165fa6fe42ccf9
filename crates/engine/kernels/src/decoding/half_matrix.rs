//! Weight matrices in bf16 and f16, which halve the memory that a decoder reads.
//!
//! Each weight is rounded once, to 8 bits of precision in bf16 and to 11 bits in f16, with ties to
//! even. Products multiply and add in `f32`, usually without rounding their inputs. However, if the
//! CPU can multiply bf16 values, products with bf16 weights round their inputs to bf16, for any
//! number of rows.

use half::{bf16, f16};
use ndarray::{ArrayRef2, ArrayView2, ArrayViewMut2};

use crate::decoding::packed_matrix::Format;
use crate::operands::has_bf16;
use crate::product::gemm::{self, Threads};
use crate::threads::huge_pages::room;
use crate::weight::Weight;
use crate::{Dtype, PackedMatrix};

/// A matrix of bf16 weights, as in `nn.Linear(..., dtype=torch.bfloat16)`. NaN remains NaN.
pub type Bf16Matrix = PackedMatrix<Halves<bf16>>;

/// A matrix of f16 weights, as in `nn.Linear(..., dtype=torch.float16)`. Magnitudes above 65504 are
/// stored as 65504, and NaN remains NaN.
pub type F16Matrix = PackedMatrix<Halves<f16>>;

/// The weights of a matrix of the shape (outputs, inputs), in row-major order.
#[derive(Clone, PartialEq)]
pub struct Halves<T>(Vec<T>);

/// A weight of 16 bits. The trait makes sure that the products of each type are compiled in this
/// crate and not again in every crate that uses such a matrix.
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

    /// Returns bfloat16 if the CPU can multiply bf16 values, which means that products round their
    /// inputs. Otherwise returns float32.
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

/// Computes `out = x W^T` for weights of the shape (outputs, inputs).
fn matmul_rows<T: Half>(weights: &[T], x: &ArrayRef2<f32>, out: ArrayViewMut2<f32>) {
    let shape = (out.ncols(), x.ncols());
    let w = ArrayView2::from_shape(shape, weights).expect("as many elements");
    gemm::widening_accumulate(x, &w.t(), 0.0, out, Threads::Pool, T::operands());
}
