//! Weights in 8-bit integers with one f32 scale a row: a quarter of the memory to read while decoding.
//!
//! Symmetric: weight = scale * byte, byte within ±127. Activations are rounded too, a scale for each block of 64, and the dot products are exact in integers.

use ndarray::{ArrayRef2, ArrayViewMut2, Axis};

use crate::PackedMatrix;
use crate::activations::{self, Activations, BLOCK, Dots, Panels, ROWS};
use crate::huge_pages::room;
use crate::int8::{self, Block};
use crate::packed_matrix::Format;

/// Each row in multiples of its largest magnitude / 127.
pub type Int8Matrix = PackedMatrix<Bytes>;

/// (outputs, inputs) bytes
#[derive(Clone, PartialEq)]
pub struct Bytes {
    /// (outputs / 16, inputs / 64), both rounded up, row-major
    blocks: Vec<Block>,
    /// (outputs)
    scales: Vec<f32>,
}

impl Format for Bytes {
    fn from_f32(weight: &ArrayRef2<f32>) -> Self {
        let n = weight.ncols().div_ceil(BLOCK);
        let count = weight.nrows().div_ceil(ROWS) * n;
        let mut blocks = room(count);
        blocks.resize(count, Block::ZEROS);
        let mut scales = vec![0.0; weight.nrows()];
        let mut bytes = vec![0; n * BLOCK]; // those behind a row's end stay 0
        for (i, row) in weight.axis_iter(Axis(0)).enumerate() {
            scales[i] = activations::quantise(&row.to_vec(), &mut bytes);
            let blocks = &mut blocks[i / ROWS * n..];
            for (block, bytes) in blocks.iter_mut().zip(bytes.as_chunks().0) {
                block.set_row(i % ROWS, bytes);
            }
        }
        Self { blocks, scales }
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.blocks[..]) + size_of_val(&self.scales[..])
    }

    fn matmul_rows(&self, x: &ArrayRef2<f32>, out: ArrayViewMut2<f32>) {
        let bytes = x.ncols().div_ceil(BLOCK) * size_of::<Block>();
        activations::matmul(x, self, bytes, out);
    }
}

impl Panels for Bytes {
    fn dots<const R: usize, const T: usize>(
        &self,
        x: [&Activations; R],
        panels: [usize; T],
    ) -> Dots<R, T> {
        let n = x[0].blocks.len();
        let mut y = int8::dots(x, panels.map(|panel| &self.blocks[panel * n..][..n]));
        for y in &mut y {
            for (y, panel) in y.iter_mut().zip(panels) {
                for (y, scale) in y.iter_mut().zip(&self.scales[panel * ROWS..]) {
                    *y *= scale;
                }
            }
        }
        y
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;

    #[test]
    fn several_panels_at_once_give_the_bits_of_one() {
        let numbers = |step| move |(i, j)| ((i * 5 + j * step) % 97) as f32 / 48.0 - 1.0;
        let x = Array2::from_shape_fn((1, 130), numbers(7));
        for outputs in [5, 64, 200] {
            let w = Bytes::from_f32(&Array2::from_shape_fn((outputs, 130), numbers(11)));
            let [mut y, mut expected] = [f32::NAN; 2].map(|y| Array2::from_elem((1, outputs), y));
            activations::matmul_by::<_, 4>(&x, &w, 1000, y.view_mut());
            activations::matmul_by::<_, 1>(&x, &w, 1000, expected.view_mut());
            assert_eq!(y, expected, "{outputs} outputs");
        }
    }
}
