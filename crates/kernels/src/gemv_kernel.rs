//! The dot products of a few rows with rows of weights: the loop that a product of a few rows spends its time in.
//!
//! It adds in 32 lanes, whose order is the same for any number of rows of `x`, threads and instruction sets.

use multiversion::{multiversion, target::target_cfg_f};

use crate::reduce::sum_of_lanes;
use crate::weight::Weight;
#[cfg(target_arch = "x86_64")]
use crate::{prefetch, weight::has_avx2};

const LANES: usize = 32;

/// `y[i * stride + r] += dot(x[r], w[i])` for R rows, on this thread.
pub(crate) fn block<W: Weight, const R: usize>(
    x: [&[f32]; R],
    w: &[W],
    y: &mut [f32],
    stride: usize,
) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the CPU has the instructions.
        return unsafe {
            x86::block::<x86::Avx512, _, _>(x, w, y, stride, prefetch::side_by_side())
        };
    }
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the CPU has the instructions.
        return unsafe { x86::block::<x86::Avx2, _, _>(x, w, y, stride, prefetch::side_by_side()) };
    }
    block_plain(x, w, y, stride);
}

/// What the versions by hand are tested against, and what runs without their instructions.
#[multiversion(targets("x86_64+avx2+fma"))]
fn block_plain<W: Weight, const R: usize>(x: [&[f32]; R], w: &[W], y: &mut [f32], stride: usize) {
    let fused = cfg!(target_arch = "aarch64") || target_cfg_f!(target_feature = "fma");
    let n = x[0].len();
    let whole = n - n % LANES;
    for (w, y) in w.chunks_exact(n).zip(y.chunks_mut(stride)) {
        let mut lanes = [[0.0f32; LANES]; R];
        for (c, w) in w.as_chunks::<LANES>().0.iter().enumerate() {
            for r in 0..R {
                let x = &x[r][c * LANES..(c + 1) * LANES];
                for i in 0..LANES {
                    lanes[r][i] = if fused {
                        x[i].mul_add(w[i].value(), lanes[r][i])
                    } else {
                        x[i] * w[i].value() + lanes[r][i]
                    };
                }
            }
        }
        for r in 0..R {
            y[r] += sum_of_lanes(lanes[r]) + rest(&x[r][whole..], &w[whole..]);
        }
    }
}

/// The elements after the last whole chunk, in order.
#[inline(always)]
fn rest<W: Weight>(x: &[f32], w: &[W]) -> f32 {
    x.iter().zip(w).fold(0.0, |sum, (x, w)| sum + x * w.value())
}

/// By hand, as the compiler does not keep all lanes in registers from one end of a row to the other; one text for both instruction sets, which differ in the length of their registers.
#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::{__m256, __m512};
    use std::ops::Range;

    use super::{LANES, Weight, rest};
    use crate::prefetch::{self, STREAMS};
    use crate::register::Widening;

    /// Columns of rows whose halves of lanes are taken one after the other: the first cache has the lines that both share.
    const PIECE: usize = 8 * LANES;

    /// The loop for one instruction set.
    pub(super) trait Kernel {
        /// How many bytes ahead of its reading each of several rows is asked for; the processor fetches further ahead by itself
        const NEAR: usize;

        /// The dot products of R rows of `x` with S rows of weights, which are asked for `ahead` of their reading.
        ///
        /// # Safety
        /// All rows must have one length, and the CPU the instructions.
        unsafe fn dots<W: Weight, const R: usize, const S: usize>(
            x: [&[f32]; R],
            w: [&[W]; S],
            ahead: usize,
        ) -> [[f32; S]; R];
    }

    pub(super) struct Avx512;

    impl Kernel for Avx512 {
        const NEAR: usize = 256; // measured on Zen 4

        #[target_feature(enable = "avx512f")]
        unsafe fn dots<W: Weight, const R: usize, const S: usize>(
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

    impl Kernel for Avx2 {
        const NEAR: usize = 512; // measured on Zen 3

        #[target_feature(enable = "avx2,fma,f16c")]
        unsafe fn dots<W: Weight, const R: usize, const S: usize>(
            x: [&[f32]; R],
            w: [&[W]; S],
            ahead: usize,
        ) -> [[f32; S]; R] {
            // SAFETY: the caller's promise.
            unsafe { some_at_once::<__m256, { LANES / 8 }, W, R, S, 1>(x, w, ahead) }
        }
    }

    /// As [`super::block`]; weights are read `side_by_side` or in order.
    ///
    /// # Safety
    /// The CPU must have the instructions.
    pub(super) unsafe fn block<K: Kernel, W: Weight, const R: usize>(
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

    /// For S rows of weights at a time, each from another part of `w`, but for the last rows if they are no multiple of S; how many were done.
    ///
    /// # Safety
    /// As [`block`].
    pub(super) unsafe fn rows<K: Kernel, W: Weight, const R: usize, const S: usize>(
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

    /// T rows of `x` after the other, as many as there are registers for; the first cache keeps the weights that all meet.
    ///
    /// # Safety
    /// As [`Kernel::dots`].
    #[inline(always)]
    unsafe fn some_at_once<
        V: Widening,
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
    unsafe fn at_once<V: Widening, const K: usize, W: Weight, const R: usize, const S: usize>(
        x: [&[f32]; R],
        w: [&[W]; S],
        ahead: usize,
    ) -> [[f32; S]; R] {
        let whole = x[0].len() - x[0].len() % LANES;
        // SAFETY: `whole` is at most the length of each row of `x` and of weights; and the caller's promise.
        unsafe {
            let mut sums = [[[V::splat(0.0); S]; R]; K];
            if V::LANES == 8 && S == STREAMS && size_of::<W>() == 2 {
                // The sums and what is widened need more registers than there are with AVX2: the lanes' halves one after the other.
                for first in (0..whole).step_by(PIECE) {
                    let piece = first..whole.min(first + PIECE);
                    for (half, sums) in sums.as_chunks_mut::<2>().0.iter_mut().enumerate() {
                        let asked = half * S / 2..(half + 1) * S / 2;
                        add_products(x, w, (piece.clone(), half), (asked, ahead), sums);
                    }
                }
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

    /// Adds the products of some columns to the `part`th K of the registers that make [`LANES`], and asks for some of the rows of weights.
    ///
    /// # Safety
    /// As [`Kernel::dots`]; the columns must be whole chunks of [`LANES`].
    #[inline(always)]
    unsafe fn add_products<
        V: Widening,
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
            for w in if ahead > 0 { &w[asked.clone()] } else { &[] } {
                for line in (0..LANES).step_by(64 / size_of::<W>()) {
                    let w = w.as_ptr().wrapping_add(at + line);
                    match S {
                        1 => prefetch::stream(w, ahead),
                        _ => prefetch::line(w, ahead),
                    }
                }
            }
            for (k, own) in own.iter_mut().enumerate() {
                let at = at + (part * K + k) * V::LANES;
                for r in 0..R {
                    // SAFETY: a chunk ends within each row of `x` and of weights; and the caller's promise.
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
    unsafe fn sum<V: Widening, const K: usize>(sums: [V; K]) -> f32 {
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
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn numbers(count: usize, step: usize, modulus: usize) -> Vec<f32> {
        (0..count)
            .map(|i| (i * step % modulus) as f32 / modulus as f32 - 0.5)
            .collect()
    }

    /// # Safety
    /// The CPU must have the instructions.
    #[cfg(target_arch = "x86_64")]
    unsafe fn check<K: x86::Kernel, W: Weight>(x: [&[f32]; 2], w: &[W], expected: &[f32]) {
        let (n, m) = (x[0].len(), expected.len() / 2);
        for side_by_side in [false, true] {
            let mut y = vec![0.5; 2 * m];
            // SAFETY: the caller's promise.
            unsafe { x86::block::<K, _, _>(x, w, &mut y, 2, side_by_side) };
            assert_eq!(y, expected, "{n} x {m}, {side_by_side}");
        }
        let mut y = vec![0.5; 2 * m];
        // SAFETY: as above.
        let done = unsafe { x86::rows::<K, _, 2, 4>(x, w, &mut y, 2, K::NEAR) };
        assert_eq!(done, m / 4 * 4);
        let (y, untouched) = y.split_at(2 * done);
        assert_eq!(y, &expected[..2 * done], "side by side, {n} x {m}");
        assert!(untouched.iter().all(|&y| y == 0.5), "{n} x {m}");
    }

    #[test]
    fn every_instruction_set_gives_the_bits_of_the_plain_loop() {
        fn check_all<W: Weight>() {
            for (n, m) in [(1, 1), (63, 3), (64, 2), (200, 40), (768, 9), (1000, 13)] {
                let (x, w) = (numbers(2 * n, 13, 31), numbers(n * m, 7, 29));
                let w: Vec<W> = w.into_iter().map(W::nearest).collect();
                let rows = [&x[..n], &x[n..]];
                let (mut y, mut expected) = (vec![0.5; 2 * m], vec![0.5; 2 * m]);
                block(rows, &w, &mut y, 2);
                block_plain(rows, &w, &mut expected, 2);
                assert_eq!(y, expected, "{n} x {m}");
                #[cfg(target_arch = "x86_64")]
                if has_avx2() {
                    // SAFETY: the CPU has the instructions.
                    unsafe { check::<x86::Avx2, W>(rows, &w, &expected) };
                }
                #[cfg(target_arch = "x86_64")]
                if is_x86_feature_detected!("avx512f") {
                    // SAFETY: as above.
                    unsafe { check::<x86::Avx512, W>(rows, &w, &expected) };
                }
            }
        }
        check_all::<f32>();
        check_all::<half::bf16>();
        check_all::<half::f16>();
    }
}
