//! ReLU, `max(0, x)` (`nn.ReLU`; book section 4.2 uses it to show normalisation).

use ndarray::{Array, ArrayRef, Dimension};

use crate::rows::with_each_of;

/// Element by element, any shape. NaN stays NaN, as in PyTorch.
#[must_use]
pub fn relu<D: Dimension>(x: &ArrayRef<f32, D>) -> Array<f32, D> {
    x.mapv(|x| if x < 0.0 { 0.0 } else { x })
}

/// The gradient of the input: `d_out` where `x > 0`, 0 elsewhere (at 0 too, as in PyTorch).
///
/// # Panics
/// If the shapes differ.
pub fn relu_backward<D: Dimension>(x: &ArrayRef<f32, D>, d_out: Array<f32, D>) -> Array<f32, D> {
    with_each_of("relu_backward", d_out, x, |d, x| {
        for (d, _) in d.iter_mut().zip(x).filter(|(_, x)| **x <= 0.0) {
            *d = 0.0;
        }
    })
}
