//! Weights in 16 bits, bf16 or f16: half the memory to read while decoding.
//!
//! They are rounded once, to 8 bits of mantissa in bf16 and to 11 in f16, ties to even; inputs and sums are f32.

use half::{bf16, f16};
use multiversion::multiversion;
use ndarray::ArrayRef2;

use crate::PackedMatrix;
use crate::gemv::widening_gemv;
use crate::huge_pages::room;
use crate::packed_matrix::Format;
use crate::weight::Weight;

/// The upper halves of f32, as in `nn.Linear(..., dtype=torch.bfloat16)`; NaN stays NaN.
pub type Bf16Matrix = PackedMatrix<Halves<bf16>>;

/// IEEE's half precision, as in `nn.Linear(..., dtype=torch.float16)`; NaN stays NaN, and magnitudes above 65504 become 65504.
pub type F16Matrix = PackedMatrix<Halves<f16>>;

/// (outputs, inputs) row-major
#[derive(Clone, PartialEq)]
pub struct Halves<T>(Vec<T>);

impl<T: Weight> Format for Halves<T> {
    fn from_f32(weight: &ArrayRef2<f32>) -> Self {
        let mut values = room(weight.len());
        values.extend(weight.iter().map(|&w| T::nearest(w)));
        Self(values)
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.0[..])
    }

    fn expand(&self, i: usize, row: &mut [f32]) {
        widen(&self.0[i * row.len()..], row);
    }

    fn dots(&self, x: &ArrayRef2<f32>, y: &mut [f32]) {
        let rows = x.as_standard_layout();
        let rows = rows.as_slice().expect("standard layout is contiguous");
        widening_gemv(rows, x.nrows(), &self.0, y);
    }
}

/// Writes the values of the first weights.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn widen<T: Weight>(weights: &[T], out: &mut [f32]) {
    for (out, w) in out.iter_mut().zip(weights) {
        *out = w.value();
    }
}
