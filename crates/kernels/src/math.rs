//! `exp` for loops that must vectorise: a polynomial, no table, no branch.
//!
//! Relative error below 2e-7 over the whole range (tested against `f64::exp`); infinities, NaN and overflow behave as in `f32::exp`, and results below the smallest normal number are zero.
//! It does not use fused multiply-add, so that every instruction set gives the same bits.

/// ln 2 in two pieces, the first exact in few bits, so that `n * LN_2_HIGH` is exact for |n| < 2^9.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// 1.5 * 2^23: adding and subtracting it rounds to the nearest integer without a branch.
const ROUND: f32 = 12_582_912.0;
/// Above this `exp` is infinite in f32.
const OVERFLOW: f32 = 88.722_84;
/// Below this `exp` is not a normal f32.
const UNDERFLOW: f32 = -87.336_54;

/// `e^x`.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let clamped = if x > OVERFLOW { OVERFLOW } else { x };
    let clamped = if clamped < UNDERFLOW {
        UNDERFLOW
    } else {
        clamped
    };
    // x = n ln 2 + r, |r| <= ln 2 / 2
    let rounded = clamped * std::f32::consts::LOG2_E + ROUND;
    let n = rounded - ROUND;
    let r = (clamped - n * LN_2_HIGH) - n * LN_2_LOW;
    // e^r = 1 + r + r^2 q(r): the Taylor series, economised over the interval.
    let mut q = 1.987_569_1e-4;
    q = q * r + 1.398_199_9e-3;
    q = q * r + 8.333_452e-3;
    q = q * r + 4.166_579_6e-2;
    q = q * r + 1.666_666_5e-1;
    q = q * r + 5e-1;
    let e_r = (q * (r * r) + r) + 1.0;
    // 2^n in two steps, as 2^128 itself does not fit the exponent of one f32.
    // The low bits of `rounded` are `n`; for NaN they are anything, and `e_r` carries it.
    let n = rounded.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    let half = n >> 1;
    let scaled = e_r * power_of_two(half) * power_of_two(n - half);
    let scaled = if x < UNDERFLOW { 0.0 } else { scaled };
    if x > OVERFLOW { f32::INFINITY } else { scaled }
}

/// `2^n` for |n| <= 126.
#[inline(always)]
fn power_of_two(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) << 23) as u32)
}

/// The logistic function `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_is_within_two_ulps_of_the_exact_value() {
        let mut worst = 0.0f64;
        for i in -8_700_000..=8_870_000 {
            let x = i as f32 * 1e-5;
            let exact = f64::from(x).exp();
            worst = worst.max((f64::from(exp(x)) - exact).abs() / exact);
        }
        assert!(worst < 2e-7, "largest relative error {worst:e}");
    }

    #[test]
    fn exp_treats_the_special_values_as_f32_exp_does() {
        for x in [
            0.0,
            -0.0,
            f32::INFINITY,
            f32::NEG_INFINITY,
            89.0,
            -110.0,
            f32::MAX,
            f32::MIN,
        ] {
            assert_eq!(exp(x), x.exp(), "exp({x})");
        }
        assert!(exp(f32::NAN).is_nan());
    }

    #[test]
    fn sigmoid_saturates_without_overflow() {
        assert_eq!(sigmoid(0.0), 0.5);
        assert_eq!(sigmoid(200.0), 1.0);
        assert_eq!(sigmoid(-200.0), 0.0);
    }
}
