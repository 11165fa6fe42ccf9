//! The mean squared error, `mean((x - target)^2)` (`nn.MSELoss`). The book uses this loss in the
//! function `print_gradients` of section 4.4.

use ndarray::{Array, ArrayRef, Dimension};

use crate::rows::check_same_shape;

/// Returns the mean of the squared differences between `x` and `target`. As in PyTorch, the result
/// is NaN if the arrays are empty.
///
/// # Panics
///
/// Panics if the shapes differ.
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

/// Returns the gradient of the mean squared error with respect to `x`, multiplied by `d_loss`, the
/// gradient of the loss. The result is `2 (x - target) d_loss / n`, where `n` is the number of
/// elements.
///
/// # Panics
///
/// Panics if the shapes differ.
pub fn mse_loss_backward<D: Dimension>(
    x: &ArrayRef<f32, D>,
    target: &ArrayRef<f32, D>,
    d_loss: f32,
) -> Array<f32, D> {
    check_same_shape("mse_loss_backward", x, target);
    let scale = 2.0 * d_loss / x.len() as f32;
    (x - target) * scale
}
