//! Shared code of the bf16 and int8 matrices: a product with few rows reads them directly, one with many expands them block by block.

use ndarray::{ArrayRef2, ArrayView2, ArrayViewMut2, Axis, Slice};
use rayon::prelude::*;

use crate::gemm::{self, Threads};

/// Weight rows expanded at a time.
const EXPANDED_ROWS: usize = 2048;

/// `out = x W^T` by expanding W (outputs, n) to f32, a block of rows at a time; `expand(i, row)` writes row i.
pub(crate) fn by_expansion(
    x: &ArrayRef2<f32>,
    mut out: ArrayViewMut2<f32>,
    expand: impl Fn(usize, &mut [f32]) + Sync,
) {
    let (outputs, n) = (out.ncols(), x.ncols());
    if n == 0 {
        return out.fill(0.0);
    }
    let mut block = vec![0.0; EXPANDED_ROWS.min(outputs) * n];
    for first in (0..outputs).step_by(EXPANDED_ROWS) {
        let last = (first + EXPANDED_ROWS).min(outputs);
        let block = &mut block[..(last - first) * n];
        block
            .par_chunks_mut(n)
            .with_min_len(32)
            .enumerate()
            .for_each(|(i, row)| expand(first + i, row));
        let w = ArrayView2::from_shape((last - first, n), block).expect("as many elements");
        let columns = out.slice_axis_mut(Axis(1), Slice::from(first..last));
        gemm::accumulate(x, &w.t(), 0.0, columns, Threads::Pool);
    }
}

/// `out = y^T`, from what the kernels for few rows write.
pub(crate) fn write_transposed(y: &[f32], mut out: ArrayViewMut2<f32>) {
    let y = ArrayView2::from_shape((out.ncols(), out.nrows()), y).expect("as many as in `out`");
    out.assign(&y.t());
}

/// The shapes of `out = x W^T` fit.
///
/// # Panics
/// If not; the message names them.
pub(crate) fn check(
    op: &str,
    x: &ArrayRef2<f32>,
    weight: (usize, usize),
    out: &ArrayViewMut2<f32>,
) {
    assert!(
        x.ncols() == weight.1 && out.dim() == (x.nrows(), weight.0),
        "{op}: input {:?}, weight {weight:?} and output {:?} don't fit",
        x.dim(),
        out.dim()
    );
}
