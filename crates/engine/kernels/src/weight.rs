//! Numbers as weights are stored, f32, bf16 or f16, and their values in f32, one by one or by
//! registers.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use half::{bf16, f16};
use ndarray::ArrayView2;

/// A number that is stored in some format and computed with as f32.
pub(crate) trait Weight: Copy + Send + Sync {
    /// True for bf16, which processors with AVX512-BF16 multiply as it is.
    const IS_BF16: bool = false;

    /// Its value, exactly.
    fn value(self) -> f32;

    /// The nearest to a value.
    fn nearest(value: f32) -> Self;

    /// Writes their values to `to`, which is as long.
    #[inline]
    fn widen(from: &[Self], to: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if has_avx2() {
            // SAFETY: the CPU has the instructions.
            return unsafe { widen_by_8(from, to) };
        }
        to.iter_mut().zip(from).for_each(|(to, w)| *to = w.value());
    }

    /// The matrix itself, if it is of f32.
    fn as_f32(_: ArrayView2<'_, Self>) -> Option<ArrayView2<'_, f32>> {
        None
    }

    /// The values of 8 of them.
    ///
    /// # Safety
    /// `at` must point to 8 of them, and the CPU must have AVX2 and F16C.
    #[cfg(target_arch = "x86_64")]
    unsafe fn load8(at: *const Self) -> __m256;
}

impl Weight for f32 {
    #[inline(always)]
    fn value(self) -> f32 {
        self
    }

    fn nearest(value: f32) -> Self {
        value
    }

    #[inline(always)]
    fn widen(from: &[Self], to: &mut [f32]) {
        to.copy_from_slice(from);
    }

    fn as_f32(matrix: ArrayView2<'_, Self>) -> Option<ArrayView2<'_, f32>> {
        Some(matrix)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load8(at: *const Self) -> __m256 {
        // SAFETY: the caller's promise; the load asks for no alignment.
        unsafe { _mm256_loadu_ps(at) }
    }
}

impl Weight for bf16 {
    const IS_BF16: bool = true;

    #[inline(always)]
    fn value(self) -> f32 {
        // `to_f32` branches to quiet signalling NaN, which keeps the loop from vectorising.
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    fn nearest(value: f32) -> Self {
        Self::from_f32(value)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load8(at: *const Self) -> __m256 {
        // SAFETY: the caller's promise; the load asks for no alignment.
        unsafe {
            // The upper halves of lanes; both unpackings are one shuffle once compiled.
            let (halves, zeros) = (_mm_loadu_si128(at.cast()), _mm_setzero_si128());
            let first = _mm_unpacklo_epi16(zeros, halves);
            let last = _mm_unpackhi_epi16(zeros, halves);
            _mm256_castsi256_ps(_mm256_set_m128i(last, first))
        }
    }
}

impl Weight for f16 {
    #[inline(always)]
    fn value(self) -> f32 {
        // Without a branch, so that the loop vectorises.
        let sign = u32::from(self.to_bits() & 0x8000) << 16;
        let rest = u32::from(self.to_bits() & 0x7fff);
        let normal = (rest << 13) + (112 << 23); // the exponents' biases are 127 and 15
        let magnitude = match rest {
            0..0x400 => (rest as f32 / 16_777_216.0).to_bits(), // multiples of 2^-24
            0x400..0x7c00 => normal,
            _ => normal + (112 << 23), // infinity and NaN
        };
        f32::from_bits(sign | magnitude)
    }

    fn nearest(value: f32) -> Self {
        let largest = Self::MAX.to_f32();
        Self::from_f32(value.clamp(-largest, largest))
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load8(at: *const Self) -> __m256 {
        // SAFETY: the caller's promise; the load asks for no alignment.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(at.cast())) }
    }
}

/// # Safety
/// The CPU must have AVX2 and F16C.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
unsafe fn widen_by_8<T: Weight>(from: &[T], to: &mut [f32]) {
    let (eights, rest) = from.as_chunks::<8>();
    let (wide, rest_of_to) = to.as_chunks_mut::<8>();
    for (from, to) in eights.iter().zip(wide) {
        // SAFETY: both are 8 numbers, and the caller's promise.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), T::load8(from.as_ptr())) };
    }
    rest_of_to
        .iter_mut()
        .zip(rest)
        .for_each(|(to, w)| *to = w.value());
}

/// True if the CPU has the instructions of [`Weight::load8`] and fused products: all CPUs with AVX2
/// do.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2")
        && is_x86_feature_detected!("fma")
        && is_x86_feature_detected!("f16c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_has_its_value_in_all_forms() {
        let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        for w in all.chunks(16) {
            #[cfg(target_arch = "x86_64")]
            let halves: Option<[[f32; 8]; 2]> = has_avx2().then(|| {
                // SAFETY: 8 numbers, the CPU has the instructions, and a register is 8 floats.
                [0, 8].map(|at| unsafe { std::mem::transmute(f16::load8(w[at..].as_ptr())) })
            });
            #[cfg(not(target_arch = "x86_64"))]
            let halves: Option<[[f32; 8]; 2]> = None;
            for (i, w) in w.iter().enumerate() {
                let expected = w.to_f32();
                let forms = halves.map(|h| h[i / 8][i % 8]).into_iter();
                for got in forms.chain([w.value()]) {
                    assert!(
                        got == expected || (got.is_nan() && expected.is_nan()),
                        "{w:?}: {got}"
                    );
                    assert_eq!(got.is_sign_negative(), expected.is_sign_negative(), "{w:?}");
                }
            }
        }
    }
}
