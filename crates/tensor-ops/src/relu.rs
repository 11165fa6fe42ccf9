//! The activation function ReLU, `max(0, x)` (`nn.ReLU`). Section 4.2 of the book uses it in its
//! introduction to layer normalization.

use ndarray::{Array, ArrayRef, Dimension};

use crate::rows::with_each_of;

/// Applies ReLU to each element of an array of any shape. As in PyTorch, NaN remains NaN.
#[must_use]
pub fn relu<D: Dimension>(x: &ArrayRef<f32, D>) -> Array<f32, D> {
    x.mapv(|x| if x < 0.0 { 0.0 } else { x })
}

/// Returns the gradient of the input. It is equal to `d_out` where `x` is positive or NaN, and 0
/// elsewhere. At `x = 0`, ReLU has no derivative, and PyTorch also defines the gradient as 0.
///
/// # Panics
///
/// Panics if the shapes differ.
pub fn relu_backward<D: Dimension>(x: &ArrayRef<f32, D>, d_out: Array<f32, D>) -> Array<f32, D> {
    with_each_of("relu_backward", d_out, x, |d, x| {
        for (d, _) in d.iter_mut().zip(x).filter(|(_, x)| **x <= 0.0) {
            *d = 0.0;
        }
    })
}
