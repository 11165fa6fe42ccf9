//! A weight matrix in 4-bit integers with one f16 scale for 32 of them, 4.5 bits a weight: a seventh of the memory to read while decoding.
//!
//! As llama.cpp's q4_0, except that each scale is the one among several whose rounding has the smallest squared error.
//! For few rows of input the activations are rounded to 8 bits, as for [`Int8Matrix`](crate::Int8Matrix); many rows are multiplied in f32.
//! There is no gradient.

use ndarray::{ArrayRef2, ArrayViewMut2};
use rayon::prelude::*;

use crate::gemv::{FEW_ROWS, for_each_task};
use crate::int4::{self, BLOCK, Block};
use crate::int8::Activations;
use crate::packed_rows::{by_expansion, check, write_transposed};

/// A constant (outputs, inputs) matrix of nibbles.
#[derive(Clone, Debug, PartialEq)]
pub struct Int4Matrix {
    /// (outputs, inputs / 128 rounded up) blocks, row-major
    blocks: Vec<Block>,
    shape: (usize, usize),
}

impl Int4Matrix {
    /// Rounds each 32 weights of a row to multiples of a scale of their own.
    pub fn from_f32(weight: &ArrayRef2<f32>) -> Self {
        let weight = weight.as_standard_layout();
        let values = weight.as_slice().expect("made contiguous above");
        let rows = values.par_chunks(weight.ncols().max(1));
        let blocks = rows.flat_map_iter(|row| row.chunks(BLOCK).map(Block::quantise));
        Self {
            blocks: blocks.collect(),
            shape: weight.dim(),
        }
    }

    /// (outputs, inputs)
    pub fn dim(&self) -> (usize, usize) {
        self.shape
    }

    /// Bytes that a product reads.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.blocks[..])
    }

    /// Writes row `i` as f32: an embedding's lookup.
    ///
    /// # Panics
    /// If there is no such row, or `out` is not as long as a row.
    pub fn row_into(&self, i: usize, out: &mut [f32]) {
        assert!(
            i < self.shape.0 && out.len() == self.shape.1,
            "Int4Matrix::row_into: row {i} of {:?} into {} numbers",
            self.shape,
            out.len()
        );
        let blocks = &self.blocks[i * self.blocks_a_row()..];
        for (block, out) in blocks.iter().zip(out.chunks_mut(BLOCK)) {
            for (j, out) in out.iter_mut().enumerate() {
                *out = block.weight(j);
            }
        }
    }

    /// `out = x W^T`: (rows, inputs) -> (rows, outputs).
    ///
    /// ```
    /// use ndarray::{Array2, array};
    /// let w = kernels::Int4Matrix::from_f32(&array![[1.0, 2.0], [0.5, -1.0]]);
    /// let mut y = Array2::zeros((1, 2));
    /// w.matmul_rows(&array![[10.0, 1.0]], y.view_mut());
    /// assert!((y[[0, 0]] - 12.0f32).abs() < 0.2 && (y[[0, 1]] - 4.0f32).abs() < 0.2);
    /// ```
    ///
    /// # Panics
    /// If the shapes don't fit.
    pub fn matmul_rows(&self, x: &ArrayRef2<f32>, mut out: ArrayViewMut2<f32>) {
        check("Int4Matrix::matmul_rows", x, self.shape, &out);
        if x.nrows() > FEW_ROWS {
            return by_expansion(x, out, |i, row| self.row_into(i, row));
        }
        let mut padded = vec![0.0; self.blocks_a_row() * BLOCK];
        let mut quantise = |row: ndarray::ArrayView1<f32>| {
            padded.iter_mut().zip(row).for_each(|(to, x)| *to = *x);
            Activations::quantise(&padded)
        };
        let x: Vec<_> = x.rows().into_iter().map(&mut quantise).collect();
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
        if x.is_empty() {
            return;
        }
        for_each_task(y, x.len(), n * size_of::<Block>(), |first, y| {
            let w = &self.blocks[first * n..][..y.len() / x.len() * n];
            for (r, activations) in x.iter().enumerate() {
                int4::dots(activations, w, &mut y[r..], x.len());
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
    fn few_rows_and_many_rows_are_close_to_the_product_of_the_rounded_weights() {
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
            let packed = Int4Matrix::from_f32(&w);
            let mut rounded = Array2::zeros((m, n));
            for (i, mut row) in rounded.rows_mut().into_iter().enumerate() {
                packed.row_into(i, row.as_slice_mut().expect("row-major"));
            }
            // A step is at most a seventh of the largest; at the end of the range all of one may be lost.
            assert!((&rounded - &w).iter().all(|d| d.abs() <= 1.0 / 7.0));
            let mut y = Array2::from_elem((rows, m), f32::NAN);
            packed.matmul_rows(&x, y.view_mut());
            let expected = gemm::product(&x, &rounded.t(), None);
            // Half a step of 1/127 of the activations, n times, some of them cancelling.
            let tolerance = 0.5 / 127.0 * (n as f32).sqrt() * 1.5;
            for ((at, got), expected) in y.indexed_iter().zip(&expected) {
                assert!(
                    (got - expected).abs() < tolerance,
                    "{rows} x {n} x {m} at {at:?}: {got} not {expected}"
                );
            }
        }
    }
}
