//! Registers of f32, for loops that are written once for all instruction sets.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

#[cfg(target_arch = "x86_64")]
use crate::weight::Weight;

/// A register of f32; its functions ask that the CPU has its instructions, and that what they read
/// or write can be.
pub(crate) trait Register: Copy {
    const LANES: usize;
    unsafe fn splat(x: f32) -> Self;
    unsafe fn load(at: *const f32) -> Self;
    unsafe fn store(self, at: *mut f32);
    /// `self + a b`
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
}

/// One whose lanes can be summed.
#[cfg(target_arch = "x86_64")]
pub(crate) trait Summed: Register {
    unsafe fn plus(self, other: Self) -> Self;
    /// The sum of its lanes, halves added to halves
    unsafe fn sum(self) -> f32;
}

/// One that weights are widened to.
#[cfg(target_arch = "x86_64")]
pub(crate) trait Widening<W>: Summed {
    /// The values of as many weights as there are lanes
    unsafe fn widen(at: *const W) -> Self;
}

#[cfg(target_arch = "x86_64")]
impl Register for __m512 {
    const LANES: usize = 16;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm512_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(at: *const f32) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm512_loadu_ps(at) }
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { _mm512_storeu_ps(at, self) }
    }
    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm512_fmadd_ps(a, b, self) }
    }
}

#[cfg(target_arch = "x86_64")]
impl Register for __m256 {
    const LANES: usize = 8;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm256_set1_ps(x) }
    }
    #[inline(always)]
    unsafe fn load(at: *const f32) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm256_loadu_ps(at) }
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { _mm256_storeu_ps(at, self) }
    }
    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: the caller's promise.
        unsafe { _mm256_fmadd_ps(a, b, self) }
    }
}

#[cfg(target_arch = "x86_64")]
impl<W: Weight> Widening<W> for __m512 {
    #[inline(always)]
    unsafe fn widen(at: *const W) -> Self {
        // SAFETY: the caller's promise.
        unsafe { W::load16(at) }
    }
}

#[cfg(target_arch = "x86_64")]
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

#[cfg(target_arch = "x86_64")]
impl<W: Weight> Widening<W> for __m256 {
    #[inline(always)]
    unsafe fn widen(at: *const W) -> Self {
        // SAFETY: the caller's promise.
        unsafe { W::load8(at) }
    }
}

#[cfg(target_arch = "x86_64")]
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

/// What the compiler makes registers of on other processors.
impl Register for [f32; 4] {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        [x; 4]
    }
    #[inline(always)]
    unsafe fn load(at: *const f32) -> Self {
        // SAFETY: the caller's promise.
        unsafe { at.cast::<Self>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { at.cast::<Self>().write_unaligned(self) }
    }
    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        std::array::from_fn(|l| {
            if cfg!(target_arch = "aarch64") {
                a[l].mul_add(b[l], self[l]) // one instruction there
            } else {
                a[l] * b[l] + self[l]
            }
        })
    }
}
