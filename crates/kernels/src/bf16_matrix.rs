//! A weight matrix in bf16, the upper half of an f32: half the memory to read while decoding.
//!
//! Weights are rounded to 8 bits of mantissa once; inputs keep at least 16 bits, and sums are f32. There is no gradient.

use half::bf16;
use ndarray::{ArrayRef2, ArrayViewMut2};

use crate::dot_bf16::gemv_bf16;
use crate::gemv::{FEW_ROWS, Weight};
use crate::packed_rows::{by_expansion, check, write_transposed};

/// A constant (outputs, inputs) matrix of bf16, as in `nn.Linear(..., dtype=torch.bfloat16)`.
#[derive(Clone, Debug, PartialEq)]
pub struct Bf16Matrix {
    /// (outputs, inputs) row-major
    values: Vec<bf16>,
    shape: (usize, usize),
}

impl Bf16Matrix {
    /// Rounds each weight to the nearest bf16, ties to even; NaN stays NaN.
    pub fn from_f32(weight: &ArrayRef2<f32>) -> Self {
        Self {
            values: weight.iter().map(|&w| bf16::from_f32(w)).collect(),
            shape: weight.dim(),
        }
    }

    /// (outputs, inputs)
    pub fn dim(&self) -> (usize, usize) {
        self.shape
    }

    /// Bytes that a product reads.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.values[..])
    }

    /// Writes row `i` as f32: an embedding's lookup.
    ///
    /// # Panics
    /// If there is no such row, or `out` is not as long as a row.
    pub fn row_into(&self, i: usize, out: &mut [f32]) {
        let n = self.shape.1;
        assert!(
            i < self.shape.0 && out.len() == n,
            "Bf16Matrix::row_into: row {i} of {:?} into {} numbers",
            self.shape,
            out.len()
        );
        let row = &self.values[i * n..(i + 1) * n];
        out.iter_mut()
            .zip(row)
            .for_each(|(out, w)| *out = w.value());
    }

    /// `out = x W^T`: (rows, inputs) -> (rows, outputs).
    ///
    /// ```
    /// use ndarray::{Array2, array};
    /// let w = kernels::Bf16Matrix::from_f32(&array![[1.0, 2.0], [0.5, -1.0], [0.0, 3.0]]);
    /// let mut y = Array2::zeros((1, 3));
    /// w.matmul_rows(&array![[10.0, 1.0]], y.view_mut());
    /// assert_eq!(y, array![[12.0, 4.0, 3.0]]);
    /// ```
    ///
    /// # Panics
    /// If the shapes don't fit.
    pub fn matmul_rows(&self, x: &ArrayRef2<f32>, mut out: ArrayViewMut2<f32>) {
        check("Bf16Matrix::matmul_rows", x, self.shape, &out);
        if x.nrows() > FEW_ROWS {
            return by_expansion(x, out, |i, row| self.row_into(i, row));
        }
        let x_rows = x.as_standard_layout();
        let x_rows = x_rows.as_slice().expect("made contiguous above");
        if let (1, Some(y)) = (x.nrows(), out.as_slice_mut()) {
            y.fill(0.0);
            return gemv_bf16(x_rows, 1, &self.values, y);
        }
        let mut y = vec![0.0; out.len()]; // (outputs, rows)
        gemv_bf16(x_rows, x.nrows(), &self.values, &mut y);
        write_transposed(&y, out);
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;
    use crate::gemm;

    #[test]
    fn few_rows_and_many_rows_give_the_product_of_the_rounded_weights() {
        for (rows, n, m) in [
            (1, 1, 1),
            (1, 70, 9),
            (4, 33, 20),
            (5, 33, 20),
            (17, 33, 20),
            (9, 64, 2100),
        ] {
            let x = Array2::from_shape_fn((rows, n), |(i, j)| {
                ((i * 7 + j * 3) % 13) as f32 / 6.0 - 1.0
            });
            let w =
                Array2::from_shape_fn((m, n), |(i, j)| ((i * 5 + j * 11) % 97) as f32 / 48.0 - 1.0);
            let packed = Bf16Matrix::from_f32(&w);
            let mut rounded = Array2::zeros((m, n));
            for (i, mut row) in rounded.rows_mut().into_iter().enumerate() {
                packed.row_into(i, row.as_slice_mut().expect("row-major"));
            }
            assert!((&rounded - &w).iter().all(|d| d.abs() <= 1.0 / 256.0));
            let mut y = Array2::from_elem((rows, m), f32::NAN);
            packed.matmul_rows(&x, y.view_mut());
            let expected = gemm::product(&x, &rounded.t(), None);
            for ((at, got), expected) in y.indexed_iter().zip(&expected) {
                assert!(
                    (got - expected).abs() < 1e-4,
                    "{rows} x {n} x {m} at {at:?}: {got} not {expected}"
                );
            }
        }
    }
}
