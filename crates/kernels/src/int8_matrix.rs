//! A weight matrix in 8-bit integers with one f32 scale a row: a quarter of the memory to read while decoding.
//!
//! Symmetric: weight = scale * byte, byte within ±127. For few rows of input the activations are rounded too, a scale for each block of 64, and the dot products are exact in integers; many rows are multiplied in f32.
//! There is no gradient.

use ndarray::{Array1, ArrayRef2, ArrayViewMut2, Axis};

use crate::gemv::{FEW_ROWS, for_each_task};
use crate::int8::{self, Activations, BLOCK, OFFSET};
use crate::packed_rows::{by_expansion, check, write_transposed};

/// A constant (outputs, inputs) matrix of bytes.
#[derive(Clone, Debug, PartialEq)]
pub struct Int8Matrix {
    /// (outputs, inputs / 64 rounded up) blocks, row-major, each byte with 128 added
    blocks: Vec<[u8; BLOCK]>,
    /// (outputs)
    scales: Array1<f32>,
    shape: (usize, usize),
}

impl Int8Matrix {
    /// Rounds each row to multiples of its largest magnitude / 127.
    pub fn from_f32(weight: &ArrayRef2<f32>) -> Self {
        let blocks_a_row = weight.ncols().div_ceil(BLOCK);
        let mut blocks = vec![[OFFSET; BLOCK]; weight.nrows() * blocks_a_row];
        let mut scales = Array1::zeros(weight.nrows());
        let mut bytes = vec![0i8; weight.ncols()];
        for (i, row) in weight.axis_iter(Axis(0)).enumerate() {
            scales[i] = int8::quantise(&row.to_vec(), &mut bytes);
            let stored = blocks[i * blocks_a_row..].as_flattened_mut();
            for (stored, byte) in stored.iter_mut().zip(&bytes) {
                *stored = byte.cast_unsigned().wrapping_add(OFFSET);
            }
        }
        Self {
            blocks,
            scales,
            shape: weight.dim(),
        }
    }

    /// (outputs, inputs)
    pub fn dim(&self) -> (usize, usize) {
        self.shape
    }

    /// Bytes that a product reads.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.blocks[..]) + 4 * self.scales.len()
    }

    /// Writes row `i` as f32: an embedding's lookup.
    ///
    /// # Panics
    /// If there is no such row, or `out` is not as long as a row.
    pub fn row_into(&self, i: usize, out: &mut [f32]) {
        assert!(
            i < self.shape.0 && out.len() == self.shape.1,
            "Int8Matrix::row_into: row {i} of {:?} into {} numbers",
            self.shape,
            out.len()
        );
        let blocks_a_row = self.blocks_a_row();
        let stored = self.blocks[i * blocks_a_row..].as_flattened();
        for (out, &stored) in out.iter_mut().zip(stored) {
            *out = self.scales[i] * (f32::from(stored) - f32::from(OFFSET));
        }
    }

    /// `out = x W^T`: (rows, inputs) -> (rows, outputs).
    ///
    /// ```
    /// use ndarray::{Array2, array};
    /// let w = kernels::Int8Matrix::from_f32(&array![[1.0, 2.0], [0.5, -1.0]]);
    /// let mut y = Array2::zeros((1, 2));
    /// w.matmul_rows(&array![[10.0, 1.0]], y.view_mut());
    /// assert!((y[[0, 0]] - 12.0f32).abs() < 0.2 && (y[[0, 1]] - 4.0f32).abs() < 0.2);
    /// ```
    ///
    /// # Panics
    /// If the shapes don't fit.
    pub fn matmul_rows(&self, x: &ArrayRef2<f32>, mut out: ArrayViewMut2<f32>) {
        check("Int8Matrix::matmul_rows", x, self.shape, &out);
        if x.nrows() > FEW_ROWS {
            return by_expansion(x, out, |i, row| self.row_into(i, row));
        }
        let x = x.as_standard_layout();
        let x: Vec<_> = x
            .rows()
            .into_iter()
            .map(|row| Activations::quantise(row.to_slice().expect("made contiguous above")))
            .collect();
        if let ([x], Some(y)) = (&x[..], out.as_slice_mut()) {
            y.fill(0.0);
            return self.dots(std::slice::from_ref(x), y);
        }
        let mut y = vec![0.0; out.len()]; // (outputs, rows)
        self.dots(&x, &mut y);
        write_transposed(&y, out);
    }

    /// `y += W x^T`: (outputs, rows)
    fn dots(&self, x: &[Activations], y: &mut [f32]) {
        let n = self.blocks_a_row();
        let scales = self
            .scales
            .as_slice()
            .expect("a vector of ours is contiguous");
        if x.is_empty() {
            return;
        }
        for_each_task(y, x.len(), n * BLOCK, |first, y| {
            let outputs = y.len() / x.len();
            let w = &self.blocks[first * n..(first + outputs) * n];
            let scales = &scales[first..first + outputs];
            for (r, activations) in x.iter().enumerate() {
                int8::dots(activations, w, scales, &mut y[r..], x.len());
            }
        });
    }

    fn blocks_a_row(&self) -> usize {
        self.shape.1.div_ceil(BLOCK)
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;
    use crate::gemm;

    #[test]
    fn few_rows_and_many_rows_are_close_to_the_exact_product() {
        for (rows, n, m) in [
            (1, 1, 1),
            (1, 70, 9),
            (4, 130, 20),
            (5, 33, 20),
            (17, 33, 20),
            (9, 64, 2100),
        ] {
            let x = Array2::from_shape_fn((rows, n), |(i, j)| {
                ((i * 7 + j * 3) % 13) as f32 / 6.0 - 1.0
            });
            let w =
                Array2::from_shape_fn((m, n), |(i, j)| ((i * 5 + j * 11) % 97) as f32 / 48.0 - 1.0);
            let mut y = Array2::from_elem((rows, m), f32::NAN);
            Int8Matrix::from_f32(&w).matmul_rows(&x, y.view_mut());
            let expected = gemm::product(&x, &w.t(), None);
            // Half a step of 1/127 on either side, n times, some of them cancelling.
            let tolerance = 2.0 * 0.5 / 127.0 * (n as f32).sqrt() * 1.5;
            for ((at, got), expected) in y.indexed_iter().zip(&expected) {
                assert!(
                    (got - expected).abs() < tolerance,
                    "{rows} x {n} x {m} at {at:?}: {got} not {expected}"
                );
            }
        }
    }

    #[test]
    fn a_row_of_zeros_stays_zero() {
        let w = Int8Matrix::from_f32(&Array2::zeros((2, 5)));
        let mut row = [1.0; 5];
        w.row_into(1, &mut row);
        assert_eq!(row, [0.0; 5]);
    }
}
