//! Weights in 4-bit integers with one f16 scale for 32 of them, 4.5 bits a weight: a seventh of the memory to read while decoding.
//!
//! As llama.cpp's q4_0, except that each scale is the one among several whose rounding has the smallest squared error.
//! For few rows of input the activations are rounded to 8 bits, as for [`Int8Matrix`](crate::Int8Matrix); many rows are multiplied in f32.

use ndarray::ArrayRef2;
use rayon::prelude::*;

use crate::PackedMatrix;
use crate::gemv::for_each_task;
use crate::int4::{self, BLOCK, Block};
use crate::int8::Activations;
use crate::packed_matrix::Format;

/// Each 32 weights of a row in multiples of a scale of their own.
pub type Int4Matrix = PackedMatrix<Nibbles>;

/// (outputs, inputs / 128 rounded up) blocks, row-major
#[derive(Clone, PartialEq)]
pub struct Nibbles(Vec<Block>);

impl Format for Nibbles {
    fn from_f32(weight: &ArrayRef2<f32>) -> Self {
        let weight = weight.as_standard_layout();
        let values = weight.as_slice().expect("standard layout is contiguous");
        let rows = values.par_chunks(weight.ncols().max(1));
        let blocks = rows.flat_map_iter(|row| row.chunks(BLOCK).map(Block::quantise));
        Self(blocks.collect())
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.0[..])
    }

    fn expand(&self, i: usize, row: &mut [f32]) {
        let blocks = &self.0[i * row.len().div_ceil(BLOCK)..];
        for (block, out) in blocks.iter().zip(row.chunks_mut(BLOCK)) {
            for (j, out) in out.iter_mut().enumerate() {
                *out = block.weight(j);
            }
        }
    }

    fn dots(&self, x: &ArrayRef2<f32>, y: &mut [f32]) {
        let n = x.ncols().div_ceil(BLOCK);
        let x = Activations::of_rows(x, BLOCK);
        for_each_task(y, x.len(), n * size_of::<Block>(), |first, y| {
            let w = &self.0[first * n..][..y.len() / x.len() * n];
            for (r, activations) in x.iter().enumerate() {
                int4::dots(activations, w, &mut y[r..], x.len());
            }
        });
    }
}
