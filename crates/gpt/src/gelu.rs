//! The book's `GELU` module (listing 4.3): [`tensor_ops::gelu`] as a layer without weights.

use ndarray::{Array, ArrayRef, Dimension};

/// GELU in its tanh form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gelu;

impl Gelu {
    /// Element by element, any shape.
    pub fn forward<D: Dimension>(&self, x: &ArrayRef<f32, D>) -> Array<f32, D> {
        tensor_ops::gelu(x)
    }

    /// The gradient of the input, `x` being the input that `forward` had.
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn backward<D: Dimension>(
        &self,
        x: &ArrayRef<f32, D>,
        d_out: Array<f32, D>,
    ) -> Array<f32, D> {
        tensor_ops::gelu_backward(x, d_out)
    }
}
