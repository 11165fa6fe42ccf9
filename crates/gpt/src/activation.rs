//! The activation between the two layers of a feed-forward network.
//!
//! The book and GPT-2 have GELU in the tanh form; models that others made have its exact form or
//! ReLU.

use ndarray::{Array, ArrayRef, Dimension};
use tensor_ops::{gelu, gelu_backward, gelu_exact, gelu_exact_backward, relu, relu_backward};

/// Element by element, any shape.
///
/// ```
/// use gpt::Activation;
/// let x = ndarray::array![-1.0, 2.0];
/// assert_eq!(Activation::Relu.forward(&x), ndarray::array![0.0, 2.0]);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum Activation {
    /// GELU in the tanh form (book listing 4.3): `gelu_new` in Hugging Face's configurations.
    #[default]
    GeluTanh,
    /// GELU as it is defined: `gelu`.
    Gelu,
    /// `max(0, x)`: `relu`.
    Relu,
}

impl Activation {
    /// Its name in Hugging Face's configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::GeluTanh => "gelu_new",
            Self::Gelu => "gelu",
            Self::Relu => "relu",
        }
    }

    /// Each number activated.
    #[must_use]
    pub fn forward<D: Dimension>(self, x: &ArrayRef<f32, D>) -> Array<f32, D> {
        match self {
            Self::GeluTanh => gelu(x),
            Self::Gelu => gelu_exact(x),
            Self::Relu => relu(x),
        }
    }

    /// The gradient of the input `x` that [`forward`](Self::forward) had.
    ///
    /// # Panics
    /// If the shapes differ.
    pub fn backward<D: Dimension>(
        self,
        x: &ArrayRef<f32, D>,
        d_out: Array<f32, D>,
    ) -> Array<f32, D> {
        match self {
            Self::GeluTanh => gelu_backward(x, d_out),
            Self::Gelu => gelu_exact_backward(x, d_out),
            Self::Relu => relu_backward(x, d_out),
        }
    }
}
