//! The activation function GELU in the exact form, `x Phi(x) = x (1 + erf(x / sqrt(2))) / 2`, where
//! `Phi` is the cumulative distribution function of the standard normal distribution (Hendrycks and
//! Gimpel, 2016). Section 4.3 of the book mentions this form.
//!
//! Each result is computed in `f64` and then rounded to `f32`. GPT-2 was trained with the
//! approximate form, which is in the module `gelu`.

use std::f64::consts::{PI, SQRT_2};

use ndarray::{Array, ArrayRef, Dimension};
use rayon::prelude::*;

use crate::rows::{into_contiguous, slice_mut, with_each_of};

/// Applies the exact form of GELU to each element of an array of any shape, like `nn.GELU()` in
/// PyTorch.
///
/// ```
/// let y = tensor_ops::gelu_exact(&ndarray::array![-1.0, 0.0, 1.0]);
/// assert!((y[2] - 0.841345).abs() < 1e-6); // the tanh form gives 0.841192
/// ```
#[must_use]
pub fn gelu_exact<D: Dimension>(x: &ArrayRef<f32, D>) -> Array<f32, D> {
    let mut y = into_contiguous(x.to_owned());
    slice_mut(&mut y).par_iter_mut().for_each(|y| {
        let x = f64::from(*y);
        *y = (x * phi(x)) as f32;
    });
    y
}

/// Returns the gradient of the input, `d_out * (Phi(x) + x Phi'(x))`, where `x` is the input of
/// [`gelu_exact`] and `d_out` is the gradient of its output.
///
/// # Panics
///
/// Panics if the shapes differ.
pub fn gelu_exact_backward<D: Dimension>(
    x: &ArrayRef<f32, D>,
    d_out: Array<f32, D>,
) -> Array<f32, D> {
    with_each_of("gelu_exact_backward", d_out, x, |d, x| {
        for (d, &x) in d.iter_mut().zip(x) {
            let x = f64::from(x);
            let density = (-x * x / 2.0).exp() / (2.0 * PI).sqrt();
            *d *= (phi(x) + x * density) as f32;
        }
    })
}

/// Returns the cumulative distribution function of the standard normal distribution at `x`. It is
/// computed with the complementary error function `erfc`, because `1 + erf` would lose precision
/// for results close to 0.
fn phi(x: f64) -> f64 {
    libm::erfc(-x / SQRT_2) / 2.0
}
