//! Numerical derivatives of functions of one `f32`, computed by Ridders' method.
//!
//! To compute the derivative of a function `f` at `x`, Ridders' method evaluates central
//! differences `(f(x + h) - f(x - h)) / 2h` for the steps h, h/2, h/4 and so on, and extrapolates
//! them to h = 0.
//!
//! A single step isn't accurate enough for functions computed in `f32`. The central difference has
//! a truncation error proportional to h^2, so h must be small. But the rounding error of `f`, which
//! is about 1e-7 of its value, is divided by h, so h must be large. With the step 1e-3, which is
//! common for `f64`, only two or three digits are correct. Extrapolation eliminates the errors of
//! order h^2, h^4 and so on. The steps can then be so large that rounding doesn't matter, and five
//! or six digits are usually correct.
//!
//! The computed derivative is wrong if `x` is close to a kink of `f`, such as 0 if `f` is ReLU.
//! Avoid such inputs, or check the field `uncertainty` of the result, which is large in this case.

/// Number of steps that are tried: h, h/2 and so on, up to h/2^(NUM_STEPS - 1).
const NUM_STEPS: usize = 5;

/// An estimate of a derivative and of its error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Derivative {
    /// Best estimate of the derivative, or NaN if the function isn't finite at one of the points
    /// where it was evaluated.
    pub(crate) value: f64,
    /// Estimated error of `value`, which is computed from the difference between neighboring
    /// extrapolations and from the rounding error of `f32`. It is large near a kink of the
    /// function.
    pub(crate) uncertainty: f64,
    /// Error of `value` that is caused by the rounding errors of the function, as measured by
    /// [`rounding_noise`].
    pub(crate) noise: f64,
    /// Largest absolute value of the function at the points where it was evaluated.
    pub(crate) magnitude: f64,
}

/// Number of points at which [`rounding_noise`] evaluates the function.
const NOISE_POINTS: usize = 8;

/// Estimates the rounding error of `f` near `x` as a standard deviation. The method is that of
/// Moré and Wild ("Estimating Computational Noise", 2011): the third differences of closely spaced
/// values are nearly zero for a smooth function, so what remains is rounding error.
///
/// The rounding error of `f` can be much larger than `f32::EPSILON` times the value of `f`. For
/// example, the loss of a well-trained model is a small difference between large logits, whose
/// rounding errors are relatively large. This function returns 0 if `f` has the same value at all
/// points, and NaN if `f` isn't finite at one of them.
pub(crate) fn rounding_noise(x: f32, step: f64, f: impl FnMut(f32) -> f64) -> f64 {
    let points = (0..NOISE_POINTS).map(|i| (f64::from(x) + i as f64 * step / 16.0) as f32);
    let values: Vec<f64> = points.map(f).collect();
    let thirds = values
        .windows(4)
        .map(|v| v[3] - 3.0 * v[2] + 3.0 * v[1] - v[0]);
    // If the errors of four values are independent and have variance 1, the variance of their third
    // difference is 1 + 9 + 9 + 1 = 20.
    let variance = thirds.map(|third| third * third).sum::<f64>() / 20.0;
    (variance / (NOISE_POINTS - 3) as f64).sqrt()
}

/// Estimates the derivative of `f` at `x`. The function is evaluated at ten points, which are at
/// most `step` away from `x`. The argument `noise` is the typical rounding error of `f`.
///
/// If `f` returns an infinity or NaN at one of these points, the estimate is NaN and its
/// uncertainty is infinite.
pub(crate) fn central_difference(
    x: f32,
    step: f64,
    noise: f64,
    mut f: impl FnMut(f32) -> f64,
) -> Derivative {
    let mut magnitude = 0.0_f64;
    let mut previous: Vec<f64> = Vec::new();
    // The best value so far, its uncertainty and its noise.
    let mut best = (f64::NAN, f64::INFINITY, 0.0);
    for level in 0..NUM_STEPS {
        let h = step / f64::from(1_u32 << level);
        // `x + h` and `x - h` are rounded to `f32`, so the difference quotient must use the
        // distance between the rounded points instead of 2h.
        let (right, left) = ((f64::from(x) + h) as f32, (f64::from(x) - h) as f32);
        let (f_right, f_left) = (f(right), f(left));
        if !(f_right.is_finite() && f_left.is_finite()) {
            return Derivative {
                value: f64::NAN,
                uncertainty: f64::INFINITY,
                noise: 0.0,
                magnitude,
            };
        }
        magnitude = magnitude.max(f_right.abs()).max(f_left.abs());
        let rounding = noise.max(f64::from(f32::EPSILON) * magnitude) / h;

        // The row for the current step h in Ridders' extrapolation table. Column 0 contains the
        // central difference itself. Each further column combines neighboring estimates to
        // eliminate another error term: in column k, the error terms up to the order h^(2k) have
        // been eliminated.
        let mut row = vec![(f_right - f_left) / (f64::from(right) - f64::from(left))];
        let mut power = 1.0;
        for (k, &above) in previous.iter().enumerate() {
            power *= 4.0;
            let value = (power * row[k] - above) / (power - 1.0);
            let disagreement = (value - row[k]).abs().max((value - above).abs());
            if disagreement + rounding < best.1 {
                best = (value, disagreement + rounding, noise / h);
            }
            row.push(value);
        }
        previous = row;
    }
    Derivative {
        value: best.0,
        uncertainty: best.1,
        noise: best.2,
        magnitude,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polynomials_up_to_degree_eight_are_exact() {
        for degree in 0..=8 {
            let d = central_difference(0.75, 0.5, 0.0, |x| f64::from(x).powi(degree));
            let exact = f64::from(degree) * 0.75_f64.powi(degree - 1);
            assert!(
                (d.value - exact).abs() < 1e-9,
                "degree {degree}: expected {exact}, got {d:?}"
            );
        }
    }

    #[test]
    fn a_function_rounded_to_f32_keeps_five_digits() {
        for i in -20..=20 {
            let x = i as f32 * 0.15;
            let d = central_difference(x, 0.125, 0.0, |x| f64::from(x.tanh()));
            let exact = 1.0 - f64::from(x).tanh().powi(2);
            assert!(
                (d.value - exact).abs() < 1e-5,
                "at {x}: expected {exact}, got {d:?}"
            );
        }
    }

    #[test]
    fn rounding_errors_are_estimated_within_a_factor_of_three() {
        // This function has a known rounding error, with which the estimate is compared. Numbers
        // near 1000 can be represented only in steps of 2^-14, so adding and subtracting 1000
        // rounds the result to a multiple of 2^-14. The rounding error is distributed uniformly, so
        // its standard deviation is 2^-14 / sqrt(12).
        let exact = (-14_f64).exp2() / 12_f64.sqrt();
        for i in 1..=20 {
            let x = i as f32 * 0.15;
            let noise = rounding_noise(x, 0.125, |x| f64::from((x.tanh() + 1000.0) - 1000.0));
            assert!(
                (exact / 3.0..3.0 * exact).contains(&noise),
                "at {x}: {noise:e}"
            );
            let smooth = rounding_noise(x, 0.125, |x| f64::from(x).tanh());
            assert!(smooth < 1e-6, "at {x}: {smooth:e}");
        }
    }

    #[test]
    fn a_kink_shows_in_the_uncertainty() {
        let d = central_difference(1e-4, 0.125, 0.0, |x| f64::from(x.max(0.0)));
        assert!(d.uncertainty > 1e-4, "{d:?}");
    }
}
