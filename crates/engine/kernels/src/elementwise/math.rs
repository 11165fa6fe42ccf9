//! `exp` for loops that must vectorise: a polynomial, no table, no branch.
//!
//! Relative error below 2e-7 (tested against `f64::exp`). Results below the smallest normal number
//! are zero, NaN stays NaN, and arguments above 88 count as 88 (softmax's arguments are not
//! positive). Without fused multiply-add, so that every instruction set gives the same bits.

use std::f32::consts::{LN_2, LOG2_E};

/// ln 2 in two pieces, the first exact in few bits, so that `n * LN_2_HIGH` is exact for |n| < 2^9.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// 1.5 * 2^23: adding and subtracting it rounds to the nearest integer without a branch.
pub(crate) const ROUND: f32 = 12_582_912.0;
/// Its `exp` is below 2^127, the largest power of two in f32.
const LARGEST: f32 = 88.0;
/// Below this `exp` is not a normal f32.
const UNDERFLOW: f32 = -87.336_54;

/// 2^-64: smaller exponentials of softmax count as 0. Their share in a sum of at least 1 is 2^-40
/// of its rounding, and their products on the way to the weights' gradients would be denormal
/// numbers, with which many processors take a hundred times as long.
pub const NEGLIGIBLE: f32 = 5.421_011e-20;
/// -log2 of [`NEGLIGIBLE`]
const LOG_2_NEGLIGIBLE: f32 = 64.0;

/// `x`, or 0 where its magnitude is below `floor`. NaN stays.
#[inline(always)]
pub(crate) fn flush(x: f32, floor: f32) -> f32 {
    if x.abs() < floor { 0.0 } else { x }
}

/// `sum + x y`, rounded once if `fused`: where the processor has an instruction for it.
#[inline(always)]
pub(crate) fn add_product(sum: f32, x: f32, y: f32, fused: bool) -> f32 {
    if fused {
        x.mul_add(y, sum)
    } else {
        x * y + sum
    }
}

/// `e^x` for x up to 88.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let clamped = if x > LARGEST { LARGEST } else { x };
    let clamped = if clamped < UNDERFLOW {
        UNDERFLOW
    } else {
        clamped
    };
    // x = n ln 2 + r, |r| <= ln 2 / 2
    let rounded = clamped * LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = (clamped - n * LN_2_HIGH) - n * LN_2_LOW;
    if x < UNDERFLOW {
        0.0
    } else {
        exp_of_parts(rounded, r)
    }
}

/// `2^n e^r` for |r| <= ln 2 / 2 and -126 <= n <= 127, `rounded` being `n + ROUND`.
#[inline(always)]
fn exp_of_parts(rounded: f32, r: f32) -> f32 {
    // e^r = 1 + r + r^2 q(r), q the polynomial with the smallest error, in Estrin's order: few
    // steps that wait for each other.
    let square = r * r;
    let low = 1.666_652_1e-1 * r + 4.999_999_4e-1;
    let high = 8.368_717e-3 * r + 4.166_839e-2;
    let q = (1.381_459_9e-3 * square + high) * square + low;
    let e_r = (q * square + r) + 1.0;
    // The low bits of `rounded` are `n`, and go to the exponent; for NaN they are anything, and
    // `e_r` carries it.
    let power_of_two = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1f32.to_bits()));
    e_r * power_of_two
}

/// `1 / (1 + 2^x)`, the logistic function of `-x ln 2`; 0 where it is below [`NEGLIGIBLE`].
#[inline(always)]
pub(crate) fn falling_sigmoid(x: f32) -> f32 {
    let clamped = if x > LOG_2_NEGLIGIBLE {
        LOG_2_NEGLIGIBLE
    } else {
        x
    };
    // 2^-126 is the smallest normal number.
    let clamped = if clamped < -126.0 { -126.0 } else { clamped };
    let rounded = clamped + ROUND;
    let r = (clamped - (rounded - ROUND)) * LN_2;
    let y = 1.0 / (1.0 + exp_of_parts(rounded, r));
    if x > LOG_2_NEGLIGIBLE { 0.0 } else { y }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_ulps_of_the_exact_value() {
        let mut worst = 0.0f64;
        for i in -8_700_000..=8_800_000 {
            let x = i as f32 * 1e-5;
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) - exact).abs() / exact);
        }
        assert!(worst < 2e-7, "largest relative error {worst:e}");
    }

    #[test]
    fn exp_treats_the_special_values_as_f32_exp_does_but_for_large_ones() {
        for x in [0.0, -0.0, f32::NEG_INFINITY, -110.0, f32::MIN] {
            assert_eq!(exp(x), x.exp(), "exp({x})");
        }
        for x in [89.0, f32::MAX, f32::INFINITY] {
            assert_eq!(exp(x), exp(88.0), "exp({x})");
        }
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn falling_sigmoid_is_within_four_ulps_and_saturates_without_overflow() {
        for i in -640_000..=640_000 {
            let x = i as f32 * 1e-4;
            let exact = 1.0 / (1.0 + f64::from(x).exp2());
            let error = (f64::from(falling_sigmoid(x)) - exact).abs() / exact;
            assert!(error < 2.5e-7, "{x}: relative error {error:e}");
        }
        for x in [-200.0, f32::MIN, f32::NEG_INFINITY] {
            assert_eq!(falling_sigmoid(x), 1.0, "{x}");
        }
        for x in [64.1, 200.0, f32::INFINITY] {
            assert_eq!(falling_sigmoid(x), 0.0, "{x}");
        }
        assert!(falling_sigmoid(f32::NAN).is_nan());
    }
}
