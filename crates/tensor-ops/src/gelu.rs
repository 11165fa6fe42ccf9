//! The activation function GELU in the form with `tanh`,
//! `0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))` (book listing 4.3). GPT-2 was trained with
//! this form.
//!
//! The exact form, `x Phi(x)`, is in `gelu_exact.rs`. The two forms differ by up to 5e-4.

use kernels::elementwise;
use ndarray::{Array, ArrayRef, Dimension};

use crate::rows::{WIDTH, fresh_rows, with_each_of};

/// Applies GELU to each element of an array of any shape. The result is the same as that of
/// `gpt::gelu`, which follows the listing of the book, but it is computed faster. In PyTorch, this
/// is `nn.GELU(approximate="tanh")`.
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

/// Returns the gradient of the input, `d_out * gelu'(x)`. `x` is the input of [`gelu`], and `d_out`
/// is the gradient of its output.
///
/// # Panics
///
/// Panics if the shapes differ.
pub fn gelu_backward<D: Dimension>(x: &ArrayRef<f32, D>, d_out: Array<f32, D>) -> Array<f32, D> {
    with_each_of("gelu_backward", d_out, x, |d, x| {
        elementwise::gelu_backward(x, d);
    })
}
