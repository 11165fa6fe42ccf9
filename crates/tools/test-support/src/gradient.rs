//! Gradient checking: a hand-written gradient against central differences of the objective, element
//! by element;
//! `error_i = |analytic_i - numeric_i| / max(|analytic_i|, |numeric_i|, gradient_scale)`.
//! It does NOT run the backward pass: hand it the gradient.
//!
//! # The objective
//!
//! An operation has many outputs, a gradient check needs one number: `objective = sum(out *
//! weights)` with fixed random weights ([`projection_weights`](crate::projection_weights)), summed
//! in f64 ([`project`](crate::project)). Its gradient is the result of `backward` for `d_out =
//! weights`. Random weights matter: with all ones, softmax (rows sum to 1) and LayerNorm (rows sum
//! to 0) have a gradient of zero and a wrong backward pass looks right.
//!
//! # The tolerance
//!
//! The operation itself runs in f32, so its outputs carry rounding errors near 1e-7 of their size,
//! and a difference quotient divides them by the step.
//! Three habits keep the noise near 1e-5 of the gradient:
//! the step follows the size of the parameters (an eighth of their root mean square: at scale 0.1
//! LayerNorm bends ten times as fast as at scale 1), extrapolation allows such large steps
//! ([`central_difference`]), and an element is measured against the root mean square of the whole
//! gradient, not against itself alone: an element that happens to be 1e-6 among ones has no correct
//! digits to compare.
//!
//! Some gradients are zero by their nature (a bias of the keys shifts all scores of a row alike),
//! and then there is only noise.
//! So `gradient_scale` is never under the size at which the noise,
//! `4 * f32::EPSILON * max|objective| / step`, is exactly the tolerance.
//!
//! The default tolerance of 1e-3 leaves a margin of some 10 to 100 over the noise, while the
//! mistakes that happen (a lost factor, a missing term, a wrong sign, a transposed matrix) are
//! errors of 0.01 and up.

use std::fmt;

use ndarray::{Array, ArrayRef, Dimension};

use crate::close::index_at;
use crate::difference::central_difference;

/// Settings of a check; `..Default::default()` for the rest.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct GradientCheck {
    /// The largest relative error that passes.
    pub tolerance: f64,
    /// The largest step; `None` takes an eighth of the parameters' root mean square (1/8 if all are
    /// 0).
    pub step: Option<f64>,
    /// Elements to check, spread evenly over the parameters: each costs ten evaluations of the
    /// objective.
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

/// The result of a check. Printed with `{}` it is one line of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct GradientReport {
    /// The number of elements that were compared.
    pub checked: usize,
    /// The largest relative error; infinite if a number is not finite, 0 for no elements.
    pub max_rel_error: f64,
    /// The index of the element that has it; `None` for no elements.
    pub worst: Option<Vec<usize>>,
    /// The name of the check, the gradient's size, and the worst element's two gradients.
    line: String,
}

impl fmt::Display for GradientReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.line)
    }
}

impl GradientCheck {
    /// Compares `analytic` with the differences of `objective` at `parameters`; does not panic on a
    /// wrong gradient.
    /// The objective sees the parameters with one element moved.
    ///
    /// # Panics
    ///
    /// If `parameters` and `analytic` have different shapes.
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
            "{name}: parameters of shape {shape:?}, gradient of shape {:?}",
            analytic.shape(),
        );
        let mut moved = Array::zeros(parameters.raw_dim()); // row-major, for any strides
        moved.assign(parameters);
        let analytic: Vec<f32> = analytic.iter().copied().collect();
        let step = self.step.unwrap_or_else(|| default_step(parameters));
        let mut magnitude = 0.0_f64;
        let mut elements = Vec::new(); // (position, analytic, derivative)
        for position in spread(parameters.len(), self.max_elements) {
            let set = |moved: &mut Array<f32, D>, value| {
                let elements = moved.as_slice_mut().expect("row-major");
                std::mem::replace(&mut elements[position], value)
            };
            let x = set(&mut moved, 0.0);
            // An outlier needs a step that its own precision can resolve.
            let step = step.max(f64::from(x.abs()) / 512.0);
            let derivative = central_difference(x, step, |value| {
                set(&mut moved, value);
                objective(&moved)
            });
            set(&mut moved, x);
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
            let scale = gradient_scale.max(analytic.abs()).max(numeric.value.abs());
            let error = match difference {
                0.0 => 0.0, // also where the scale is 0
                _ if difference.is_finite() => difference / scale,
                _ => f64::INFINITY,
            };
            (error, *position, *analytic, numeric)
        });
        let worst = errors.max_by(|one, other| one.0.total_cmp(&other.0));
        let (checked, allowed) = (elements.len(), self.tolerance);
        let max_rel_error = worst.map_or(0.0, |(error, ..)| error);
        let mut line = format!(
            "{name:<32} {checked:>6} elements  error {max_rel_error:9.2e}  allowed {allowed:.0e}  \
             scale {gradient_scale:9.2e}"
        );
        let worst = worst.map(|(_, position, analytic, numeric)| {
            let index = index_at(parameters, position);
            let (value, uncertainty) = (numeric.value, numeric.uncertainty);
            line += &format!("  worst at {index:?}: analytic {analytic:.6e}, ");
            // Beside a kink the uncertainty is larger than the difference.
            line += &format!("numeric {value:.6e} +- {uncertainty:.0e}");
            index
        });
        GradientReport {
            checked,
            max_rel_error,
            worst,
            line,
        }
    }

    /// Takes the [`measure`](Self::measure), prints it as a line of a table, and fails if the
    /// gradient is wrong.
    ///
    /// # Panics
    ///
    /// If the shapes differ, or if an element is wrong by more than the tolerance; the message is
    /// the report.
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
        assert!(passed, "wrong gradient: {report}");
        report
    }
}

/// [`GradientCheck::check`] with the default settings.
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
/// As [`GradientCheck::check`].
#[track_caller]
pub fn check_gradient<D: Dimension>(
    name: &str,
    parameters: &ArrayRef<f32, D>,
    analytic: &ArrayRef<f32, D>,
    objective: impl FnMut(&Array<f32, D>) -> f64,
) -> GradientReport {
    GradientCheck::default().check(name, parameters, analytic, objective)
}

/// An eighth of the parameters' root mean square, rounded to a power of two so that `x + h` rounds
/// less.
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

/// At most `max` positions, spread evenly over `0..n`.
fn spread(n: usize, max: usize) -> impl Iterator<Item = usize> {
    let count = n.min(max);
    (0..count).map(move |i| (i as u128 * n as u128 / count as u128) as usize)
}
