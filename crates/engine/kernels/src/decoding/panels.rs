//! Matrices of int8 or int4 weights in panels of 16 rows, and their products with int8 activations.
//!
//! The rows of a panel are interleaved: four columns of row 0 are followed by the same columns of
//! row 1, and so on up to row 15. This order suits AVX-512 VNNI's instruction `vpdpbusd`, which
//! multiplies 64 pairs of bytes and adds every four neighboring products to one of 16 lanes. Each
//! lane therefore computes the dot product of one row, so the lanes never have to be added up.
//!
//! Each panel consists of blocks of 64 columns. The types `int8::Block` and `int4::Block` define
//! how a block stores its weights and how its dot products are computed.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use ndarray::{Array2, ArrayRef2, ArrayViewMut2};
use rayon::prelude::*;

#[cfg(target_arch = "x86_64")]
use crate::decoding::activations::Quad;
use crate::decoding::activations::{self, ActivationBlock, BLOCK};
use crate::decoding::packed_matrix::{Format, ROWS};
use crate::prefetch::{self, STREAMS};
use crate::threads::for_each;
use crate::threads::huge_pages::room;
use crate::threads::tasks::cut_columns;
#[cfg(target_arch = "x86_64")]
use crate::weight::has_avx2;

/// Number of rows of activations that are multiplied by a panel together. Each weight of the panel
/// is read only once for all of these rows.
const ROWS_AT_ONCE: usize = 4;
/// Number of rows of activations in a chunk. A thread multiplies a chunk by all panels of its task
/// before it continues with the next chunk. The activations of the chunk stay in the L2 cache
/// during that time.
const ROWS_PER_CHUNK: usize = 64;

/// The dot products of `R` rows of activations and the 16 rows of each of `T` panels. Element
/// `[r][t][i]` belongs to row `r` of the activations and row `i` of panel `t`.
pub(crate) type Dots<const R: usize, const T: usize> = [[[f32; ROWS]; T]; R];

/// Returns block `b` (64 neighboring columns) of each of `N` rows. The rows are either rows of
/// activations or panels of weights.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn of_each<B, const N: usize>(rows: [&[B]; N], b: usize) -> [&B; N] {
    let mut blocks = [&rows[0][b]; N];
    for n in 1..N {
        blocks[n] = &rows[n][b];
    }
    blocks
}

/// Loads four bytes of each of the 16 rows of a panel into two registers. The first register
/// contains rows 0 to 7, and the second register contains rows 8 to 15.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn halves(quads: &[Quad<u8>; ROWS]) -> [__m256i; 2] {
    let quads = quads.as_ptr().cast::<__m256i>();
    // SAFETY: `quads` is a reference to 16 groups of four bytes, so 64 bytes are readable.
    unsafe { [_mm256_loadu_si256(quads), _mm256_loadu_si256(quads.add(1))] }
}

/// Returns four activations as a 32-bit integer, which an instruction can copy to all lanes of a
/// register. Each byte is converted separately, because the compiler didn't always inline a call of
/// `map` on the array.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn word([a, b, c, d]: Quad<i8>) -> i32 {
    i32::from_ne_bytes([a as u8, b as u8, c as u8, d as u8])
}

/// The weights of a block, which consists of the 16 rows of a panel and [`BLOCK`] columns.
pub(crate) trait WeightBlock: Copy + Send + Sync {
    const ZEROS: Self;

    /// Rounds one row of a weight matrix and stores it in the blocks of a panel. `row` is the index
    /// of the row within the panel. Returns the factor by which the dot products of this row must
    /// be multiplied. The factor is the scale of the row for int8 weights, and 1 for int4 weights,
    /// which store their scales in the blocks.
    fn set_row(blocks: &mut [Self], row: usize, weights: &[f32]) -> f32;

    /// Returns the stored weight in the given row and column. The caller must multiply it by the
    /// factor that [`set_row`](Self::set_row) returned for the row.
    fn weight(&self, row: usize, column: usize) -> f32;

    /// Returns the dot products of a row of activations and each of the 16 rows of a panel. The
    /// versions for specific instruction sets must return the same bits as this portable version.
    fn dots_plain(x: &[ActivationBlock], w: &[Self]) -> [f32; ROWS];

    /// Returns the dot products of `R` rows of activations and all rows of `T` panels, computed
    /// with AVX2.
    ///
    /// # Safety
    ///
    /// The CPU must support the instruction sets that [`has_avx2`] checks for.
    #[cfg(target_arch = "x86_64")]
    unsafe fn dots_avx2<const R: usize, const T: usize>(
        x: [&[ActivationBlock]; R],
        w: [&[Self]; T],
    ) -> Dots<R, T>;

    /// Returns the dot products of `R` rows of activations and all rows of `T` panels, computed
    /// with AVX-512 VNNI.
    ///
    /// # Safety
    ///
    /// The CPU must have AVX-512F and AVX512-VNNI.
    #[cfg(target_arch = "x86_64")]
    unsafe fn dots_vnni<const R: usize, const T: usize>(
        x: [&[ActivationBlock]; R],
        w: [&[Self]; T],
    ) -> Dots<R, T>;
}

/// Returns the dot products of `R` rows of activations and all rows of `T` panels, computed with
/// the fastest instruction set that the CPU supports. All rows and panels must have the same number
/// of blocks.
pub(crate) fn dots<B: WeightBlock, const R: usize, const T: usize>(
    x: [&[ActivationBlock]; R],
    w: [&[B]; T],
) -> Dots<R, T> {
    debug_assert!(w.iter().all(|w| w.len() == x[0].len()));
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni") {
            // SAFETY: The condition ensures that the CPU supports AVX-512F and AVX512-VNNI.
            return unsafe { B::dots_vnni(x, w) };
        }
        if has_avx2() {
            // SAFETY: [`has_avx2`] has returned `true`, so the CPU supports AVX2 and the related
            // instruction sets that `dots_avx2` requires.
            return unsafe { B::dots_avx2(x, w) };
        }
    }
    x.map(|x| w.map(|w| B::dots_plain(x, w)))
}

/// Weights of the shape (outputs, inputs) in panels of 16 rows.
#[derive(Clone, PartialEq)]
pub struct Panels<B> {
    /// Blocks of weights of all panels in row-major order: first all blocks of the first panel,
    /// from left to right, then those of the second panel, and so on. There are (outputs / 16)
    /// panels of (inputs / 64) blocks each, where both quotients are rounded up.
    blocks: Vec<B>,
    /// Factors by which the dot products of activations and weights are multiplied, one for each
    /// row of the weight matrix. For int8 weights, the factor is the scale of the row. For int4
    /// weights, it is 1.
    scales: Vec<f32>,
}

impl<B: WeightBlock> Format for Panels<B> {
    fn with_room((outputs, inputs): (usize, usize)) -> Self {
        Self {
            blocks: room(outputs.div_ceil(ROWS) * inputs.div_ceil(BLOCK)),
            scales: Vec::with_capacity(outputs),
        }
    }

    fn push_rows(&mut self, rows: &ArrayRef2<f32>) {
        let n = rows.ncols().div_ceil(BLOCK);
        let weights = rows.as_standard_layout();
        let values = weights.as_slice().expect("standard layout is contiguous");
        let (panels, before) = (self.blocks.len(), self.scales.len());
        let new = rows.nrows().div_ceil(ROWS) * n;
        self.blocks.resize(panels + new, B::ZEROS);
        self.scales.resize(before + rows.nrows(), 0.0);
        (self.blocks[panels..].par_chunks_mut(n.max(1)))
            .zip(self.scales[before..].par_chunks_mut(ROWS))
            .zip(values.par_chunks(ROWS * rows.ncols().max(1)))
            .for_each(|((blocks, scales), values)| {
                let values = values.chunks(rows.ncols()).enumerate();
                for ((row, weights), scale) in values.zip(scales) {
                    *scale = B::set_row(blocks, row, weights);
                }
            });
    }

    fn read_row(&self, row: usize, out: &mut [f32]) {
        let panel = row / ROWS * out.len().div_ceil(BLOCK);
        for (block, out) in self.blocks[panel..].iter().zip(out.chunks_mut(BLOCK)) {
            for (column, out) in out.iter_mut().enumerate() {
                *out = block.weight(row % ROWS, column) * self.scales[row];
            }
        }
    }

    fn bytes((outputs, inputs): (usize, usize)) -> usize {
        let blocks = outputs
            .div_ceil(ROWS)
            .saturating_mul(inputs.div_ceil(BLOCK));
        let scales = outputs.saturating_mul(size_of::<f32>());
        blocks.saturating_mul(size_of::<B>()).saturating_add(scales)
    }

    fn matmul_rows(&self, x: &ArrayRef2<f32>, out: ArrayViewMut2<f32>) {
        match prefetch::panels_side_by_side() {
            true => self.matmul::<STREAMS>(x, out),
            false => self.matmul::<1>(x, out),
        }
    }
}

#[expect(private_bounds, reason = "the formats are private to this crate")]
impl<B: WeightBlock> Panels<B> {
    /// Computes `out = x W^T`, where `W` is this matrix, `x` has the shape (rows, inputs) and `out`
    /// has the shape (rows, outputs). If `x` has a single row, each thread multiplies it by `T`
    /// panels at the same time.
    ///
    /// The result for a row of `x` has the same bits regardless of the other rows of `x`.
    fn matmul<const T: usize>(&self, x: &ArrayRef2<f32>, mut out: ArrayViewMut2<f32>) {
        if out.ncols() > 1 && out.strides()[1] != 1 {
            let mut y = Array2::zeros(out.dim());
            self.matmul::<T>(x, y.view_mut());
            return out.assign(&y);
        }
        let bytes = x.ncols().div_ceil(BLOCK) * size_of::<B>();
        let x = x.as_standard_layout();
        let rows = x.as_slice().expect("standard layout is contiguous");
        let rows = rows.par_chunks(x.ncols()).with_min_len(ROWS_AT_ONCE);
        let x: Vec<_> = rows.map(activations::blocks).collect();

        for_each(cut_columns(out, T * ROWS, T * bytes), |(first, mut out)| {
            let first = first / ROWS;
            let rows = out.outer_iter_mut();
            let mut out: Vec<_> = rows
                .map(|row| row.into_slice().expect("rows are contiguous"))
                .collect();
            match (&x[..], &mut out[..]) {
                ([x], [out]) => self.row_by_panels::<T>(x, first, out),
                (x, out) => {
                    for (x, out) in x.chunks(ROWS_PER_CHUNK).zip(out.chunks_mut(ROWS_PER_CHUNK)) {
                        self.rows_by_panels(x, first, out);
                    }
                }
            }
        });
    }

    /// Multiplies a row of activations by consecutive panels, the first of which has the index
    /// `first`. The panels are divided into `T` parts of equal size, so that each step can multiply
    /// the row by one panel of each part. The remaining panels are multiplied one at a time.
    fn row_by_panels<const T: usize>(&self, x: &[ActivationBlock], first: usize, out: &mut [f32]) {
        let count = out.len().div_ceil(ROWS);
        let part = count / T;
        for i in 0..part {
            let panels: [_; T] = std::array::from_fn(|t| t * part + i);
            let [dots] = self.dots([x], panels.map(|panel| first + panel));
            for (panel, dots) in panels.into_iter().zip(&dots) {
                write(dots, &mut out[panel * ROWS..]);
            }
        }
        for panel in T * part..count {
            let [[dots]] = self.dots([x], [first + panel]);
            write(&dots, &mut out[panel * ROWS..]);
        }
    }

    /// Multiplies several rows of activations by consecutive panels, the first of which has the
    /// index `first`. Each panel is multiplied by all rows before the next panel is read.
    fn rows_by_panels(&self, x: &[Vec<ActivationBlock>], first: usize, out: &mut [&mut [f32]]) {
        for (i, column) in (0..out[0].len()).step_by(ROWS).enumerate() {
            let panel = [first + i];
            for (x, out) in x.chunks(ROWS_AT_ONCE).zip(out.chunks_mut(ROWS_AT_ONCE)) {
                if let [a, b, c, d] = x {
                    let dots = self.dots([a, b, c, d], panel);
                    for ([dots], out) in dots.iter().zip(out) {
                        write(dots, &mut out[column..]);
                    }
                } else {
                    for (x, out) in x.iter().zip(out) {
                        let [[dots]] = self.dots([x], panel);
                        write(&dots, &mut out[column..]);
                    }
                }
            }
        }
    }

    /// Returns the dot products of `R` rows of activations and all rows of the given panels,
    /// multiplied by the factors in `self.scales`.
    fn dots<const R: usize, const T: usize>(
        &self,
        x: [&[ActivationBlock]; R],
        panels: [usize; T],
    ) -> Dots<R, T> {
        let n = x[0].len();
        let mut y = dots(x, panels.map(|panel| &self.blocks[panel * n..][..n]));
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

/// Copies the dot products of a row of activations and a panel to the beginning of `out`. The last
/// panel of a matrix may be padded, so `out` may be shorter than `dots`. In this case, the dot
/// products of the padding are ignored.
fn write(dots: &[f32], out: &mut [f32]) {
    out.iter_mut().zip(dots).for_each(|(out, dot)| *out = *dot);
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::decoding::int4;
    use crate::decoding::int8;

    /// Checks for various numbers of blocks that all versions of the dot products return the same
    /// bits as the portable version. `block(panel, b)` must return the block with the index `b` of
    /// a panel.
    pub(crate) fn check_forms<B: WeightBlock>(block: impl Fn(usize, usize) -> B) {
        for blocks in [1, 2, 12, 48] {
            let x: [_; 4] = std::array::from_fn(|r| {
                let x: Vec<f32> = (0..blocks * BLOCK)
                    .map(|i| (((i + 9 * r) * 37 % 101) as f32 - 50.0) * (1.0 + i as f32 / 90.0))
                    .collect();
                activations::blocks(&x)
            });
            let w: [Vec<B>; 4] =
                std::array::from_fn(|panel| (0..blocks).map(|b| block(panel, b)).collect());
            let (x, w) = (x.each_ref().map(|x| &x[..]), w.each_ref().map(|w| &w[..]));
            let expected = x.map(|x| w.map(|w| B::dots_plain(x, w)));
            assert_eq!(dots(x, w), expected, "four rows, {blocks} blocks");
            let alone = x.map(|x| dots([x], w)[0]);
            assert_eq!(alone, expected, "a row by four panels, {blocks} blocks");
            let alone = x.map(|x| w.map(|w| dots([x], [w])[0][0]));
            assert_eq!(alone, expected, "a row, {blocks} blocks");
            #[cfg(target_arch = "x86_64")]
            if has_avx2() {
                // SAFETY: [`has_avx2`] has returned `true`, so the CPU supports AVX2 and the
                // related instruction sets that `dots_avx2` requires.
                let avx2 = unsafe { B::dots_avx2(x, w) };
                assert_eq!(avx2, expected, "AVX2, {blocks} blocks");
            }
        }
    }

    #[test]
    fn several_panels_at_once_give_the_bits_of_one() {
        fn check<B: WeightBlock>() {
            let numbers = |step| move |(i, j)| ((i * 5 + j * step) % 97) as f32 / 48.0 - 1.0;
            let x = Array2::from_shape_fn((1, 130), numbers(7));
            for outputs in [5, 64, 200] {
                let w = Array2::from_shape_fn((outputs, 130), numbers(11));
                let mut panels = Panels::<B>::with_room(w.dim());
                panels.push_rows(&w);
                let w = panels;
                let [mut y, mut expected] =
                    [f32::NAN; 2].map(|y| Array2::from_elem((1, outputs), y));
                w.matmul::<4>(&x, y.view_mut());
                w.matmul::<1>(&x, expected.view_mut());
                assert_eq!(y, expected, "{outputs} outputs");
            }
        }
        check::<int8::Block>();
        check::<int4::Block>();
    }
}
