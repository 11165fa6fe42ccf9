//! f16 widened in pairs by instructions for integers, where those that convert are slow.
//!
//! Exponent and mantissa of f16, moved to where f32 has them, are the value over 2^112, whose exponents have another bias; for numbers below the normal ones too.
//! So a row of activations comes times 2^112, and with the even places of each 16 numbers before the odd ones, as no weight moves to another lane.
//! Both are exact: the bits are those of the other loops.

use std::arch::x86_64::*;

use half::f16;
use multiversion::multiversion;

use super::LANES;
use super::x86::{self, Kernel, some_at_once};
use crate::prefetch;
use crate::register::{Register, Summed, Widening, halved, sum_of_four};
use crate::weight::{converts_slowly, has_avx2};

/// 2^112: the exponents' biases are 127 and 15.
const SCALE: f32 = f32::from_bits((127 + 127 - 15) << 23);

/// A row of activations for weights in pairs.
pub(crate) struct Row(Vec<f32>);

impl Row {
    /// None where other loops are faster, or where a number times [`SCALE`] is not finite.
    pub(crate) fn new(x: &[f32]) -> Option<Self> {
        let faster = !x.is_empty() && has_avx2() && converts_slowly();
        if faster { in_pairs(x).map(Self) } else { None }
    }

    /// As [`super::block`], for this row and finite weights.
    pub(crate) fn block(&self, w: &[f16], y: &mut [f32]) {
        // SAFETY: the CPU has the instructions, or there would be no such row.
        unsafe { x86::block::<InPairs, _, _>([&self.0], w, y, 1, prefetch::side_by_side()) };
    }
}

/// What a [`Row`] has; the columns after the last whole [`LANES`] stay as they are.
#[multiversion(targets("x86_64+avx2"))]
fn in_pairs(x: &[f32]) -> Option<Vec<f32>> {
    let mut pairs = x.to_vec();
    let mut finite = true;
    let whole = x.len() - x.len() % LANES;
    let to = pairs[..whole].as_chunks_mut::<16>().0.iter_mut();
    for (x, to) in x.as_chunks::<16>().0.iter().zip(to) {
        for i in 0..8 {
            to[i] = SCALE * x[2 * i];
            to[8 + i] = SCALE * x[2 * i + 1];
        }
        for x in to {
            finite &= x.is_finite();
        }
    }
    finite.then_some(pairs)
}

/// The loop with AVX2 for a [`Row`].
struct InPairs;

impl Kernel<f16> for InPairs {
    const NEAR: usize = 0; // not used: each piece asks for the next one

    #[target_feature(enable = "avx2,fma")]
    unsafe fn dots<const R: usize, const S: usize>(
        x: [&[f32]; R],
        w: [&[f16]; S],
        ahead: usize,
    ) -> [[f32; S]; R] {
        // SAFETY: the caller's promise.
        unsafe { some_at_once::<Pairs, { LANES / 16 }, f16, R, S, 1>(x, w, ahead) }
    }
}

/// 16 numbers, those of even places and those of odd ones.
#[derive(Clone, Copy)]
struct Pairs([__m256; 2]);

impl Register for Pairs {
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self([Register::splat(x); 2]) }
    }
    #[inline(always)]
    unsafe fn load(at: *const f32) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self([Register::load(at), Register::load(at.add(8))]) }
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f32) {
        let Self([evens, odds]) = self;
        // SAFETY: the caller's promise.
        unsafe {
            evens.store(at);
            odds.store(at.add(8));
        }
    }
    #[inline(always)]
    unsafe fn add_product(self, Self(a): Self, Self(b): Self) -> Self {
        let Self([evens, odds]) = self;
        // SAFETY: the caller's promise.
        unsafe { Self([evens.add_product(a[0], b[0]), odds.add_product(a[1], b[1])]) }
    }
}

impl Summed for Pairs {
    #[inline(always)]
    unsafe fn plus(self, Self([evens, odds]): Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { Self([self.0[0].plus(evens), self.0[1].plus(odds)]) }
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: the caller's promise.
        unsafe {
            let Self([evens, odds]) = self;
            let (evens, odds) = (halved(evens), halved(odds));
            let (low, high) = (_mm_unpacklo_ps(evens, odds), _mm_unpackhi_ps(evens, odds));
            sum_of_four(_mm_add_ps(low, high))
        }
    }
}

/// The values over [`SCALE`] of finite numbers.
impl Widening<f16> for Pairs {
    const COUNT: usize = 8;

    #[inline(always)]
    unsafe fn widen(at: *const f16) -> Self {
        // SAFETY: the caller's promise; the load asks for no alignment.
        unsafe {
            let pairs = _mm256_loadu_si256(at.cast());
            // Copies of the sign fill what the shifts leave.
            let evens = _mm256_madd_epi16(pairs, _mm256_set1_epi32(1 << 13));
            let odds = _mm256_srai_epi32::<3>(pairs);
            let own = _mm256_set1_epi32(0x8fff_e000_u32.cast_signed());
            let (evens, odds) = (_mm256_and_si256(evens, own), _mm256_and_si256(odds, own));
            Self([_mm256_castsi256_ps(evens), _mm256_castsi256_ps(odds)])
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::gemv_kernel::{block_plain, tests::numbers};

    #[test]
    fn f16_in_pairs_gives_the_bits_of_the_plain_loop() {
        let finite = (0..=u16::MAX).map(f16::from_bits).filter(|w| w.is_finite());
        let w: Vec<f16> = finite.cycle().take(65 * 2100).collect();
        for n in [1, 16, 31, 32, 130, 768, 1024, 1030, 2100] {
            let (w, m) = (&w[w.len() % n..], w.len() / n);
            for scale in [1e-40, 1e-5, 1.0, 60_000.0] {
                let x: Vec<f32> = numbers(n, 13, 31).iter().map(|x| scale * x).collect();
                let mut expected = vec![0.5; m];
                block_plain([&x], w, &mut expected, 1);
                let x = in_pairs(&x).expect("small enough");
                for side_by_side in [false, true].into_iter().filter(|_| has_avx2()) {
                    let mut y = vec![0.5; m];
                    // SAFETY: the CPU has the instructions.
                    unsafe { x86::block::<InPairs, _, _>([&x], w, &mut y, 1, side_by_side) };
                    assert_eq!(y, expected, "{n} columns, {scale}, {side_by_side}");
                }
            }
        }
        for x in [7e4, f32::INFINITY, f32::NAN] {
            assert_eq!(in_pairs(&[[0.0; 31].as_slice(), &[x]].concat()), None);
        }
    }
}
