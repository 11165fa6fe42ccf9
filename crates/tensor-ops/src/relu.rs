//! ReLU, `max(0, x)` (`nn.ReLU`; book section 4.2 uses it to show normalisation).

use ndarray::{Array, ArrayRef, Dimension, Zip};

use crate::rows::check_same_shape;

/// Element by element, any shape. NaN stays NaN, as in PyTorch.
#[must_use]
pub fn relu<D: Dimension>(x: &ArrayRef<f32, D>) -> Array<f32, D> {
    x.mapv(|x| if x < 0.0 { 0.0 } else { x })
}

/// The gradient of the input: `d_out` where `x > 0`, 0 elsewhere (at 0 too, as in PyTorch).
///
/// # Panics
/// If the shapes differ.
pub fn relu_backward<D: Dimension>(
    x: &ArrayRef<f32, D>,
    mut d_out: Array<f32, D>,
) -> Array<f32, D> {
    check_same_shape("relu_backward", x, &d_out);
    Zip::from(&mut d_out).and(x).for_each(|d, &x| {
        if x <= 0.0 {
            *d = 0.0;
        }
    });
    d_out
}
