//! Weights in 16 bits, bf16 or f16: half the memory to read while decoding.
//!
//! They are rounded once, to 8 bits of mantissa in bf16 and to 11 in f16, ties to even. Sums are in
//! f32, and so are inputs, with one exception: on processors that multiply bf16 numbers, a product
//! with bf16 weights rounds its inputs to bf16, whatever the number of rows.

use half::{bf16, f16};
use ndarray::{ArrayRef2, ArrayView2, ArrayViewMut2};

use crate::decoding::packed_matrix::Format;
use crate::operands::has_bf16;
use crate::product::gemm::{self, Threads};
use crate::threads::huge_pages::room;
use crate::weight::Weight;
use crate::{Dtype, PackedMatrix};

/// The upper halves of f32, as in `nn.Linear(..., dtype=torch.bfloat16)`; NaN stays NaN.
pub type Bf16Matrix = PackedMatrix<Halves<bf16>>;

/// IEEE's half precision, as in `nn.Linear(..., dtype=torch.float16)`; NaN stays NaN, and
/// magnitudes above 65504 become 65504.
pub type F16Matrix = PackedMatrix<Halves<f16>>;

/// (outputs, inputs) row-major
#[derive(Clone, PartialEq)]
pub struct Halves<T>(Vec<T>);

/// A number of 16 bits, whose products are compiled once in this crate, not in each crate that has
/// a matrix of them.
pub(crate) trait Half: Weight {
    fn matmul_rows(weights: &[Self], x: &ArrayRef2<f32>, out: ArrayViewMut2<f32>);

    /// The operands of products.
    fn operands() -> Dtype {
        Dtype::Float32
    }
}

impl Half for bf16 {
    fn matmul_rows(weights: &[Self], x: &ArrayRef2<f32>, out: ArrayViewMut2<f32>) {
        matmul_rows(weights, x, out);
    }

    /// Inputs are rounded, too, where the processor multiplies bf16 numbers.
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

/// `out = x W^T`, with weights (outputs, inputs).
fn matmul_rows<T: Half>(weights: &[T], x: &ArrayRef2<f32>, out: ArrayViewMut2<f32>) {
    let shape = (out.ncols(), x.ncols());
    let w = ArrayView2::from_shape(shape, weights).expect("as many elements");
    gemm::widening_accumulate(x, &w.t(), 0.0, out, Threads::Pool, T::operands());
}
