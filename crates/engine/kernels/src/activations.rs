//! Activations in 8 bits, for products with weights of 8 or 4 bits, and how such weights lie in memory.
//!
//! 16 rows of weights are interleaved, four columns of each row after the other, as AVX-512 VNNI's `vpdpbusd` multiplies 16 times four bytes and adds each four products to a lane: a lane is a row, and nothing is left to be summed across lanes.

use multiversion::multiversion;
use ndarray::{Array2, ArrayRef2, ArrayViewMut2, Axis};
use rayon::prelude::*;

use crate::gemv::{cut, for_each};
use crate::math::ROUND;
use crate::prefetch::{self, STREAMS};

/// Columns that share a scale of activations; rows of weights are padded to a multiple of it.
pub(crate) const BLOCK: usize = 64;
/// Columns whose activations' sum is known.
pub(crate) const GROUP: usize = 32;
/// Rows of weights that are interleaved; the last ones may be missing, and are zeros then.
pub(crate) const ROWS: usize = 16;
/// Rows of activations that share a reading of weights.
const TOGETHER: usize = 4;
/// Rows of activations that stay in the second cache while one panel after the other meets them.
const CHUNK: usize = 64;
/// Below this a block's largest number counts as 0: its inverse would overflow.
const TINY: f32 = 1e-30;

/// Four columns, as they are multiplied at once.
pub(crate) type Quad<T> = [T; 4];

/// Four activations as a vector instruction takes them; spelled out, as an array's `map` remained a call in the loops of some programs.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn word([a, b, c, d]: Quad<i8>) -> i32 {
    i32::from_ne_bytes([a as u8, b as u8, c as u8, d as u8])
}

/// One row of activations, in blocks of 64 columns, with zeros behind its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Activations {
    pub(crate) blocks: Vec<ActivationBlock>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ActivationBlock {
    pub(crate) quads: [Quad<i8>; BLOCK / 4],
    /// value = scale * byte
    pub(crate) scale: f32,
    /// Of each group's bytes: what takes off again the number that is added to each stored weight.
    pub(crate) sums: [i32; BLOCK / GROUP],
}

/// The dot products of R rows of activations with the rows of T panels.
pub(crate) type Dots<const R: usize, const T: usize> = [[[f32; ROWS]; T]; R];

/// Block `b` of each row.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn blocks<const R: usize>(x: [&Activations; R], b: usize) -> [&ActivationBlock; R] {
    let mut blocks = [&x[0].blocks[b]; R];
    for r in 1..R {
        blocks[r] = &x[r].blocks[b];
    }
    blocks
}

/// Block `b` of each panel.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn panels<B, const T: usize>(w: [&[B]; T], b: usize) -> [&B; T] {
    let mut blocks = [&w[0][b]; T];
    for t in 1..T {
        blocks[t] = &w[t][b];
    }
    blocks
}

/// Weights (outputs, inputs) in panels of [`ROWS`] rows.
pub(crate) trait Panels: Sync {
    /// The dot products of R rows of activations with the rows of T panels.
    fn dots<const R: usize, const T: usize>(
        &self,
        x: [&Activations; R],
        panels: [usize; T],
    ) -> Dots<R, T>;
}

/// `out = x W^T` (rows, outputs) for `x` (rows, inputs); a panel has `bytes`.
///
/// A row of `out` has the same bits alone and among others.
pub(crate) fn matmul<W: Panels>(x: &ArrayRef2<f32>, w: &W, bytes: usize, out: ArrayViewMut2<f32>) {
    match prefetch::panels_side_by_side() {
        true => matmul_by::<W, STREAMS>(x, w, bytes, out),
        false => matmul_by::<W, 1>(x, w, bytes, out),
    }
}

/// As [`matmul`]; a single row of `x` meets T panels at once.
pub(crate) fn matmul_by<W: Panels, const T: usize>(
    x: &ArrayRef2<f32>,
    w: &W,
    bytes: usize,
    mut out: ArrayViewMut2<f32>,
) {
    if out.ncols() > 1 && out.strides()[1] != 1 {
        let mut y = Array2::zeros(out.dim());
        matmul_by::<W, T>(x, w, bytes, y.view_mut());
        return out.assign(&y);
    }
    let x = x.as_standard_layout();
    let rows = x.as_slice().expect("standard layout is contiguous");
    let rows = rows.par_chunks(x.ncols()).with_min_len(TOGETHER);
    let x: Vec<_> = rows.map(Activations::quantise).collect();

    let mut tasks = Vec::new();
    for outputs in cut(out.ncols(), T * ROWS, T * bytes) {
        let (part, rest) = out.split_at(Axis(1), outputs.len());
        out = rest;
        tasks.push((outputs.start / ROWS, part));
    }
    for_each(tasks, |(first, mut out)| {
        let rows = out.outer_iter_mut();
        let mut out: Vec<_> = rows
            .map(|row| row.into_slice().expect("rows are contiguous"))
            .collect();
        match (&x[..], &mut out[..]) {
            ([x], [out]) => row_by_panels::<W, T>(x, w, first, out),
            (x, out) => {
                for (x, out) in x.chunks(CHUNK).zip(out.chunks_mut(CHUNK)) {
                    rows_by_panels(x, w, first, out);
                }
            }
        }
    });
}

/// The products of a row of activations with the panels from `first` on, T at a time, each from another part of them.
fn row_by_panels<W: Panels, const T: usize>(x: &Activations, w: &W, first: usize, out: &mut [f32]) {
    let count = out.len().div_ceil(ROWS);
    let part = count / T;
    for i in 0..part {
        let panels: [_; T] = std::array::from_fn(|t| t * part + i);
        let [dots] = w.dots([x], panels.map(|panel| first + panel));
        for (panel, dots) in panels.into_iter().zip(&dots) {
            write(dots, &mut out[panel * ROWS..]);
        }
    }
    for panel in T * part..count {
        let [[dots]] = w.dots([x], [first + panel]);
        write(&dots, &mut out[panel * ROWS..]);
    }
}

/// The products of rows of activations with the panels from `first` on; each panel meets all rows before the next one does.
fn rows_by_panels<W: Panels>(x: &[Activations], w: &W, first: usize, out: &mut [&mut [f32]]) {
    for (i, column) in (0..out[0].len()).step_by(ROWS).enumerate() {
        let panel = [first + i];
        for (x, out) in x.chunks(TOGETHER).zip(out.chunks_mut(TOGETHER)) {
            if let [a, b, c, d] = x {
                let dots = w.dots([a, b, c, d], panel);
                for ([dots], out) in dots.iter().zip(out) {
                    write(dots, &mut out[column..]);
                }
            } else {
                for (x, out) in x.iter().zip(out) {
                    let [[dots]] = w.dots([x], panel);
                    write(&dots, &mut out[column..]);
                }
            }
        }
    }
}

/// Writes as many numbers as both have.
fn write(dots: &[f32], out: &mut [f32]) {
    out.iter_mut().zip(dots).for_each(|(out, dot)| *out = *dot);
}

impl Activations {
    /// Rounds each block to multiples of its largest magnitude / 127.
    pub(crate) fn quantise(x: &[f32]) -> Self {
        let of_block = |x: &[f32]| {
            let mut bytes = [0; BLOCK];
            let scale = quantise(x, &mut bytes);
            let sum = |group: &[i8; GROUP]| group.iter().map(|&x| i32::from(x)).sum();
            let (quads, _) = bytes.as_chunks();
            let (groups, _) = bytes.as_chunks();
            ActivationBlock {
                quads: std::array::from_fn(|q| quads[q]),
                scale,
                sums: std::array::from_fn(|g| sum(&groups[g])),
            }
        };
        let blocks = x.chunks(BLOCK).map(of_block).collect();
        Self { blocks }
    }
}

/// Writes `x / scale` to the first bytes of `out` and returns `scale = max |x| / 127`; NaN or an infinity in `x` gives a scale that is not finite.
#[multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
pub(crate) fn quantise(x: &[f32], out: &mut [i8]) -> f32 {
    // As bits, whose order is that of the magnitudes, with NaN above all: such a maximum vectorises; from 0, as `max` would take the first number apart.
    let magnitudes = x.iter().map(|x| x.abs().to_bits());
    let largest = f32::from_bits(magnitudes.fold(0, u32::max));
    // Written so that NaN is not taken for tiny.
    if largest < TINY {
        out.fill(0);
        return 0.0;
    }
    let inverse = 127.0 / largest;
    for (out, x) in out.iter_mut().zip(x) {
        *out = (x * inverse + ROUND).to_bits() as i8; // the lowest bits of such a sum
    }
    largest / 127.0
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A name, and the dot products of four rows with four panels.
    pub(crate) type Form<B> = (&'static str, fn([&Activations; 4], [&[B]; 4]) -> Dots<4, 4>);

    /// That all forms give the bits of the plain one, for some numbers of blocks, `block(panel, b)` being the one at `b`.
    pub(crate) fn check_forms<B>(
        plain: Form<B>,
        forms: &[Form<B>],
        block: impl Fn(usize, usize) -> B,
    ) {
        for blocks in [1, 2, 12, 48] {
            let x: [_; 4] = std::array::from_fn(|r| {
                let x: Vec<f32> = (0..blocks * BLOCK)
                    .map(|i| (((i + 9 * r) * 37 % 101) as f32 - 50.0) * (1.0 + i as f32 / 90.0))
                    .collect();
                Activations::quantise(&x)
            });
            let w: [Vec<B>; 4] =
                std::array::from_fn(|panel| (0..blocks).map(|b| block(panel, b)).collect());
            let (x, w) = (x.each_ref(), w.each_ref().map(|w| &w[..]));
            let expected = plain.1(x, w);
            for (name, form) in forms {
                assert_eq!(form(x, w), expected, "{name}, {blocks} blocks");
            }
        }
    }

    #[test]
    fn quantised_numbers_are_within_half_a_step() {
        let x: Vec<f32> = (0..BLOCK).map(|i| (i as f32 - 20.3) * 0.37).collect();
        let mut bytes = [0; BLOCK];
        let scale = quantise(&x, &mut bytes);
        for (x, byte) in x.iter().zip(bytes) {
            assert!(
                (x - scale * f32::from(byte)).abs() <= scale * 0.500_01,
                "{x}"
            );
        }
        assert_eq!(quantise(&[0.0; 4], &mut bytes), 0.0);
        assert_eq!(quantise(&[1e-40; 4], &mut bytes), 0.0);
        assert!(!quantise(&[1.0, f32::NAN], &mut bytes).is_finite());
    }
}
