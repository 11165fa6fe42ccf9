//! The derivative of a function of one `f32`, by central differences `(f(x + h) - f(x - h)) / 2h`
//! at steps h, h/2, h/4, ... extrapolated to h = 0 (Ridders' method).
//! It is NOT exact near a kink (ReLU at 0):
//! keep inputs away from it, or read the uncertainty.
//!
//! Why not one step?
//! A large step has a truncation error, of order h^2, and a small one drowns in the rounding of f
//! (about 1e-7 of it, divided by h).
//! With one step of 1e-3, as is usual in f64, an operation computed in f32 gets two or three
//! correct digits.
//! Extrapolation removes the h^2, h^4, ... terms, so the steps can stay large, where rounding does
//! no harm: five or six correct digits are usual.

/// Steps tried: h, h/2, ... h/2^(LEVELS - 1).
const LEVELS: usize = 5;

/// A derivative and how far it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Derivative {
    /// The best estimate.
    pub(crate) value: f64,
    /// An estimate of its error, from how well neighbouring extrapolations agree and from the
    /// rounding of an `f32` computation.
    /// Large beside a kink.
    pub(crate) uncertainty: f64,
    /// The largest `|f|` seen.
    pub(crate) magnitude: f64,
}

/// The derivative of `f` at `x`; `step` is the largest distance from `x` at which `f` is asked (2 x
/// 5 calls).
/// If `f` gives a number that is not finite, so is the result.
pub(crate) fn central_difference(x: f32, step: f64, mut f: impl FnMut(f32) -> f64) -> Derivative {
    let mut magnitude = 0.0_f64;
    let mut previous: Vec<f64> = Vec::new();
    let mut best = (f64::NAN, f64::INFINITY); // value, uncertainty
    for level in 0..LEVELS {
        let h = step / f64::from(1_u32 << level);
        // The arguments are f32: divide by the distance between them as rounded, not by 2h.
        let (right, left) = ((f64::from(x) + h) as f32, (f64::from(x) - h) as f32);
        let (f_right, f_left) = (f(right), f(left));
        if !(f_right.is_finite() && f_left.is_finite()) {
            return Derivative {
                value: f64::NAN,
                uncertainty: f64::INFINITY,
                magnitude,
            };
        }
        magnitude = magnitude.max(f_right.abs()).max(f_left.abs());
        let rounding = f64::from(f32::EPSILON) * magnitude / h;

        // Row `level` of the extrapolation table; column k has no error terms below h^(2k + 2).
        let mut row = vec![(f_right - f_left) / (f64::from(right) - f64::from(left))];
        let mut power = 1.0;
        for (k, &above) in previous.iter().enumerate() {
            power *= 4.0;
            let value = (power * row[k] - above) / (power - 1.0);
            let disagreement = (value - row[k]).abs().max((value - above).abs());
            if disagreement + rounding < best.1 {
                best = (value, disagreement + rounding);
            }
            row.push(value);
        }
        previous = row;
    }
    Derivative {
        value: best.0,
        uncertainty: best.1,
        magnitude,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polynomials_up_to_degree_eight_are_exact() {
        for degree in 0..=8 {
            let d = central_difference(0.75, 0.5, |x| f64::from(x).powi(degree));
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
            let d = central_difference(x, 0.125, |x| f64::from(x.tanh()));
            let exact = 1.0 - f64::from(x).tanh().powi(2);
            assert!(
                (d.value - exact).abs() < 1e-5,
                "at {x}: expected {exact}, got {d:?}"
            );
        }
    }

    #[test]
    fn a_kink_shows_in_the_uncertainty() {
        let d = central_difference(1e-4, 0.125, |x| f64::from(x.max(0.0)));
        assert!(d.uncertainty > 1e-4, "{d:?}");
    }
}
