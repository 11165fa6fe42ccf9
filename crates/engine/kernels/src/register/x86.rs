//! The registers of AVX-512 and AVX2.

use std::arch::x86_64::*;

use super::Register;
use crate::weight::Weight;

/// One whose lanes can be summed.
pub(crate) trait Summed: Register {
    unsafe fn plus(self, other: Self) -> Self;
    /// The sum of its lanes, halves added to halves
    unsafe fn sum(self) -> f32;
}

/// One that weights are widened to.
pub(crate) trait Widening<W>: Summed {
    /// The values of as many weights as there are lanes
    unsafe fn widen(at: *const W) -> Self;
}

/// A [`Register`] by the names of its instructions.
macro_rules! register {
    ($register:ty, $lanes:literal, $splat:ident, $load:ident, $store:ident, $add_product:ident
     $(, $first:item)*) => {
        impl Register for $register {
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn splat(x: f32) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $splat(x) }
            }
            #[inline(always)]
            unsafe fn load(at: *const f32) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $load(at) }
            }
            #[inline(always)]
            unsafe fn store(self, at: *mut f32) {
                // SAFETY: the caller's promise.
                unsafe { $store(at, self) }
            }
            #[inline(always)]
            unsafe fn add_product(self, a: Self, b: Self) -> Self {
                // SAFETY: the caller's promise.
                unsafe { $add_product(a, b, self) }
            }
            $(#[inline(always)] $first)*
        }
    };
}

register!(
    __m512,
    16,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_fmadd_ps,
    unsafe fn load_first(at: *const f32, n: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm512_maskz_loadu_ps(first(n), at) }
    },
    unsafe fn store_first(self, at: *mut f32, n: usize) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_mask_storeu_ps(at, first(n), self) }
    }
);

/// The mask of the first `n` lanes of 16, at least one.
#[inline(always)]
fn first(n: usize) -> __mmask16 {
    (0xffff_u32 >> (16 - n)) as __mmask16
}

register!(
    __m256,
    8,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_fmadd_ps
);

impl<W: Weight> Widening<W> for __m512 {
    #[inline(always)]
    unsafe fn widen(at: *const W) -> Self {
        // SAFETY: the caller's promise.
        unsafe { W::load16(at) }
    }
}

impl Summed for __m512 {
    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm512_add_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: the caller's promise.
        unsafe {
            let high = _mm512_extractf64x4_pd::<1>(_mm512_castps_pd(self));
            _mm512_castps512_ps256(self)
                .plus(_mm256_castpd_ps(high))
                .sum()
        }
    }
}

impl<W: Weight> Widening<W> for __m256 {
    #[inline(always)]
    unsafe fn widen(at: *const W) -> Self {
        // SAFETY: the caller's promise.
        unsafe { W::load8(at) }
    }
}

impl Summed for __m256 {
    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm256_add_ps(self, other) }
    }
    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: the caller's promise.
        unsafe {
            let four = _mm_add_ps(
                _mm256_castps256_ps128(self),
                _mm256_extractf128_ps::<1>(self),
            );
            let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }
}
