//! The activation function GELU in the approximate form, which uses `tanh`: `0.5 x (1 +
//! tanh(sqrt(2/pi) (x + 0.044715 x^3)))` (book listing 4.3). GPT-2 was trained with this form.
//!
//! The module `gelu_exact` contains the exact form, `x Phi(x)`. The results of the two forms differ
//! by up to 5e-4.

use kernels::elementwise;
use ndarray::{Array, ArrayRef, Dimension};

use crate::rows::{WIDTH, fresh_rows, with_each_of};

/// Applies the approximate form of GELU to each element of an array of any shape, like
/// `nn.GELU(approximate="tanh")` in PyTorch. This function is a faster version of `gpt::gelu`,
/// which follows the book's listing and computes the same result.
///
/// ```
/// let y = tensor_ops::gelu(&ndarray::array![-1.0, 0.0, 1.0]);
/// assert!((y[2] - 0.841192).abs() < 1e-6);
/// ```
#[must_use]
pub fn gelu<D: Dimension>(x: &ArrayRef<f32, D>) -> Array<f32, D> {
    let x = x.as_standard_layout();
    let dim = x.raw_dim();
    let x = x.as_slice().expect("made contiguous above");
    let out = fresh_rows(x.len(), WIDTH, |block, out| {
        elementwise::gelu(&x[block * WIDTH..][..out.len()], out);
    });
    Array::from_shape_vec(dim, out).expect("as many numbers as the input has")
}

/// Returns the gradient of the input, `d_out * gelu'(x)`, where `x` is the input of [`gelu`] and
/// `d_out` is the gradient of its output.
///
/// # Panics
///
/// Panics if the shapes differ.
pub fn gelu_backward<D: Dimension>(x: &ArrayRef<f32, D>, d_out: Array<f32, D>) -> Array<f32, D> {
    with_each_of("gelu_backward", d_out, x, |d, x| {
        elementwise::gelu_backward(x, d);
    })
}
