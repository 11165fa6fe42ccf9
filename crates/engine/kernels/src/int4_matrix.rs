//! Weights in 4-bit integers with one f16 scale for 32 of them, 4.5 bits a weight: a seventh of the memory to read while decoding.
//!
//! As llama.cpp's q4_0, except that each scale is the one among several whose rounding has the smallest squared error.
//! Activations are rounded to 8 bits, as for [`Int8Matrix`](crate::Int8Matrix).

use ndarray::{ArrayRef2, ArrayViewMut2};
use rayon::prelude::*;

use crate::PackedMatrix;
use crate::activations::{self, Activations, BLOCK, Dots, Panels, ROWS};
use crate::huge_pages::room;
use crate::int4::{self, Block};
use crate::packed_matrix::Format;

/// Each 32 weights of a row in multiples of a scale of their own.
pub type Int4Matrix = PackedMatrix<Nibbles>;

/// (outputs / 16, inputs / 64), both rounded up, row-major
#[derive(Clone, PartialEq)]
pub struct Nibbles(Vec<Block>);

impl Format for Nibbles {
    fn from_f32(weight: &ArrayRef2<f32>) -> Self {
        let n = weight.ncols().div_ceil(BLOCK);
        let weight = weight.as_standard_layout();
        let values = weight.as_slice().expect("standard layout is contiguous");
        let count = weight.nrows().div_ceil(ROWS) * n;
        let mut blocks = room(count);
        blocks.resize(count, Block::ZEROS);
        let panels = blocks.par_chunks_mut(n.max(1));
        panels
            .zip(values.par_chunks(ROWS * weight.ncols().max(1)))
            .for_each(|(blocks, rows)| {
                for (i, row) in rows.chunks(weight.ncols()).enumerate() {
                    for (block, weights) in blocks.iter_mut().zip(row.chunks(BLOCK)) {
                        block.set_row(i, weights);
                    }
                }
            });
        Self(blocks)
    }

    fn bytes(&self) -> usize {
        size_of_val(&self.0[..])
    }

    fn matmul_rows(&self, x: &ArrayRef2<f32>, out: ArrayViewMut2<f32>) {
        let bytes = x.ncols().div_ceil(BLOCK) * size_of::<Block>();
        activations::matmul(x, self, bytes, out);
    }
}

impl Panels for Nibbles {
    fn dots<const R: usize, const T: usize>(
        &self,
        x: [&Activations; R],
        panels: [usize; T],
    ) -> Dots<R, T> {
        let n = x[0].blocks.len();
        int4::dots(x, panels.map(|panel| &self.0[panel * n..][..n]))
    }
}
