//! Weights in 16 bits, bf16 or f16: half the memory to read while decoding.
//!
//! They are rounded once, to 8 bits of mantissa in bf16 and to 11 in f16, ties to even; inputs and sums are f32.

use half::{bf16, f16};
use multiversion::multiversion;
use ndarray::{Array2, ArrayRef2, ArrayView2, ArrayViewMut2, Axis};
use rayon::prelude::*;

use crate::PackedMatrix;
use crate::gemm::{self, Threads};
use crate::gemv::{FEW_ROWS, widening_gemv};
use crate::huge_pages::room;
use crate::packed_matrix::Format;
use crate::weight::Weight;

/// Weight rows expanded at a time.
const EXPANDED_ROWS: usize = 2048;

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

    fn matmul_rows(&self, x: &ArrayRef2<f32>, mut out: ArrayViewMut2<f32>) {
        if x.nrows() > FEW_ROWS {
            return by_expansion(x, &self.0, out);
        }
        let rows = x.as_standard_layout();
        let rows = rows.as_slice().expect("standard layout is contiguous");
        if let (1, Some(y)) = (x.nrows(), out.as_slice_mut()) {
            y.fill(0.0);
            return widening_gemv(rows, 1, &self.0, y);
        }
        let mut y = Array2::zeros((out.ncols(), out.nrows()));
        let outputs = y.as_slice_mut().expect("row-major");
        widening_gemv(rows, x.nrows(), &self.0, outputs);
        out.assign(&y.t());
    }
}

/// `out = x W^T` by expanding W (outputs, inputs) to f32, a block of rows at a time.
fn by_expansion<T: Weight>(x: &ArrayRef2<f32>, w: &[T], mut out: ArrayViewMut2<f32>) {
    let n = x.ncols();
    let mut block = vec![0.0; EXPANDED_ROWS.min(out.ncols()) * n];
    let columns = out.axis_chunks_iter_mut(Axis(1), EXPANDED_ROWS);
    for (columns, w) in columns.zip(w.chunks(EXPANDED_ROWS * n)) {
        let block = &mut block[..w.len()];
        let tasks = block.par_chunks_mut(32 * n).zip(w.par_chunks(32 * n));
        tasks.for_each(|(block, w)| widen(w, block));
        let w = ArrayView2::from_shape((columns.ncols(), n), block).expect("as many elements");
        gemm::accumulate(x, &w.t(), 0.0, columns, Threads::Pool);
    }
}

/// Writes the values of the first weights.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn widen<T: Weight>(weights: &[T], out: &mut [f32]) {
    for (out, w) in out.iter_mut().zip(weights) {
        *out = w.value();
    }
}
