//! The dot products of [`super::block`] with AVX-512 and AVX2, in intrinsics: of a plain loop the
//! compiler keeps its 32 sums in memory, where these stay in registers from one end of a row to the
//! other.
//!
//! One source for both instruction sets, in two shapes: one row of weights at a time, or four from
//! different places. The number of rows of `x` at once, and the number of registers for the 32
//! lanes, follow from the 32 or 16 registers:
//!
//! | instructions | rows of weights | rows of `x` | registers of lanes |
//! |---|---|---|---|
//! | AVX-512 | 1 | all | both |
//! | AVX-512 | 4 | 2 | both |
//! | AVX2 | 1, or 4 of f32 or f16 | 1 | all four |
//! | AVX2 | 4 of bf16, which takes registers to widen | 2 | one after the other |

use std::arch::x86_64::{__m256, __m512};
use std::ops::Range;

use super::{LANES, rest};
use crate::prefetch::{self, STREAMS};
use crate::register::{Summed, Widening};
use crate::weight::Weight;

/// Columns of rows, some of whose lanes are taken after the others: the first cache has the lines
/// that they share.
const PIECE: usize = 8 * LANES;

/// How many bytes ahead of its reading each of four rows is prefetched; the processor fetches
/// further ahead by itself. Measured on Zen 4, and on Zen 3.
const NEAR_512: usize = 256;
const NEAR_256: usize = 512;

/// [`super::block`] by vector instructions; weights are read `side_by_side` or in order.
///
/// # Safety
/// The CPU must have AVX-512 F.
#[target_feature(enable = "avx512f")]
pub(super) unsafe fn by_avx512<W: Weight, const R: usize>(
    x: [&[f32]; R],
    w: &[W],
    y: &mut [f32],
    stride: usize,
    side_by_side: bool,
) {
    const K: usize = LANES / 16;
    // SAFETY: the caller's promise.
    unsafe {
        let done = match side_by_side {
            true => rows::<__m512, K, W, STREAMS, 2>(&x, w, (&mut *y, stride), 0, NEAR_512),
            false => 0,
        };
        rows::<__m512, K, W, 1, R>(&x, w, (y, stride), done, prefetch::distance());
    }
}

/// [`by_avx512`] with AVX2.
///
/// # Safety
/// The CPU must have the instructions of [`has_avx2`](crate::weight::has_avx2).
#[target_feature(enable = "avx2,fma,f16c")]
pub(super) unsafe fn by_avx2<W: Weight, const R: usize>(
    x: [&[f32]; R],
    w: &[W],
    y: &mut [f32],
    stride: usize,
    side_by_side: bool,
) {
    const K: usize = LANES / 8;
    // SAFETY: the caller's promise.
    unsafe {
        let done = match (side_by_side, W::WIDENS_SLOWLY) {
            (true, true) => rows::<__m256, K, W, STREAMS, 2>(&x, w, (&mut *y, stride), 0, NEAR_256),
            (true, false) => {
                rows::<__m256, K, W, STREAMS, 1>(&x, w, (&mut *y, stride), 0, NEAR_256)
            }
            (false, _) => 0,
        };
        rows::<__m256, K, W, 1, 1>(&x, w, (y, stride), done, prefetch::distance());
    }
}

/// Processes S rows of weights at a time, each from another part of the rows after `done`; the last
/// rows remain if their number isn't a multiple of S. Returns the new `done`.
///
/// T rows of `x` meet them at once, and then the next T; the first cache keeps the weights.
///
/// # Safety
/// The CPU must have the instructions of V.
#[inline(always)]
unsafe fn rows<V: Widening<W>, const K: usize, W: Weight, const S: usize, const T: usize>(
    x: &[&[f32]],
    w: &[W],
    (y, stride): (&mut [f32], usize),
    done: usize,
    ahead: usize,
) -> usize {
    let n = x[0].len();
    let part = (w.len() / n - done) / S;
    let (groups, rest) = x.as_chunks::<T>();
    for i in 0..part {
        let (mut rows, mut outputs) = ([w; S], [0; S]);
        for s in 0..S {
            let row = done + s * part + i;
            (rows[s], outputs[s]) = (&w[row * n..][..n], row * stride);
        }
        let mut ahead = ahead;
        // SAFETY: the caller's promise.
        unsafe {
            for x in groups {
                add(dots::<V, K, W, S, T>(*x, rows, ahead), &mut outputs, y);
                ahead = 0;
            }
            for x in rest {
                add(dots::<V, K, W, S, 1>([x], rows, ahead), &mut outputs, y);
            }
        }
    }
    done + S * part
}

/// Adds the products to outputs, and advances to the next ones.
#[inline(always)]
fn add<const S: usize, const T: usize>(dots: [[f32; S]; T], at: &mut [usize; S], y: &mut [f32]) {
    for dots in dots {
        for s in 0..S {
            y[at[s]] += dots[s];
            at[s] += 1;
        }
    }
}

/// The dot products of T rows of `x` with S rows of weights, which are prefetched `ahead` bytes
/// early, in K registers V, which make [`LANES`].
///
/// # Safety
/// As [`rows`]; all rows must have one length.
#[inline(always)]
unsafe fn dots<V: Widening<W>, const K: usize, W: Weight, const S: usize, const T: usize>(
    x: [&[f32]; T],
    w: [&[W]; S],
    ahead: usize,
) -> [[f32; S]; T] {
    let whole = x[0].len() - x[0].len() % LANES;
    // SAFETY: `whole` is at most the length of each row of `x` and of weights; and the caller's
    // promise.
    unsafe {
        let mut sums = [[[V::splat(0.0); S]; T]; K];
        // AVX2's 16 registers are too few for all sums of four rows plus widening bf16.
        if V::LANES == 8 && S == STREAMS && W::WIDENS_SLOWLY {
            in_pieces(x, w, whole, ahead, &mut sums);
        } else {
            add_products(x, w, (0..whole, 0), (0..S, ahead), &mut sums);
        }
        let mut dots = [[0.0; S]; T];
        for r in 0..T {
            for s in 0..S {
                let mut lanes = [V::splat(0.0); K];
                for (lanes, sums) in lanes.iter_mut().zip(&sums) {
                    *lanes = sums[r][s];
                }
                dots[r][s] = sum(lanes) + rest(&x[r][whole..], &w[s][whole..]);
            }
        }
        dots
    }
}

/// As [`add_products`] of `whole` columns, in pieces, and of each piece one of the K registers of
/// lanes after the other.
///
/// # Safety
/// As [`dots`].
#[inline(always)]
unsafe fn in_pieces<V: Widening<W>, const K: usize, W: Weight, const S: usize, const T: usize>(
    x: [&[f32]; T],
    w: [&[W]; S],
    whole: usize,
    ahead: usize,
    sums: &mut [[[V; S]; T]; K],
) {
    for first in (0..whole).step_by(PIECE) {
        let piece = first..whole.min(first + PIECE);
        for (part, sums) in sums.as_chunks_mut::<1>().0.iter_mut().enumerate() {
            let asked = part * S / K..(part + 1) * S / K;
            // SAFETY: the caller's promise.
            unsafe { add_products(x, w, (piece.clone(), part), (asked, ahead), sums) };
        }
    }
}

/// Adds the products of some columns to the `part`th K of the registers that make [`LANES`], and
/// asks for some of the rows of weights.
///
/// # Safety
/// As [`dots`]; the columns must be whole chunks of [`LANES`].
#[inline(always)]
unsafe fn add_products<
    V: Widening<W>,
    const K: usize,
    W: Weight,
    const S: usize,
    const T: usize,
>(
    x: [&[f32]; T],
    w: [&[W]; S],
    (columns, part): (Range<usize>, usize),
    (asked, ahead): (Range<usize>, usize),
    sums: &mut [[[V; S]; T]; K],
) {
    let mut own = *sums; // in registers
    for at in columns.step_by(LANES) {
        if ahead > 0 {
            for w in &w[asked.clone()] {
                for line in (0..LANES).step_by(64 / size_of::<W>()) {
                    let w = w.as_ptr().wrapping_add(at + line);
                    match S {
                        1 => prefetch::stream(w, ahead),
                        _ => prefetch::line(w, ahead),
                    }
                }
            }
        }
        for (k, own) in own.iter_mut().enumerate() {
            let at = at + (part * K + k) * V::LANES;
            for r in 0..T {
                // SAFETY: a chunk ends within each row of `x` and of weights; and the caller's
                // promise.
                unsafe {
                    let x = V::load(x[r].as_ptr().add(at));
                    for s in 0..S {
                        let w = V::widen(w[s].as_ptr().add(at));
                        own[r][s] = own[r][s].add_product(x, w);
                    }
                }
            }
        }
    }
    *sums = own;
}

/// Joins the lanes in the order of the plain version.
///
/// # Safety
/// As [`dots`].
#[inline(always)]
unsafe fn sum<V: Summed, const K: usize>(mut sums: [V; K]) -> f32 {
    let mut half = K / 2;
    // SAFETY: the caller's promise.
    unsafe {
        while half > 0 {
            for k in 0..half {
                sums[k] = sums[k].plus(sums[half + k]);
            }
            half /= 2;
        }
        sums[0].sum()
    }
}
