//! Weights in 8-bit integers with one f32 scale a row: a quarter of the memory to read while decoding.
//!
//! Symmetric: weight = scale * byte, byte within ±127. For few rows of input the activations are rounded too, a scale for each block of 64, and the dot products are exact in integers; many rows are multiplied in f32.

use ndarray::{ArrayRef2, Axis};

use crate::PackedMatrix;
use crate::gemv::for_each_task;
use crate::int8::{self, Activations, BLOCK, OFFSET};
use crate::packed_matrix::Format;

/// Each row in multiples of its largest magnitude / 127.
pub type Int8Matrix = PackedMatrix<Bytes>;

/// (outputs, inputs) bytes
#[derive(Clone, PartialEq)]
pub struct Bytes {
    /// (outputs, inputs / 64 rounded up) blocks, row-major, each byte with 128 added
    blocks: Vec<[u8; BLOCK]>,
    /// (outputs)
    scales: Vec<f32>,
}

impl Format for Bytes {
    fn from_f32(weight: &ArrayRef2<f32>) -> Self {
        let blocks_a_row = weight.ncols().div_ceil(BLOCK);
        let mut blocks = vec![[OFFSET; BLOCK]; weight.nrows() * blocks_a_row];
        let mut scales = vec![0.0; weight.nrows()];
        let mut bytes = vec![0i8; weight.ncols()];
        for (i, row) in weight.axis_iter(Axis(0)).enumerate() {
            scales[i] = int8::quantise(&row.to_vec(), &mut bytes);
            let stored = blocks[i * blocks_a_row..].as_flattened_mut();
            for (stored, byte) in stored.iter_mut().zip(&bytes) {
                *stored = byte.cast_unsigned().wrapping_add(OFFSET);
            }
        }
        Self { blocks, scales }
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.blocks[..]) + size_of_val(&self.scales[..])
    }

    fn expand(&self, i: usize, row: &mut [f32]) {
        let stored = self.blocks[i * row.len().div_ceil(BLOCK)..].as_flattened();
        for (out, &stored) in row.iter_mut().zip(stored) {
            *out = self.scales[i] * (f32::from(stored) - f32::from(OFFSET));
        }
    }

    fn dots(&self, x: &ArrayRef2<f32>, y: &mut [f32]) {
        let n = x.ncols().div_ceil(BLOCK);
        let x = Activations::of_rows(x, BLOCK);
        for_each_task(y, x.len(), n * BLOCK, |first, y| {
            let outputs = y.len() / x.len();
            let w = &self.blocks[first * n..(first + outputs) * n];
            let scales = &self.scales[first..first + outputs];
            for (r, activations) in x.iter().enumerate() {
                int8::dots(activations, w, scales, &mut y[r..], x.len());
            }
        });
    }
}
