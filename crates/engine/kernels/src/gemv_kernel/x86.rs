//! The dot products of [`super::block`] with AVX2 and AVX-512, in intrinsics: of a plain loop the
//! compiler keeps its 32 sums in memory, where these stay in registers from one end of a row to the
//! other.
//!
//! One text for both instruction sets, which differ in the length and the number of their
//! registers.

use std::arch::x86_64::{__m256, __m512};
use std::ops::Range;

use super::{LANES, rest};
use crate::prefetch::{self, STREAMS};
use crate::register::{Summed, Widening};
use crate::weight::Weight;

/// Columns of rows, some of whose lanes are taken after the others: the first cache has the lines
/// that they share.
const PIECE: usize = 8 * LANES;

/// The loop for one instruction set.
pub(super) trait Kernel<W> {
    /// How many bytes ahead of its reading each of several rows is asked for; the processor fetches
    /// further ahead by itself
    const NEAR: usize;

    /// The dot products of R rows of `x` with S rows of weights, which are asked for `ahead` of
    /// their reading.
    ///
    /// # Safety
    /// All rows must have one length, and the CPU the instructions.
    unsafe fn dots<const R: usize, const S: usize>(
        x: [&[f32]; R],
        w: [&[W]; S],
        ahead: usize,
    ) -> [[f32; S]; R];
}

pub(super) struct Avx512;

impl<W: Weight> Kernel<W> for Avx512 {
    const NEAR: usize = 256; // measured on Zen 4

    #[target_feature(enable = "avx512f")]
    unsafe fn dots<const R: usize, const S: usize>(
        x: [&[f32]; R],
        w: [&[W]; S],
        ahead: usize,
    ) -> [[f32; S]; R] {
        // SAFETY: the caller's promise.
        unsafe {
            match S {
                1 => some_at_once::<__m512, { LANES / 16 }, W, R, S, R>(x, w, ahead),
                _ => some_at_once::<__m512, { LANES / 16 }, W, R, S, 2>(x, w, ahead),
            }
        }
    }
}

pub(super) struct Avx2;

impl<W: Weight> Kernel<W> for Avx2 {
    const NEAR: usize = 512; // measured on Zen 3

    #[target_feature(enable = "avx2,fma,f16c")]
    unsafe fn dots<const R: usize, const S: usize>(
        x: [&[f32]; R],
        w: [&[W]; S],
        ahead: usize,
    ) -> [[f32; S]; R] {
        // SAFETY: the caller's promise.
        unsafe {
            match S {
                STREAMS if W::WIDENS_SLOWLY => {
                    some_at_once::<__m256, { LANES / 8 }, W, R, S, 2>(x, w, ahead)
                }
                _ => some_at_once::<__m256, { LANES / 8 }, W, R, S, 1>(x, w, ahead),
            }
        }
    }
}

/// As [`super::block`]; weights are read `side_by_side` or in order.
///
/// # Safety
/// The CPU must have the instructions.
pub(super) unsafe fn block<K: Kernel<W>, W: Weight, const R: usize>(
    x: [&[f32]; R],
    w: &[W],
    y: &mut [f32],
    stride: usize,
    side_by_side: bool,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let mut done = 0;
        if side_by_side {
            done = rows::<K, W, R, STREAMS>(x, w, y, stride, K::NEAR);
        }
        let w = &w[done * x[0].len()..];
        if !w.is_empty() {
            rows::<K, W, R, 1>(x, w, &mut y[done * stride..], stride, prefetch::distance());
        }
    }
}

/// For S rows of weights at a time, each from another part of `w`, but for the last rows if they
/// are no multiple of S; how many were done.
///
/// # Safety
/// As [`block`].
pub(super) unsafe fn rows<K: Kernel<W>, W: Weight, const R: usize, const S: usize>(
    x: [&[f32]; R],
    w: &[W],
    y: &mut [f32],
    stride: usize,
    ahead: usize,
) -> usize {
    let n = x[0].len();
    let part = w.len() / n / S;
    for i in 0..part {
        let mut rows = [w; S];
        for (s, row) in rows.iter_mut().enumerate() {
            *row = &w[(s * part + i) * n..][..n];
        }
        // SAFETY: the caller's promise.
        let dots = unsafe { K::dots(x, rows, ahead) };
        for (r, dots) in dots.into_iter().enumerate() {
            for (s, dot) in dots.into_iter().enumerate() {
                y[(s * part + i) * stride + r] += dot;
            }
        }
    }
    S * part
}

/// T rows of `x` after the other, as many as there are registers for; the first cache keeps the
/// weights that all meet.
///
/// # Safety
/// As [`Kernel::dots`].
#[inline(always)]
pub(super) unsafe fn some_at_once<
    V: Widening<W>,
    const K: usize,
    W: Weight,
    const R: usize,
    const S: usize,
    const T: usize,
>(
    x: [&[f32]; R],
    w: [&[W]; S],
    mut ahead: usize,
) -> [[f32; S]; R] {
    let mut dots = [[0.0; S]; R];
    let (groups, rest) = x.as_chunks::<T>();
    let (dots_of_groups, dots_of_rest) = dots.as_chunks_mut::<T>();
    // SAFETY: the caller's promise.
    unsafe {
        for (x, dots) in groups.iter().zip(dots_of_groups) {
            *dots = at_once::<V, K, W, T, S>(*x, w, ahead);
            ahead = 0;
        }
        for (x, dots) in rest.iter().zip(dots_of_rest) {
            [*dots] = at_once::<V, K, W, 1, S>([x], w, ahead);
        }
    }
    dots
}

/// In K registers V, which make [`LANES`].
///
/// # Safety
/// As [`Kernel::dots`].
#[inline(always)]
unsafe fn at_once<V: Widening<W>, const K: usize, W: Weight, const R: usize, const S: usize>(
    x: [&[f32]; R],
    w: [&[W]; S],
    ahead: usize,
) -> [[f32; S]; R] {
    let whole = x[0].len() - x[0].len() % LANES;
    // SAFETY: `whole` is at most the length of each row of `x` and of weights; and the caller's
    // promise.
    unsafe {
        let mut sums = [[[V::splat(0.0); S]; R]; K];
        // AVX2's 16 registers are too few for all sums of four rows and what it takes to widen
        // bf16.
        if V::LANES == 8 && S == STREAMS && W::WIDENS_SLOWLY {
            in_pieces(x, w, whole, ahead, &mut sums);
        } else {
            add_products(x, w, (0..whole, 0), (0..S, ahead), &mut sums);
        }
        let mut dots = [[0.0; S]; R];
        for r in 0..R {
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
/// As [`Kernel::dots`].
#[inline(always)]
unsafe fn in_pieces<V: Widening<W>, const K: usize, W: Weight, const R: usize, const S: usize>(
    x: [&[f32]; R],
    w: [&[W]; S],
    whole: usize,
    ahead: usize,
    sums: &mut [[[V; S]; R]; K],
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
/// As [`Kernel::dots`]; the columns must be whole chunks of [`LANES`].
#[inline(always)]
unsafe fn add_products<
    V: Widening<W>,
    const K: usize,
    W: Weight,
    const R: usize,
    const S: usize,
>(
    x: [&[f32]; R],
    w: [&[W]; S],
    (columns, part): (Range<usize>, usize),
    (asked, ahead): (Range<usize>, usize),
    sums: &mut [[[V; S]; R]; K],
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
            for r in 0..R {
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
/// As [`Kernel::dots`].
#[inline(always)]
unsafe fn sum<V: Summed, const K: usize>(sums: [V; K]) -> f32 {
    let mut sums = &mut { sums }[..];
    while sums.len() > 1 {
        let (low, high) = sums.split_at_mut(sums.len() / 2);
        for (low, high) in low.iter_mut().zip(high) {
            // SAFETY: the caller's promise.
            *low = unsafe { low.plus(*high) };
        }
        sums = low;
    }
    // SAFETY: as above.
    unsafe { sums[0].sum() }
}
