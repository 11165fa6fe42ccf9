//! The element types that the matrices in a product can have (`f32`, `bf16` and `f16`), and their
//! conversion to `f32`.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};
use ndarray::ArrayView2;

/// An element type of the matrices in a product. Each element can be converted to `f32` without
/// loss.
pub(crate) trait Weight: Copy + Send + Sync {
    /// Whether the type is `bf16`. Some CPUs can multiply `bf16` values without converting them to
    /// `f32` first.
    const IS_BF16: bool = false;

    /// Returns the value as an `f32`. The conversion is exact.
    fn value(self) -> f32;

    /// Returns the value of this type that is nearest to `value`.
    ///
    /// If two values are equally near, the one whose last bit is 0 is returned (ties to even). For
    /// `f16`, which has a small range, all numbers beyond ±65504, including infinities, become
    /// ±65504. For `bf16`, numbers that are too large become infinite. NaN remains NaN.
    fn nearest(value: f32) -> Self;

    /// Rounds each element of `from` as [`nearest`](Self::nearest) does, and writes the results to
    /// `to`, which must have the same length.
    fn round(from: &[f32], to: &mut [MaybeUninit<Self>]) {
        for (to, &x) in to.iter_mut().zip(from) {
            to.write(Self::nearest(x));
        }
    }

    /// Converts each element of `from` to `f32` and writes the results to `to`, which must have the
    /// same length.
    #[inline]
    fn widen(from: &[Self], to: &mut [f32]) {
        #[cfg(target_arch = "x86_64")]
        if has_avx2() {
            // SAFETY: `has_avx2` has verified that the CPU supports the instruction set of the
            // function.
            return unsafe { widen_by_8(from, to) };
        }
        to.iter_mut().zip(from).for_each(|(to, w)| *to = w.value());
    }

    /// Returns `matrix` itself as a matrix of `f32` if this type is `f32`, so that its elements can
    /// be used without a conversion. Returns `None` for the other types.
    fn as_f32(_: ArrayView2<'_, Self>) -> Option<ArrayView2<'_, f32>> {
        None
    }

    /// Loads 8 elements, which don't need to be aligned, and converts them to `f32`.
    ///
    /// # Safety
    ///
    /// The 8 elements that begin at `at` must be readable, and the CPU must support AVX2 and F16C.
    #[cfg(target_arch = "x86_64")]
    unsafe fn load8(at: *const Self) -> __m256;

    /// Loads 16 elements, which don't need to be aligned, and converts them to `f32`.
    ///
    /// # Safety
    ///
    /// The 16 elements that begin at `at` must be readable, and the CPU must support AVX-512F.
    #[cfg(target_arch = "x86_64")]
    unsafe fn load16(at: *const Self) -> __m512;
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
        // SAFETY: The caller guarantees that 8 elements are readable at `at` and that the CPU
        // supports AVX2.
        unsafe { _mm256_loadu_ps(at) }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load16(at: *const Self) -> __m512 {
        // SAFETY: The caller guarantees that 16 elements are readable at `at` and that the CPU
        // supports AVX-512F.
        unsafe { _mm512_loadu_ps(at) }
    }
}

impl Weight for bf16 {
    const IS_BF16: bool = true;

    #[inline(always)]
    fn value(self) -> f32 {
        // A `bf16` consists of the upper 16 bits of the `f32` with the same value. `bf16::to_f32`
        // isn't used because it has a branch for signaling NaNs, which would prevent the
        // vectorization of loops.
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }

    #[inline(always)]
    fn nearest(value: f32) -> Self {
        // `bf16::from_f32` isn't used because its branch for NaN would prevent the vectorization of
        // loops. This code computes the same bits: adding just under half of the last place rounds
        // the upper 16 bits to the nearest value, and the last bit that is kept decides ties.
        let bits = value.to_bits();
        let rounded = bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16;
        let quiet_nan = bits >> 16 | 0x40;
        Self::from_bits(if value.is_nan() { quiet_nan } else { rounded } as u16)
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load8(at: *const Self) -> __m256 {
        // SAFETY: The caller guarantees that 8 elements are readable at `at` and that the CPU
        // supports AVX2.
        unsafe {
            // Interleaving with zeros moves each `bf16` to the upper half of a 32-bit lane, which
            // then contains the `f32` with the same value. The compiler merges both interleaving
            // instructions into a single shuffle.
            let (halves, zeros) = (_mm_loadu_si128(at.cast()), _mm_setzero_si128());
            let first = _mm_unpacklo_epi16(zeros, halves);
            let last = _mm_unpackhi_epi16(zeros, halves);
            _mm256_castsi256_ps(_mm256_set_m128i(last, first))
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load16(at: *const Self) -> __m512 {
        // SAFETY: The caller guarantees that 16 elements are readable at `at` and that the CPU
        // supports AVX-512F.
        unsafe {
            let halves = _mm512_cvtepu16_epi32(_mm256_loadu_si256(at.cast()));
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(halves))
        }
    }
}

/// The largest finite `f16` value.
const F16_MAX: f32 = 65504.0;

impl Weight for f16 {
    #[inline(always)]
    fn value(self) -> f32 {
        // The conversion is written without branches so that the compiler can vectorize loops. The
        // sign is converted separately from the exponent and the mantissa.
        let sign = u32::from(self.to_bits() & 0x8000) << 16;
        let rest = u32::from(self.to_bits() & 0x7fff);
        // The biases of the exponents, 127 and 15, differ by 112.
        let normal = (rest << 13) + (112 << 23);
        let magnitude = match rest {
            // A subnormal number is a multiple of 2^-24.
            0..0x400 => (rest as f32 / 16_777_216.0).to_bits(),
            0x400..0x7c00 => normal,
            _ => normal + (112 << 23), // Infinity and NaN get the exponent 255.
        };
        f32::from_bits(sign | magnitude)
    }

    fn nearest(value: f32) -> Self {
        Self::from_f32(value.clamp(-F16_MAX, F16_MAX))
    }

    fn round(from: &[f32], to: &mut [MaybeUninit<Self>]) {
        // The crate `half` converts a whole slice with the CPU's conversion instructions. For
        // single numbers, it would have to look for these instructions each time.
        const BLOCK: usize = 64;
        let (mut clamped, mut halves) = ([0.0; BLOCK], [Self::ZERO; BLOCK]);
        for (to, from) in to.chunks_mut(BLOCK).zip(from.chunks(BLOCK)) {
            for (clamped, x) in clamped.iter_mut().zip(from) {
                *clamped = x.clamp(-F16_MAX, F16_MAX);
            }
            halves.convert_from_f32_slice(&clamped);
            for (to, half) in to.iter_mut().zip(halves) {
                to.write(half);
            }
        }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load8(at: *const Self) -> __m256 {
        // SAFETY: The caller guarantees that 8 elements are readable at `at` and that the CPU
        // supports F16C.
        unsafe { _mm256_cvtph_ps(_mm_loadu_si128(at.cast())) }
    }

    #[cfg(target_arch = "x86_64")]
    #[inline(always)]
    unsafe fn load16(at: *const Self) -> __m512 {
        // SAFETY: The caller guarantees that 16 elements are readable at `at` and that the CPU
        // supports AVX-512F.
        unsafe { _mm512_cvtph_ps(_mm256_loadu_si256(at.cast())) }
    }
}

/// Implements [`Weight::widen`] for CPUs with AVX2: converts the elements of `from` to `f32` and
/// writes them to `to`. Groups of 8 elements are converted with [`Weight::load8`], and the
/// remaining elements individually.
///
/// # Safety
///
/// The CPU must support AVX2 and F16C.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,f16c")]
unsafe fn widen_by_8<T: Weight>(from: &[T], to: &mut [f32]) {
    let (eights, rest) = from.as_chunks::<8>();
    let (wide, rest_of_to) = to.as_chunks_mut::<8>();
    for (from, to) in eights.iter().zip(wide) {
        // SAFETY: `from` and `to` contain 8 elements each, and the caller guarantees that the CPU
        // supports AVX2 and F16C.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), T::load8(from.as_ptr())) };
    }
    rest_of_to
        .iter_mut()
        .zip(rest)
        .for_each(|(to, w)| *to = w.value());
}

/// Returns whether the CPU supports AVX2, FMA and F16C, which the AVX2 kernels require. Practically
/// all CPUs with AVX2 also support FMA and F16C.
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
    fn slices_are_rounded_like_single_numbers_and_as_the_crate_half_rounds_them() {
        let step = 0x1_0001 / 3; // Visits all exponents and both sides of many ties.
        let mut numbers: Vec<f32> = (0..=u32::MAX).step_by(step).map(f32::from_bits).collect();
        numbers.extend([0x3f80_8000, 0x3f81_8000, 0x7f7f_ffff, 0x7f80_0001].map(f32::from_bits));
        let (mut bf16s, mut f16s) = (Vec::new(), Vec::new());
        for from in numbers.chunks(100) {
            bf16s.reserve(from.len());
            f16s.reserve(from.len());
            bf16::round(from, &mut bf16s.spare_capacity_mut()[..from.len()]);
            f16::round(from, &mut f16s.spare_capacity_mut()[..from.len()]);
            // SAFETY: `round` has initialized as many elements as `from` has.
            unsafe {
                bf16s.set_len(bf16s.len() + from.len());
                f16s.set_len(f16s.len() + from.len());
            }
        }
        for ((x, b), f) in numbers.into_iter().zip(bf16s).zip(f16s) {
            assert_eq!(b.to_bits(), bf16::from_f32(x).to_bits(), "{x}");
            assert_eq!(f.to_bits(), f16::nearest(x).to_bits(), "{x}");
        }
    }

    #[test]
    fn every_f16_has_its_value_in_all_forms() {
        let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        for w in all.chunks(16) {
            #[cfg(target_arch = "x86_64")]
            let halves: Option<[[f32; 8]; 2]> = has_avx2().then(|| {
                // SAFETY: 8 elements of `w` are readable at each of the two positions, `has_avx2`
                // has checked the CPU, and an `__m256` has the same layout as eight `f32` values.
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
