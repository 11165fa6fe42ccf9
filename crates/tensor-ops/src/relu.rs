//! The activation function ReLU, `max(0, x)` (`nn.ReLU`). Section 4.2 of the book uses it to
//! demonstrate normalization.

use ndarray::{Array, ArrayRef, Dimension};

use crate::rows::with_each_of;

/// Applies ReLU to each element of an array of any shape. As in PyTorch, NaN remains NaN.
#[must_use]
pub fn relu<D: Dimension>(x: &ArrayRef<f32, D>) -> Array<f32, D> {
    x.mapv(|x| if x < 0.0 { 0.0 } else { x })
}

/// Returns the gradient of the input. It is 0 where `x <= 0`, and `d_out` elsewhere. This is the
/// same convention as in PyTorch for the kink at `x = 0`, where ReLU has no derivative.
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
