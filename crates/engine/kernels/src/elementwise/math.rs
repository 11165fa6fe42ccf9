//! The exponential function and related functions, written so that the compiler can vectorize them.
//! They evaluate polynomials and need neither lookup tables nor branches.
//!
//! The relative error of [`exp`] is less than 2e-7, as a test verifies by comparing it with
//! `f64::exp`. Results below the smallest normal number become 0, and NaN remains NaN. Arguments
//! above 88 are clamped to 88, which doesn't affect a softmax, because its arguments are never
//! positive. The functions don't use fused multiply-add, so their results have the same bits with
//! every instruction set.

use std::f32::consts::{LN_2, LOG2_E};

/// High part of ln 2, which is split into the sum `LN_2_HIGH + LN_2_LOW`. The high part has only
/// nine significant bits, so `n * LN_2_HIGH` is exact for all integers `n` with `|n| < 512`.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// The number 1.5 * 2^23. Adding it to a number with a magnitude of at most 2^22 and then
/// subtracting it again rounds that number to the nearest integer without a branch.
pub(crate) const ROUND: f32 = 12_582_912.0;
/// Largest argument of [`exp`] that isn't clamped. Its exponential is less than 2^127, the largest
/// power of two that an `f32` can represent.
const MAX_ARGUMENT: f32 = 88.0;
/// Smallest argument of [`exp`] whose result is a normal number.
const UNDERFLOW: f32 = -87.336_54;

/// Threshold (2^-64) below which the exponentials of a softmax are set to 0.
///
/// Setting exponentials below this threshold to 0 makes no noticeable difference. The sum of all
/// exponentials is at least 1, so its rounding error is about 2^40 times as large as each of these
/// exponentials. If they were kept, the backward pass would be slower, because their products are
/// often denormal numbers, which many CPUs process a hundred times more slowly than other numbers.
pub const NEGLIGIBLE: f32 = 5.421_011e-20;
/// Negative binary logarithm of [`NEGLIGIBLE`].
const LOG_2_NEGLIGIBLE: f32 = 64.0;

/// Returns `x`, or 0 if the magnitude of `x` is less than `floor`. NaN remains NaN.
#[inline(always)]
pub(crate) fn flush(x: f32, floor: f32) -> f32 {
    if x.abs() < floor { 0.0 } else { x }
}

/// Returns `sum + x * y`. If `fused` is true, the result is rounded only once, which is fast only
/// on CPUs that support fused multiply-add. Otherwise, both the product and the sum are rounded.
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
    // To compute `e^x`, the argument is split into `x = n ln 2 + r`, where `n` is an integer and
    // `|r| <= ln 2 / 2`. Then `e^x` is `2^n e^r`. The factor `2^n` requires only setting the
    // exponent bits, and a polynomial approximates `e^r`.
    let rounded = clamped * LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = (clamped - n * LN_2_HIGH) - n * LN_2_LOW;
    if x < UNDERFLOW {
        0.0
    } else {
        exp_of_parts(rounded, r)
    }
}

/// Returns `2^n e^r`, the last step of computing an exponential. The magnitude of `r` is at most
/// `ln 2 / 2`, and `rounded` is `n + ROUND` for an integer `n` from -126 to 127.
#[inline(always)]
fn exp_of_parts(rounded: f32, r: f32) -> f32 {
    // `e^r` is approximated by `1 + r + r^2 q(r)`, where the coefficients of the polynomial `q`
    // minimize the error. Estrin's scheme evaluates it with a short chain of dependent operations.
    let square = r * r;
    let low = 1.666_652_1e-1 * r + 4.999_999_4e-1;
    let high = 8.368_717e-3 * r + 4.166_839e-2;
    let q = (1.381_459_9e-3 * square + high) * square + low;
    let e_r = (q * square + r) + 1.0;
    // The lowest bits of `rounded` are the bits of `n`. Shifting them to the position of the
    // exponent and adding the bits of 1.0 produces the bits of 2^n. If the argument is NaN, `n` is
    // arbitrary, but the result is NaN because `e_r` is NaN.
    let power_of_two = f32::from_bits((rounded.to_bits() << 23).wrapping_add(1f32.to_bits()));
    e_r * power_of_two
}

/// Returns `1 / (1 + 2^x)`, which is the sigmoid function of `-x ln 2`. Results below
/// [`NEGLIGIBLE`] become 0.
#[inline(always)]
pub(crate) fn falling_sigmoid(x: f32) -> f32 {
    let clamped = if x > LOG_2_NEGLIGIBLE {
        LOG_2_NEGLIGIBLE
    } else {
        x
    };
    // `exp_of_parts` multiplies by a power of two, which must be a normal number, so its exponent
    // must be at least -126. Replacing a smaller `x` with -126 doesn't change the result, because
    // `2^x` is then so small that `1 / (1 + 2^x)` is rounded to 1.
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
