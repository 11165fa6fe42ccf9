//! Weight matrices in f32, bf16 and f16. The speed of a decoder is limited by reading the weights,
//! so the 16-bit formats, which take half as much memory as f32, also make it faster.
//!
//! When a matrix in a 16-bit format is created, each weight is rounded to the nearest bf16 value (8
//! bits of precision) or f16 value (11 bits), with ties to even. Products multiply and add in
//! `f32`, usually without rounding their inputs. The exception is a product with bf16 weights on a
//! CPU that can multiply bf16 values. It rounds its inputs to bf16, regardless of the number of
//! rows.

use half::{bf16, f16};
use ndarray::{Array2, ArrayRef2, ArrayView2, ArrayViewMut2};

use crate::decoding::packed_matrix::Format;
use crate::operands::has_bf16;
use crate::product::gemm::{self, Threads};
use crate::product::kernel::Start;
use crate::product::weight_panels::{self, WIDTH};
use crate::threads::huge_pages::room;
use crate::weight::Weight;
use crate::{Dtype, PackedMatrix};

/// A matrix whose weights are stored as `f32`. Its products are bitwise identical to those of a
/// row-major array with the same weights, and faster if the input has few rows.
pub type F32Matrix = PackedMatrix<Floats<f32>>;

/// A matrix whose weights are stored as bf16, like those of `nn.Linear(..., dtype=torch.bfloat16)`
/// in PyTorch. A weight that is NaN remains NaN.
pub type Bf16Matrix = PackedMatrix<Floats<bf16>>;

/// A matrix whose weights are stored as f16, like those of `nn.Linear(..., dtype=torch.float16)` in
/// PyTorch. Weights beyond ±65504 are stored as ±65504, and a weight that is NaN remains NaN.
pub type F16Matrix = PackedMatrix<Floats<f16>>;

/// The weights of a matrix of the shape (outputs, inputs). If products multiply bf16 values
/// ([`Float::multiplied_as_bf16`]), the weights are in row-major order. Otherwise, they are in the
/// panels of [`weight_panels`].
#[derive(Clone, PartialEq)]
pub struct Floats<T>(Vec<T>);

/// A weight in a floating-point format. Each implementation calls the generic product for its own
/// type, so the product is compiled once in this crate and not again in every crate that uses a
/// matrix of such weights.
pub(crate) trait Float: Weight {
    /// Computes `out = beta * out + x W^T`, where `weights` contains `W` in the order that
    /// [`Floats`] describes.
    fn accumulate(weights: &[Self], x: &ArrayRef2<f32>, beta: f32, out: ArrayViewMut2<f32>);

    /// Returns whether products multiply pairs of bf16 values. In this case, they round their
    /// inputs to bf16.
    fn multiplied_as_bf16() -> bool {
        false
    }
}

impl Float for f32 {
    fn accumulate(weights: &[Self], x: &ArrayRef2<f32>, beta: f32, out: ArrayViewMut2<f32>) {
        weight_panels::multiply(x, weights, Start::beta(beta), out);
    }
}

impl Float for f16 {
    fn accumulate(weights: &[Self], x: &ArrayRef2<f32>, beta: f32, out: ArrayViewMut2<f32>) {
        weight_panels::multiply(x, weights, Start::beta(beta), out);
    }
}

impl Float for bf16 {
    fn accumulate(weights: &[Self], x: &ArrayRef2<f32>, beta: f32, out: ArrayViewMut2<f32>) {
        if !Self::multiplied_as_bf16() {
            return weight_panels::multiply(x, weights, Start::beta(beta), out);
        }
        let shape = (out.ncols(), x.ncols());
        let w = ArrayView2::from_shape(shape, weights).expect("as many elements");
        gemm::widening_accumulate(x, &w.t(), beta, out, Threads::Pool, Dtype::BFloat16);
    }

    fn multiplied_as_bf16() -> bool {
        has_bf16()
    }
}

impl<T: Float> Format for Floats<T> {
    fn with_room((outputs, inputs): (usize, usize)) -> Self {
        Self(room(outputs.next_multiple_of(WIDTH) * inputs))
    }

    fn push_rows(&mut self, rows: &ArrayRef2<f32>) {
        if T::multiplied_as_bf16() {
            self.0.extend(rows.iter().map(|&w| T::nearest(w)));
        } else {
            weight_panels::push_rows(&mut self.0, rows);
        }
    }

    fn read_row(&self, row: usize, out: &mut [f32]) {
        if T::multiplied_as_bf16() {
            T::widen(&self.0[row * out.len()..][..out.len()], out);
        } else {
            weight_panels::read_row(&self.0, row, out);
        }
    }

    fn bytes((outputs, inputs): (usize, usize)) -> usize {
        let panels = outputs.div_ceil(WIDTH);
        (panels.saturating_mul(WIDTH).saturating_mul(inputs)).saturating_mul(size_of::<T>())
    }

    fn matmul_rows(&self, x: &ArrayRef2<f32>, out: ArrayViewMut2<f32>) {
        T::accumulate(&self.0, x, 0.0, out);
    }
}

/// Converts a row-major array of the shape (outputs, inputs) in its own memory, without rounding.
impl From<Array2<f32>> for F32Matrix {
    fn from(weight: Array2<f32>) -> Self {
        let shape = weight.dim();
        let weight = match weight.is_standard_layout() {
            true => weight,
            false => weight.as_standard_layout().into_owned(),
        };
        let (mut values, first) = weight.into_raw_vec_and_offset();
        values.drain(..first.unwrap_or(0));
        values.truncate(shape.0 * shape.1);
        weight_panels::from_rows(&mut values, shape.1);
        Self {
            weights: Floats(values),
            shape,
        }
    }
}

impl F32Matrix {
    /// Computes `out += x W^T` for `x` of the shape (rows, inputs) and `out` of the shape (rows,
    /// outputs).
    ///
    /// # Panics
    ///
    /// Panics if the shapes don't fit.
    pub fn accumulate_rows(&self, x: &ArrayRef2<f32>, out: ArrayViewMut2<f32>) {
        self.check(x, out.dim());
        f32::accumulate(&self.weights.0, x, 1.0, out);
    }
}
