//! Weights in 8-bit integers with one f32 scale a row: a quarter of the memory to read while decoding.
//!
//! Symmetric: weight = scale * byte, byte within ±127. For few rows of input the activations are rounded too, a scale for each block of 64, and the dot products are exact in integers; many rows are multiplied in f32.

use ndarray::{ArrayRef2, Axis};

use crate::PackedMatrix;
use crate::activations::{self, BLOCK, ROWS, add_dots};
use crate::huge_pages::room;
use crate::int8::{self, Block};
use crate::packed_matrix::Format;
use crate::prefetch::{self, STREAMS};

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

    fn expand(&self, i: usize, row: &mut [f32]) {
        let blocks = &self.blocks[i / ROWS * row.len().div_ceil(BLOCK)..];
        for (block, out) in blocks.iter().zip(row.chunks_mut(BLOCK)) {
            for (out, weight) in out.iter_mut().zip(block.row(i % ROWS)) {
                *out = self.scales[i] * f32::from(weight);
            }
        }
    }

    fn dots(&self, x: &ArrayRef2<f32>, y: &mut [f32]) {
        // Where nothing is asked for ahead, a single row of `x` meets several panels of weights at once.
        match (x.nrows(), prefetch::distance()) {
            (1, 0) => self.add_dots::<STREAMS>(x, y),
            _ => self.add_dots::<1>(x, y),
        }
    }
}

impl Bytes {
    fn add_dots<const T: usize>(&self, x: &ArrayRef2<f32>, y: &mut [f32]) {
        add_dots::<_, T>(x, &self.blocks, y, |panel, x, w| {
            let mut dots = int8::dots(x, w);
            let scales = &self.scales[panel * ROWS..];
            for (dot, scale) in dots.as_flattened_mut().iter_mut().zip(scales) {
                *dot *= scale;
            }
            dots
        });
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;

    #[test]
    fn several_panels_at_once_give_the_bits_of_one() {
        let numbers = |step| move |(i, j)| ((i * 5 + j * step) % 97) as f32 / 48.0 - 1.0;
        for outputs in [5, 64, 200] {
            let w = Bytes::from_f32(&Array2::from_shape_fn((outputs, 130), numbers(11)));
            let x = Array2::from_shape_fn((3, 130), numbers(7));
            let (mut y, mut expected) = (vec![0.5; 3 * outputs], vec![0.5; 3 * outputs]);
            w.add_dots::<STREAMS>(&x, &mut y);
            w.add_dots::<1>(&x, &mut expected);
            assert_eq!(y, expected, "{outputs} outputs");
        }
    }
}
