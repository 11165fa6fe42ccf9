//! The Box-Muller transform, which converts uniform samples to normal samples. It is applied to
//! blocks of 16 samples, as in PyTorch's `normal_fill`
//! (`aten/src/ATen/native/cpu/DistributionTemplates.h`).
//!
//! The first eight uniform samples of a block determine radii, and the last eight samples determine
//! angles. For each `j` in `0..8`, the samples `d[j]` and `d[j + 8]` of a block `d` are replaced as
//! follows:
//!
//! ```text
//! radius   = sqrt(-2 ln(1 - d[j]))
//! theta    = 2 pi d[j + 8]
//! d[j]     = radius cos(theta) * std + mean
//! d[j + 8] = radius sin(theta) * std + mean
//! ```
//!
//! Intermediate results are rounded to `f32` at the same points as in PyTorch's scalar code. This
//! module has its own functions `ln` and `sin_cos` because loops that call the math library can't
//! be vectorized. Both functions compute in `f64`, so after rounding to `f32`, their results are
//! almost always the `f32` numbers nearest to the exact values. They support only the arguments
//! that the transform passes, which are in (0, 1] for the logarithm and in [0, 2 pi] for the angle.

use std::f64::consts::{FRAC_PI_2, LN_2, PI};

pub(crate) const BLOCK: usize = 16;
const HALF: usize = BLOCK / 2;

/// Replaces each full block of 16 uniform samples in [0, 1) with normal samples that have the given
/// mean and standard deviation. If `data.len()` isn't a multiple of 16, the samples after the last
/// full block are left unchanged.
pub(crate) fn transform(data: &mut [f32], mean: f32, std: f32) {
    let (mean, std) = (f64::from(mean), f64::from(std));
    // Scale and shift a standard normal sample. PyTorch computes `normal * std + mean` with a fused
    // multiply-add, which rounds only once. To get the same result, compute the product and the sum
    // in `f64` and then round to `f32`.
    let scaled = |normal: f32| (f64::from(normal) * std + mean) as f32;
    for block in data.chunks_exact_mut(BLOCK) {
        let (first, second) = block.split_at_mut(HALF);
        let mut radius = [0.0f32; HALF];
        for (radius, &u) in radius.iter_mut().zip(&*first) {
            *radius = (-2.0 * ln(f64::from(1.0 - u)) as f32).sqrt();
        }
        for j in 0..HALF {
            // PyTorch computes the angle `2 pi u` in `f64` and then rounds it to `f32`. Do the
            // same, so that the angle has the same bits.
            let theta = (2.0 * PI * f64::from(second[j])) as f32;
            let (sin, cos) = sin_cos(f64::from(theta));
            first[j] = scaled(radius[j] * cos as f32);
            second[j] = scaled(radius[j] * sin as f32);
        }
    }
}

/// The number 1.5 * 2^52. Adding it to an `f64` of small magnitude rounds that `f64` to the nearest
/// integer, which can then be read from the low bits of the sum.
const ROUNDING_OFFSET: f64 = 6_755_399_441_055_744.0;

/// Returns the natural logarithm of a positive, normal `x`.
///
/// Writing `x` as `2^k * m` with `m` in [1/sqrt 2, sqrt 2) leads to `ln x = k ln 2 + ln m`. The
/// term `ln m` is equal to `2 atanh(s)` with `s = (m - 1) / (m + 1)`, and is computed from the
/// power series of `atanh`.
#[inline(always)]
fn ln(x: f64) -> f64 {
    const SQRT_HALF_BITS: u64 = 0x3fe6_a09e_667f_3bcd;
    const MANTISSA: u64 = (1 << 52) - 1;
    const BIAS: u64 = 1024;
    const TWO_52: f64 = (1u64 << 52) as f64;
    // The exponent of `x` can be negative. Extracting a negative number from the upper bits would
    // require an arithmetic right shift, which SSE2 doesn't have for 64-bit integers. Adding `BIAS`
    // makes the exponent positive, so that a logical right shift suffices. `BIAS` is subtracted
    // again below.
    let offset = x
        .to_bits()
        .wrapping_sub(SQRT_HALF_BITS)
        .wrapping_add(BIAS << 52);
    // Converts the exponent to `f64` without a conversion instruction: if the mantissa bits of the
    // `f64` number 2^52 are replaced with an integer below 2^52, the result is 2^52 plus that
    // integer.
    let k = f64::from_bits(offset >> 52 | TWO_52.to_bits()) - (TWO_52 + BIAS as f64);
    let m = f64::from_bits((offset & MANTISSA) + SQRT_HALF_BITS);
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s; // `z` is at most 0.0295, so seven terms of the series suffice.
    let series = 2.0 / 3.0
        + z * (2.0 / 5.0
            + z * (2.0 / 7.0
                + z * (2.0 / 9.0 + z * (2.0 / 11.0 + z * (2.0 / 13.0 + z * (2.0 / 15.0))))));
    k * LN_2 + (2.0 * s + s * z * series)
}

/// Returns the sine and cosine of an angle `t` in [0, 2 pi].
///
/// Let `q` be the index of the multiple of pi/2 that is nearest to `t`, and let `r = t - q pi/2`.
/// The sine and cosine of `r` are computed from their Taylor series at 0. If `q` is even, they are
/// the sine and cosine of `t`, apart from the signs. If `q` is odd, sine and cosine are swapped.
/// The signs also depend on `q`.
#[inline(always)]
fn sin_cos(t: f64) -> (f64, f64) {
    let rounded = t * (1.0 / FRAC_PI_2) + ROUNDING_OFFSET;
    let quadrant = rounded.to_bits();
    let r = t - (rounded - ROUNDING_OFFSET) * FRAC_PI_2; // The absolute value of `r` is at most pi/4.
    let z = r * r;
    let sin = r + r
        * z
        * (-1.0 / 6.0
            + z * (1.0 / 120.0
                + z * (-1.0 / 5_040.0 + z * (1.0 / 362_880.0 + z * (-1.0 / 39_916_800.0)))));
    let cos = 1.0
        + z * (-0.5
            + z * (1.0 / 24.0
                + z * (-1.0 / 720.0
                    + z * (1.0 / 40_320.0
                        + z * (-1.0 / 3_628_800.0 + z * (1.0 / 479_001_600.0))))));
    // If the quadrant `q` is odd, the sine of `r` is the cosine of `t` and vice versa, apart from
    // the signs. Bit 1 of `q` is the sign bit of the sine of `t`.
    let odd = 0u64.wrapping_sub(quadrant & 1);
    let (sin, cos) = (sin.to_bits(), cos.to_bits());
    let swap = (sin ^ cos) & odd;
    let sin_sign = (quadrant & 2) << 62;
    let cos_sign = (quadrant.wrapping_add(1) & 2) << 62;
    (
        f64::from_bits(sin ^ swap ^ sin_sign),
        f64::from_bits(cos ^ swap ^ cos_sign),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the distance between `a` and `b` in units in the last place. Both numbers must have
    /// the same sign.
    fn ulps(a: f32, b: f32) -> u32 {
        a.to_bits().abs_diff(b.to_bits())
    }

    /// Compares a function of this module (`ours`), such as `ln`, with the same function of the
    /// standard library (`theirs`). Calls both with 2^24 arguments, which are `argument(0)`,
    /// `argument(1)` and so on, and rounds the results to `f32`. Returns the fraction of the
    /// arguments for which the rounded results differ. Panics if they differ by more than one unit
    /// in the last place.
    fn fraction_differing(
        argument: impl Fn(u32) -> f64,
        ours: impl Fn(f64) -> f64,
        theirs: impl Fn(f64) -> f64,
    ) -> f64 {
        let mut differing = 0u32;
        for k in 0..1 << 24 {
            let x = argument(k);
            let (ours, theirs) = (ours(x) as f32, theirs(x) as f32);
            assert!(
                ulps(ours, theirs) <= 1,
                "at {x}: expected {theirs}, got {ours}"
            );
            differing += u32::from(ours != theirs);
        }
        f64::from(differing) / f64::from(1 << 24)
    }

    #[test]
    fn the_logarithm_of_every_uniform_rounds_as_that_of_libm() {
        let u1 = |k: u32| f64::from(k + 1) / f64::from(1 << 24);
        assert!(fraction_differing(u1, ln, f64::ln) < 1e-4);
        assert_eq!(ln(1.0), 0.0);
    }

    #[test]
    fn sine_and_cosine_of_every_angle_round_as_those_of_libm() {
        let theta = |k: u32| f64::from((2.0 * PI * f64::from(k) / f64::from(1 << 24)) as f32);
        assert!(fraction_differing(theta, |t| sin_cos(t).0, f64::sin) < 1e-4);
        assert!(fraction_differing(theta, |t| sin_cos(t).1, f64::cos) < 1e-4);
    }

    #[test]
    fn a_shorter_last_block_is_left_as_it_is() {
        let mut data = [0.25f32; 20];
        transform(&mut data, 0.0, 1.0);
        assert_eq!(data[16..], [0.25; 4]);
        assert!((f64::from(data[8]) - (-2.0 * 0.75f64.ln()).sqrt()).abs() < 1e-7);
    }
}
