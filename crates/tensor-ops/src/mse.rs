//! Mean squared error, `mean((x - target)^2)` (`nn.MSELoss`; the book's `print_gradients` uses it).

use ndarray::{Array, ArrayRef, Dimension};

use crate::rows::check_same_shape;

/// The mean over all elements; NaN for none, as in PyTorch.
///
/// # Panics
/// If the shapes differ.
#[must_use]
pub fn mse_loss<D: Dimension>(x: &ArrayRef<f32, D>, target: &ArrayRef<f32, D>) -> f32 {
    check_same_shape("mse_loss", x, target);
    let total: f64 = x
        .iter()
        .zip(target)
        .map(|(&x, &t)| f64::from(x - t) * f64::from(x - t))
        .sum();
    (total / x.len() as f64) as f32
}

/// The gradient of `x`: `2 (x - target) d_loss / n`.
///
/// # Panics
/// If the shapes differ.
pub fn mse_loss_backward<D: Dimension>(
    x: &ArrayRef<f32, D>,
    target: &ArrayRef<f32, D>,
    d_loss: f32,
) -> Array<f32, D> {
    check_same_shape("mse_loss_backward", x, target);
    let scale = 2.0 * d_loss / x.len() as f32;
    (x - target) * scale
}
