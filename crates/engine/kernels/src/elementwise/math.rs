//! The exponential function and related functions in a form that the compiler can vectorize. They
//! consist of polynomials and need neither tables nor branches.
//!
//! The relative error of `exp` is below 2e-7, which a test checks against `f64::exp`. Results below
//! the smallest normal number are 0, NaN remains NaN, and arguments above 88 are replaced by 88,
//! because the arguments in a softmax are never positive. The functions don't use fused
//! multiply-add, so the results have the same bits with every instruction set.

use std::f32::consts::{LN_2, LOG2_E};

/// High part of ln 2, which is the sum of `LN_2_HIGH` and `LN_2_LOW`. The high part has so few bits
/// that `n * LN_2_HIGH` is exact for `|n| < 512`.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// Number that is added and then subtracted to round to the nearest integer without a branch. Its
/// value is 1.5 * 2^23.
pub(crate) const ROUND: f32 = 12_582_912.0;
/// Largest argument of [`exp`] that isn't clamped. Its exponential is below 2^127, the largest
/// power of two of an `f32`.
const MAX_ARGUMENT: f32 = 88.0;
/// Smallest argument of [`exp`] whose result is a normal number.
const UNDERFLOW: f32 = -87.336_54;

/// Value below which the exponentials of a softmax are set to 0, which is 2^-64.
///
/// The sum of the exponentials is at least 1, so its rounding error is about 2^40 times as large as
/// an omitted exponential. In the backward pass, the products of such small numbers would be
/// denormal numbers, for which many CPUs take a hundred times as long.
pub const NEGLIGIBLE: f32 = 5.421_011e-20;
/// Negative binary logarithm of [`NEGLIGIBLE`].
const LOG_2_NEGLIGIBLE: f32 = 64.0;

/// Returns `x`, or 0 if the magnitude of `x` is less than `floor`. NaN remains NaN.
#[inline(always)]
pub(crate) fn flush(x: f32, floor: f32) -> f32 {
    if x.abs() < floor { 0.0 } else { x }
}

/// Returns `sum + x * y`. If `fused` is true, the result is rounded only once, which is fast only
/// on CPUs with fused multiply-add. Otherwise the product and the sum are both rounded.
#[inline(always)]
pub(crate) fn add_product(sum: f32, x: f32, y: f32, fused: bool) -> f32 {
    if fused {
        x.mul_add(y, sum)
    } else {
        x * y + sum
    }
}

/// Returns `e^x`. The module documentation describes the precision and the results for special
/// values.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let clamped = if x > MAX_ARGUMENT { MAX_ARGUMENT } else { x };
    let clamped = if clamped < UNDERFLOW {
        UNDERFLOW
    } else {
        clamped
    };
    // The argument is split into `x = n ln 2 + r` with `|r| <= ln 2 / 2`.
    let rounded = clamped * LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = (clamped - n * LN_2_HIGH) - n * LN_2_LOW;
    if x < UNDERFLOW {
        0.0
    } else {
        exp_of_parts(rounded, r)
    }
}

/// Returns `2^n e^r` for `|r| <= ln 2 / 2` and `-126 <= n <= 127`, where `rounded` is `n + ROUND`.
#[inline(always)]
fn exp_of_parts(rounded: f32, r: f32) -> f32 {
    // The approximation is `e^r = 1 + r + r^2 q(r)`, where `q` is the polynomial with the smallest
    // error. Estrin's scheme evaluates it with few operations that depend on each other.
    let square = r * r;
    let low = 1.666_652_1e-1 * r + 4.999_999_4e-1;
    let high = 8.368_717e-3 * r + 4.166_839e-2;
    let q = (1.381_459_9e-3 * square + high) * square + low;
    let e_r = (q * square + r) + 1.0;
    // The lowest bits of `rounded` are `n`, which is moved to the exponent. If the argument is NaN,
    // `n` is arbitrary, but `e_r` is NaN and so is the result.
    let power_of_two = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1f32.to_bits()));
    e_r * power_of_two
}

/// Returns `1 / (1 + 2^x)`, which is the logistic function of `-x ln 2`. Results below
/// [`NEGLIGIBLE`] are 0.
#[inline(always)]
pub(crate) fn falling_sigmoid(x: f32) -> f32 {
    let clamped = if x > LOG_2_NEGLIGIBLE {
        LOG_2_NEGLIGIBLE
    } else {
        x
    };
    // The lower limit is -126 because 2^-126 is the smallest normal number.
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
