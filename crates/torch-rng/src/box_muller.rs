//! Box-Muller over blocks of 16: eight radii from the first half, eight angles from the second.
//!
//! `u1 = 1 - d[j]`, `u2 = d[j + 8]`, `radius = sqrt(-2 ln u1)`, `theta = 2 pi u2`,
//! `d[j] = radius cos theta * std + mean`, `d[j + 8] = radius sin theta * std + mean`.
//!
//! Roundings to f32 match PyTorch's scalar code; `ln`, `sin` and `cos` are series in f64, which
//! round to the nearest f32 nearly always and can be vectorised. They are valid only for the
//! arguments that occur here, (0, 1] and [0, 2 pi].

use std::f64::consts::{FRAC_PI_2, LN_2, PI};

pub(crate) const BLOCK: usize = 16;
const HALF: usize = BLOCK / 2;

/// Turns numbers in [0, 1) into normals, a block at a time; a last, shorter block is unchanged.
pub(crate) fn transform(data: &mut [f32], mean: f32, std: f32) {
    let (mean, std) = (f64::from(mean), f64::from(std));
    // One rounding for the product and the sum, like PyTorch's fused instruction.
    let scaled = |normal: f32| (f64::from(normal) * std + mean) as f32;
    for block in data.chunks_exact_mut(BLOCK) {
        let (first, second) = block.split_at_mut(HALF);
        let mut radius = [0.0f32; HALF];
        for (radius, &u) in radius.iter_mut().zip(&*first) {
            *radius = (-2.0 * ln(f64::from(1.0 - u)) as f32).sqrt();
        }
        for j in 0..HALF {
            // PyTorch multiplies in f64 here and rounds the angle to f32.
            let theta = (2.0 * PI * f64::from(second[j])) as f32;
            let (sin, cos) = sin_cos(f64::from(theta));
            first[j] = scaled(radius[j] * cos as f32);
            second[j] = scaled(radius[j] * sin as f32);
        }
    }
}

/// Adding this to a small number rounds it to an integer, which is then in the low bits.
const ROUND: f64 = 6_755_399_441_055_744.0; // 1.5 * 2^52

/// ln x for a positive normal x: `x = 2^k m`, m in [1/sqrt 2, sqrt 2),
/// `ln m = 2 atanh((m - 1) / (m + 1))`.
#[inline(always)]
fn ln(x: f64) -> f64 {
    const SQRT_HALF_BITS: u64 = 0x3fe6_a09e_667f_3bcd;
    const MANTISSA: u64 = (1 << 52) - 1;
    const BIAS: u64 = 1024;
    const TWO_52: f64 = (1u64 << 52) as f64;
    // Biased, so that a logical shift will do (SSE2 has no arithmetic one of 64 bits).
    let offset = x
        .to_bits()
        .wrapping_sub(SQRT_HALF_BITS)
        .wrapping_add(BIAS << 52);
    // An integer below 2^52 put into the mantissa of 2^52 becomes an f64 without a conversion.
    let k = f64::from_bits(offset >> 52 | TWO_52.to_bits()) - (TWO_52 + BIAS as f64);
    let m = f64::from_bits((offset & MANTISSA) + SQRT_HALF_BITS);
    let s = (m - 1.0) / (m + 1.0);
    let z = s * s; // at most 0.0295
    let series = 2.0 / 3.0
        + z * (2.0 / 5.0
            + z * (2.0 / 7.0
                + z * (2.0 / 9.0 + z * (2.0 / 11.0 + z * (2.0 / 13.0 + z * (2.0 / 15.0))))));
    k * LN_2 + (2.0 * s + s * z * series)
}

/// sin and cos of t in [0, 2 pi]: the Taylor series around the nearest multiple of pi/2.
#[inline(always)]
fn sin_cos(t: f64) -> (f64, f64) {
    let rounded = t * (1.0 / FRAC_PI_2) + ROUND;
    let quadrant = rounded.to_bits();
    let r = t - (rounded - ROUND) * FRAC_PI_2; // at most pi/4
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
    // Odd quadrants swap the two; the sign bit follows the second bit of the quadrant.
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

    /// The number of f32 between two of the same sign.
    fn ulps(a: f32, b: f32) -> u32 {
        a.to_bits().abs_diff(b.to_bits())
    }

    /// The share of the 2^24 arguments on which `ours` rounds to another f32 than `theirs`; none is
    /// 2 away.
    fn share_off(
        argument: impl Fn(u32) -> f64,
        ours: impl Fn(f64) -> f64,
        theirs: impl Fn(f64) -> f64,
    ) -> f64 {
        let mut off = 0u32;
        for k in 0..1 << 24 {
            let x = argument(k);
            let (ours, theirs) = (ours(x) as f32, theirs(x) as f32);
            assert!(
                ulps(ours, theirs) <= 1,
                "at {x}: expected {theirs}, got {ours}"
            );
            off += u32::from(ours != theirs);
        }
        f64::from(off) / f64::from(1 << 24)
    }

    #[test]
    fn the_logarithm_of_every_uniform_rounds_as_that_of_libm() {
        let u1 = |k: u32| f64::from(k + 1) / f64::from(1 << 24);
        assert!(share_off(u1, ln, f64::ln) < 1e-4);
        assert_eq!(ln(1.0), 0.0);
    }

    #[test]
    fn sine_and_cosine_of_every_angle_round_as_those_of_libm() {
        let theta = |k: u32| f64::from((2.0 * PI * f64::from(k) / f64::from(1 << 24)) as f32);
        assert!(share_off(theta, |t| sin_cos(t).0, f64::sin) < 1e-4);
        assert!(share_off(theta, |t| sin_cos(t).1, f64::cos) < 1e-4);
    }

    #[test]
    fn a_shorter_last_block_is_left_as_it_is() {
        let mut data = [0.25f32; 20];
        transform(&mut data, 0.0, 1.0);
        assert_eq!(data[16..], [0.25; 4]);
        assert!((f64::from(data[8]) - (-2.0 * 0.75f64.ln()).sqrt()).abs() < 1e-7);
    }
}
