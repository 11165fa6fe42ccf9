//! Gradient checking, which compares a gradient that was derived by hand with numerical
//! derivatives, one element at a time.
//!
//! The error of an element is defined as follows, where `gradient_scale` and
//! `noise` are explained below:
//!
//! ```text
//! |analytic - numeric| / max(|analytic|, |numeric|, gradient_scale, 8 * noise / tolerance)
//! ```
//!
//! The functions in this module don't run the backward pass. Instead, the caller passes the
//! gradient that the backward pass has computed.
//!
//! # The objective
//!
//! A gradient check needs a function with a single output, but most operations have many.
//! Therefore, we check `objective = sum(out * weights)`, where the weights are fixed random numbers
//! ([`projection_weights`](crate::projection_weights)) and the sum is computed in `f64`
//! ([`project`](crate::project)). The gradient of this objective is what the backward pass returns
//! for `d_out = weights`.
//!
//! The weights must be random. If all of them were 1, the objective would be constant for softmax,
//! whose rows sum to 1, and for LayerNorm, whose rows sum to 0. The numerical derivatives would be
//! zero, and so would the result of many wrong backward passes.
//!
//! # The tolerance
//!
//! An operation in `f32` has rounding errors of about 1e-7 of its output. A difference quotient
//! divides these errors by the step. Three choices reduce the resulting noise to about 1e-5 of the
//! gradient:
//!
//! - The step is proportional to the size of the parameters, because the scale at which a function
//!   curves often is, too. For example, LayerNorm curves ten times as fast for inputs of size 0.1
//!   as for inputs of size 1. The default is one eighth of the root mean square of the parameters.
//! - Extrapolation permits steps as large as this one (see `difference.rs`).
//! - The error of an element is relative to the root mean square of the whole gradient. If one
//!   element happens to be 1e-6 and the others are about 1, the small one has no correct digits
//!   that could be compared.
//!
//! Some gradients are zero in theory. For example, a bias of the keys shifts all attention scores
//! in a row by the same amount, which doesn't change their softmax. The numerical derivatives of
//! such a gradient consist only of noise, and dividing by their size would make the error of a
//! correct gradient large. Therefore, `gradient_scale`, by which the difference is divided, has a
//! lower limit. For a difference that is only noise, of the size
//! `4 * f32::EPSILON * max|objective| / step`, this limit makes the error equal to the tolerance.
//!
//! The rounding error of an objective can be much larger than `f32::EPSILON` times its value. For
//! example, the loss of a well-trained model is a small difference between large logits. Therefore,
//! the rounding error is measured (see `difference.rs`). An element's `noise` is the error that it
//! causes in the numerical derivative. A correct gradient passes even if the noise is larger than
//! the tolerance, but only mistakes that are larger than the noise are detected. In this case, use
//! the logits and [`project`](crate::project) instead of the loss.
//!
//! The default tolerance is 1e-3, which is 10 to 100 times the noise. The errors that actual
//! mistakes cause, such as a missing factor or term, a wrong sign or a transposed matrix, are 0.01
//! or larger.

use std::fmt;

use ndarray::{Array, ArrayRef, Dimension};

use crate::close::index_at;
use crate::difference::{central_difference, rounding_noise};

/// Number of elements of the parameters that are used to measure the rounding error of the
/// objective. For each of these elements, the objective is evaluated at several points that are
/// close to the parameters and differ from them only in this element.
const NOISE_ELEMENTS: usize = 4;

/// Settings of a gradient check.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradientCheck {
    /// Largest relative error that is accepted.
    pub tolerance: f64,
    /// Largest step by which an element is changed. If it is `None`, the step is one eighth of the
    /// root mean square of the parameters, rounded to a power of two. If all parameters are 0, the
    /// step is 1/8.
    pub step: Option<f64>,
    /// Largest number of elements to check. If there are more elements, the check uses a sample
    /// that is spread evenly over them. The objective is evaluated ten times for each element that
    /// is checked, and up to 32 times to measure its rounding error.
    pub max_elements: usize,
}

impl Default for GradientCheck {
    fn default() -> Self {
        Self {
            tolerance: 1e-3,
            step: None,
            max_elements: usize::MAX,
        }
    }
}

/// The result of a gradient check. Its `Display` implementation writes it as one line of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct GradientReport {
    /// Number of elements that were compared.
    pub checked: usize,
    /// Largest relative error of an element. It is infinite if a number isn't finite, and 0 if
    /// there are no elements.
    pub max_rel_error: f64,
    /// Index of the element with the largest error, or `None` if there are no elements.
    pub worst: Option<Vec<usize>>,
    /// One-line summary of the gradient check. It contains the name of the check, the scale of the
    /// gradient, and both derivatives (analytic and numerical) of the element with the largest
    /// error.
    line: String,
}

impl fmt::Display for GradientReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl GradientCheck {
    /// Compares the gradient `analytic` with numerical derivatives of `objective` at `parameters`.
    /// The objective is called with copies of the parameters in which one element has been changed.
    /// Unlike [`check`](Self::check), this function doesn't panic if the gradient is wrong.
    ///
    /// # Panics
    ///
    /// Panics if `parameters` and `analytic` have different shapes.
    #[track_caller]
    pub fn measure<D: Dimension>(
        &self,
        name: &str,
        parameters: &ArrayRef<f32, D>,
        analytic: &ArrayRef<f32, D>,
        mut objective: impl FnMut(&Array<f32, D>) -> f64,
    ) -> GradientReport {
        let shape = parameters.shape();
        assert!(
            shape == analytic.shape(),
            "{name}: the parameters have shape {shape:?}, but the gradient has shape {:?}",
            analytic.shape(),
        );
        let mut changed = Array::zeros(parameters.raw_dim()); // This copy is in row-major order, whatever the layout of `parameters`.
        changed.assign(parameters);
        let analytic: Vec<f32> = analytic.iter().copied().collect();
        let step = self.step.unwrap_or_else(|| default_step(parameters));
        let set = |changed: &mut Array<f32, D>, position: usize, value| {
            let elements = changed.as_slice_mut().expect("row-major");
            std::mem::replace(&mut elements[position], value)
        };
        let mut noise = 0.0_f64;
        for position in spread_positions(parameters.len(), self.max_elements.min(NOISE_ELEMENTS)) {
            let x = set(&mut changed, position, 0.0);
            noise = noise.max(rounding_noise(x, step, |value| {
                set(&mut changed, position, value);
                objective(&changed)
            }));
            set(&mut changed, position, x);
        }
        let mut magnitude = 0.0_f64;
        let mut elements = Vec::new(); // The position, the analytic derivative and the numerical derivative of each element.
        for position in spread_positions(parameters.len(), self.max_elements) {
            let x = set(&mut changed, position, 0.0);
            // If an element `x` is much larger than the others, the points `x + h` and `x - h` are
            // rounded more coarsely. A larger step h compensates for this.
            let step = step.max(f64::from(x.abs()) / 512.0);
            let derivative = central_difference(x, step, noise, |value| {
                set(&mut changed, position, value);
                objective(&changed)
            });
            set(&mut changed, position, x);
            magnitude = magnitude.max(derivative.magnitude);
            elements.push((position, f64::from(analytic[position]), derivative));
        }

        let noise = 4.0 * f64::from(f32::EPSILON) * magnitude / step;
        let gradient_scale = root_mean_square(elements.iter().map(|&(_, analytic, _)| analytic))
            .max(root_mean_square(
                elements.iter().map(|(_, _, numeric)| numeric.value),
            ))
            .max(noise / self.tolerance);
        let errors = elements.iter().map(|(position, analytic, numeric)| {
            let difference = (analytic - numeric.value).abs();
            let scale = gradient_scale
                .max(analytic.abs())
                .max(numeric.value.abs())
                .max(8.0 * numeric.noise / self.tolerance);
            let error = match difference {
                0.0 => 0.0, // This arm also avoids dividing 0 by 0.
                _ if difference.is_finite() => difference / scale,
                _ => f64::INFINITY,
            };
            (error, *position, *analytic, numeric)
        });
        let worst = errors.max_by(|one, other| one.0.total_cmp(&other.0));
        let (checked, allowed) = (elements.len(), self.tolerance);
        let max_rel_error = worst.map_or(0.0, |(error, ..)| error);
        let mut line = format!(
            "{name:<32} {checked:>6} elements checked, largest relative error {max_rel_error:9.2e} \
             (allowed: {allowed:.0e}), scale of the gradient {gradient_scale:9.2e}"
        );
        let worst = worst.map(|(_, position, analytic, numeric)| {
            let index = index_at(parameters, position);
            let (value, uncertainty) = (numeric.value, numeric.uncertainty);
            line += &format!(", largest error at {index:?}: analytic derivative {analytic:.6e}, ");
            // Near a kink, the uncertainty is larger than the difference.
            line += &format!("numerical derivative {value:.6e} +- {uncertainty:.0e}");
            index
        });
        GradientReport {
            checked,
            max_rel_error,
            worst,
            line,
        }
    }

    /// Compares the gradient like [`measure`](Self::measure), prints the report, and panics if the
    /// gradient is wrong.
    ///
    /// # Panics
    ///
    /// Panics if the shapes differ, or if the error of an element is larger than the tolerance. The
    /// message contains the report.
    #[track_caller]
    pub fn check<D: Dimension>(
        &self,
        name: &str,
        parameters: &ArrayRef<f32, D>,
        analytic: &ArrayRef<f32, D>,
        objective: impl FnMut(&Array<f32, D>) -> f64,
    ) -> GradientReport {
        let report = self.measure(name, parameters, analytic, objective);
        println!("{report}");
        let passed = report.max_rel_error <= self.tolerance;
        assert!(passed, "the gradient is wrong: {report}");
        report
    }
}

/// Checks a gradient with the default settings of [`GradientCheck`].
///
/// ```
/// use ndarray::array;
/// use test_support::check_gradient;
///
/// // objective = sum(x^3), gradient = 3 x^2
/// let (x, d_x) = (array![0.5_f32, -1.0, 2.0], array![0.75, 3.0, 12.0]);
/// let report = check_gradient("cube", &x, &d_x, |x| {
///     x.iter().map(|&x| f64::from(x * x * x)).sum()
/// });
/// assert!(report.max_rel_error < 1e-4);
/// ```
///
/// # Panics
///
/// Panics under the same conditions as [`GradientCheck::check`].
#[track_caller]
pub fn check_gradient<D: Dimension>(
    name: &str,
    parameters: &ArrayRef<f32, D>,
    analytic: &ArrayRef<f32, D>,
    objective: impl FnMut(&Array<f32, D>) -> f64,
) -> GradientReport {
    GradientCheck::default().check(name, parameters, analytic, objective)
}

/// Returns one eighth of the root mean square of the parameters, rounded to a power of two. Powers
/// of two make the rounding error of `x + h` smaller.
fn default_step<D: Dimension>(parameters: &ArrayRef<f32, D>) -> f64 {
    let size = root_mean_square(parameters.iter().map(|&x| f64::from(x)));
    let size = if size > 0.0 && size.is_finite() {
        size
    } else {
        1.0
    };
    (size / 8.0).log2().round().exp2()
}

fn root_mean_square(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0), |(sum, n), x| (sum + x * x, n + 1));
    if n == 0 {
        0.0
    } else {
        (sum / f64::from(n)).sqrt()
    }
}

/// Returns at most `max` positions that are spread evenly over `0..n`.
fn spread_positions(n: usize, max: usize) -> impl Iterator<Item = usize> {
    let count = n.min(max);
    (0..count).map(move |i| (i as u128 * n as u128 / count as u128) as usize)
}
