//! The activation function between the two layers of a feed-forward network.
//!
//! The tanh approximation of GELU is the activation function of the book's model and of GPT-2. Some
//! other models that this project can load use the exact GELU or ReLU.

use ndarray::{Array, ArrayRef, Dimension};
use tensor_ops::{gelu, gelu_backward, gelu_exact, gelu_exact_backward, relu, relu_backward};

/// An activation function, which is applied to each element of an array.
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
    /// The tanh approximation of GELU (listing 4.3). Hugging Face's configurations call it
    /// `gelu_new`.
    #[default]
    GeluTanh,
    /// The exact GELU, which uses the error function. Hugging Face's configurations call it `gelu`.
    Gelu,
    /// ReLU, which is `max(0, x)`. Hugging Face's configurations call it `relu`.
    Relu,
}

impl Activation {
    /// Returns the name of this function in Hugging Face's configurations.
    pub fn name(self) -> &'static str {
        match self {
            Self::GeluTanh => "gelu_new",
            Self::Gelu => "gelu",
            Self::Relu => "relu",
        }
    }

    /// Applies this function to each element of `x`. The result has the same shape.
    #[must_use]
    pub fn forward<D: Dimension>(self, x: &ArrayRef<f32, D>) -> Array<f32, D> {
        match self {
            Self::GeluTanh => gelu(x),
            Self::Gelu => gelu_exact(x),
            Self::Relu => relu(x),
        }
    }

    /// Returns the gradient of the loss with respect to `x`, the input of
    /// [`forward`](Self::forward). `d_out` is the gradient of the loss with respect to the output
    /// of `forward`.
    ///
    /// # Panics
    ///
    /// Panics if the shapes of `x` and `d_out` differ.
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
