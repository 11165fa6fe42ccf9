//! Weight matrices in f32, bf16 and f16. The speed of a decoder is limited by reading the weights
//! from memory. The 16-bit formats therefore not only need half as much memory as f32, but also
//! make a decoder faster.
//!
//! When a matrix is created in a 16-bit format, each weight is rounded to the nearest bf16 value (8
//! bits of precision) or f16 value (11 bits), with ties to even. Products multiply and add in
//! `f32`, usually without rounding their inputs. However, on a CPU that can multiply bf16 values,
//! all products with bf16 weights round their inputs to bf16, even if an input has only one row.

use half::{bf16, f16};
use ndarray::{Array2, ArrayRef2, ArrayView2, ArrayViewMut2};
use rayon::prelude::*;

use crate::decoding::packed_matrix::Format;
use crate::operands::has_bf16;
use crate::product::gemm::{self, Threads};
use crate::product::kernel::Start;
use crate::product::weight_panels::{self, WIDTH};
use crate::threads::huge_pages::room;
use crate::weight::Weight;
use crate::{Dtype, PackedMatrix};

/// Number of weights that a thread rounds to a 16-bit format in one go.
const WEIGHTS_PER_TASK: usize = 1 << 16;

/// A matrix whose weights are stored as `f32`. Its products have the same bits as products with a
/// row-major array of the same weights, but are faster if the input has few rows.
pub type F32Matrix = PackedMatrix<Floats<f32>>;

/// A matrix whose weights are stored as bf16, like the weights of PyTorch's
/// `nn.Linear(..., dtype=torch.bfloat16)`. A weight that is NaN remains NaN.
pub type Bf16Matrix = PackedMatrix<Floats<bf16>>;

/// A matrix whose weights are stored as f16, like the weights of PyTorch's
/// `nn.Linear(..., dtype=torch.float16)`. Weights beyond ±65504 are stored as ±65504, and a weight
/// that is NaN remains NaN.
pub type F16Matrix = PackedMatrix<Floats<f16>>;

/// The weights of a matrix of the shape (outputs, inputs). If products multiply bf16 values
/// directly ([`Float::multiplied_as_bf16`]), the weights are stored in row-major order. Otherwise,
/// they are stored in panels, as described in [`weight_panels`].
#[derive(Clone, PartialEq)]
pub struct Floats<T>(Vec<T>);

/// A floating-point format for weights. Each format has its own implementation of
/// [`accumulate`](Self::accumulate), which calls the generic matrix product. The product is
/// therefore compiled only once, in this crate, instead of in every crate that uses a matrix in
/// this format.
pub(crate) trait Float: Weight {
    /// Computes `out = beta * out + x W^T`, where `weights` contains the elements of `W` in the
    /// order described in [`Floats`].
    fn accumulate(weights: &[Self], x: &ArrayRef2<f32>, beta: f32, out: ArrayViewMut2<f32>);

    /// Returns whether matrix products multiply weights of this type as pairs of bf16 values. If
    /// they do, they also round their inputs to bf16.
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
        if !T::multiplied_as_bf16() {
            return weight_panels::push_rows(&mut self.0, rows);
        }
        let rows = rows.as_standard_layout();
        let rows = rows.as_slice().expect("standard layout is contiguous");
        let spare = &mut self.0.spare_capacity_mut()[..rows.len()];
        (spare.par_chunks_mut(WEIGHTS_PER_TASK))
            .zip(rows.par_chunks(WEIGHTS_PER_TASK))
            .for_each(|(to, from)| T::round(from, to));
        // SAFETY: The loop has written every new element.
        unsafe { self.0.set_len(self.0.len() + rows.len()) };
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

/// Converts an array of the shape (outputs, inputs) without rounding its elements. If the array is
/// in row-major order, the matrix reuses its memory, which is reallocated if the last panel
/// requires padding that doesn't fit.
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
    /// Computes `out += x W^T`, where `W` is this matrix, `x` has the shape (rows, inputs) and
    /// `out` has the shape (rows, outputs).
    ///
    /// # Panics
    ///
    /// Panics if the shape of `x` isn't (rows, inputs) or the shape of `out` isn't (rows, outputs).
    pub fn accumulate_rows(&self, x: &ArrayRef2<f32>, out: ArrayViewMut2<f32>) {
        self.check(x, out.dim());
        f32::accumulate(&self.weights.0, x, 1.0, out);
    }
}
