//! Linear layers, `y = x W^T + b` (`torch.nn.Linear`), for inputs with any number of leading
//! dimensions.
//!
//! A layer doesn't store its input for the backward pass. Instead, the caller must pass the input
//! to `backward` again. If several layers have the same input, such as the layers for queries, keys
//! and values, the input therefore has to be stored only once.

use kernels::{Dtype, OPERAND_DTYPES};
use ndarray::{Array, Array1, Array2, ArrayRef, Dimension};
use torch_rng::TorchRng;

use crate::matmul::{matmul_in, matmul_into_in, matmul_plus_row};
use crate::parameters;
use crate::rows::{
    add_column_sums, as_rows, into_contiguous, slice_mut, with_leading_dims_of, zero_weights,
};

/// A linear layer. To store the gradients of its weights, use a second value of this type.
#[derive(Clone, Debug, PartialEq)]
pub struct Linear {
    /// Weights, with the shape `(out_features, in_features)` as in PyTorch's `nn.Linear`.
    pub weight: Array2<f32>,
    /// Bias with `out_features` elements, or `None` if the layer has no bias.
    pub bias: Option<Array1<f32>>,
    /// Number format to which the operands of the matrix products are rounded in the forward and
    /// backward passes, either float32 or bfloat16. The weights, the gradients and the sums are
    /// always stored in float32.
    pub dtype: Dtype,
}

impl Linear {
    /// Creates a layer with a random weight matrix and, if `bias` is true, a random bias, which is
    /// drawn after the matrix. As in PyTorch's `nn.Linear`, all elements are uniformly distributed
    /// between `-1/sqrt(in_features)` and `1/sqrt(in_features)`.
    ///
    /// If `in_features` is 0, the elements of the bias are 0. As in PyTorch, random numbers are
    /// drawn for them nevertheless.
    pub fn new(in_features: usize, out_features: usize, bias: bool, rng: &mut TorchRng) -> Self {
        let mut layer = Self::zeros(in_features, out_features, bias);
        let bound = match in_features {
            0 => 0.0,
            n => (1.0 / (n as f64).sqrt()) as f32,
        };
        rng.fill_uniform(slice_mut(&mut layer.weight), -bound, bound);
        if let Some(bias) = &mut layer.bias {
            rng.fill_uniform(slice_mut(bias), -bound, bound);
        }
        layer
    }

    /// Creates a layer whose weights and bias are all 0. Use it to accumulate gradients, or to fill
    /// it with weights from a file.
    pub fn zeros(in_features: usize, out_features: usize, bias: bool) -> Self {
        Self {
            weight: zero_weights((out_features, in_features)),
            bias: bias.then(|| Array1::zeros(out_features)),
            dtype: Dtype::Float32,
        }
    }

    /// Returns the number of input features, which is the size of the last dimension of the input.
    pub fn in_features(&self) -> usize {
        self.weight.ncols()
    }

    /// Returns the number of output features, which is the size of the last dimension of the
    /// output.
    pub fn out_features(&self) -> usize {
        self.weight.nrows()
    }

    /// Checks that the weight matrix and the bias have the expected sizes, and that the number
    /// format is supported. The argument `bias` specifies whether the layer must have a bias.
    /// Returns `None` if all fields are valid. Otherwise, returns a description of the first
    /// invalid field.
    ///
    /// A module whose layers are public fields can use this method to check that nobody has
    /// replaced a layer with a layer of the wrong shape.
    ///
    /// ```
    /// let mut layer = tensor_ops::Linear::zeros(3, 2, false);
    /// assert_eq!(layer.mismatch(3, 2, false), None);
    /// layer.bias = Some([0.5, 0.5].into_iter().collect());
    /// assert_eq!(
    ///     layer.mismatch(3, 2, false).as_deref(),
    ///     Some("the layer has a bias of 2 elements, but it must not have a bias"),
    /// );
    /// ```
    #[must_use]
    pub fn mismatch(&self, in_features: usize, out_features: usize, bias: bool) -> Option<String> {
        let (found, expected) = (self.weight.dim(), (out_features, in_features));
        if found != expected {
            return Some(format!(
                "the shape of the layer's weight must be {expected:?}, got {found:?}"
            ));
        }
        let n = out_features;
        match self.bias.as_ref().map(Array1::len) {
            Some(found) if !bias => Some(format!(
                "the layer has a bias of {found} elements, but it must not have a bias"
            )),
            Some(found) if found != n => Some(format!(
                "the layer's bias must have {n} elements, got {found}"
            )),
            None if bias => Some(format!(
                "the layer's bias is missing; expected a bias with {n} elements"
            )),
            _ => {
                let error = self.dtype.one_of(OPERAND_DTYPES).err()?;
                Some(format!("dtype: {error}"))
            }
        }
    }

    /// Computes `x W^T + b`. The input has the shape `(..., in_features)`, and the output has the
    /// shape `(..., out_features)`.
    ///
    /// ```
    /// use ndarray::{Array1, ArrayD};
    /// let mut rng = torch_rng::TorchRng::manual_seed(123);
    /// let linear_layer = tensor_ops::Linear::new(10, 20, true, &mut rng);
    /// assert_eq!(linear_layer.forward(&Array1::zeros(10)).shape(), [20]);
    /// let x = ArrayD::zeros(vec![5, 5, 5, 5, 5, 5, 10]);
    /// assert_eq!(linear_layer.forward(&x).shape(), [5, 5, 5, 5, 5, 5, 20]);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics in each of these cases:
    /// - `x` has no dimensions, or its last dimension isn't `in_features`.
    /// - The bias doesn't have `out_features` contiguous elements.
    /// - [`dtype`](Self::dtype) is neither float32 nor bfloat16.
    pub fn forward<D: Dimension>(&self, x: &ArrayRef<f32, D>) -> Array<f32, D> {
        self.check("Linear::forward", "the input", x, self.in_features());
        let rows = as_rows(x); // shape: (rows, in_features)
        let y = match &self.bias {
            None => matmul_in(self.dtype, &rows, &self.weight.t()),
            Some(bias) => matmul_plus_row(self.dtype, &rows, &self.weight.t(), bias),
        }; // shape: (rows, out_features)
        with_leading_dims_of(y, x)
    }

    /// Adds the gradients of the weights and the bias to `grads`, and returns the gradient of the
    /// input.
    ///
    /// `x` is the input of the forward pass, with the shape `(..., in_features)`. `d_out` is the
    /// gradient of the output, with the shape `(..., out_features)`.
    ///
    /// # Panics
    ///
    /// Panics in each of these cases:
    /// - `x` or `d_out` doesn't have the shape given above, or their leading dimensions differ.
    /// - The bias doesn't have `out_features` elements.
    /// - The weights and the bias of `grads` don't have the same shapes as in this layer.
    /// - [`dtype`](Self::dtype) is neither float32 nor bfloat16.
    pub fn backward<D: Dimension>(
        &self,
        x: &ArrayRef<f32, D>,
        d_out: &ArrayRef<f32, D>,
        grads: &mut Linear,
    ) -> Array<f32, D> {
        self.backward_weights(x, d_out, grads);
        // Because y = x W^T, the gradient of the input is d_x = d_y W.
        with_leading_dims_of(matmul_in(self.dtype, &as_rows(d_out), &self.weight), x)
    }

    /// Does the same as [`backward`](Self::backward), but adds the gradient of the input to `d_x`
    /// instead of returning it. This is useful if several layers have the same input, because their
    /// gradients must be added.
    ///
    /// # Panics
    ///
    /// Panics under the same conditions as [`backward`](Self::backward), and if `d_x` doesn't have
    /// the shape of `x`.
    pub fn backward_adding_to<D: Dimension>(
        &self,
        x: &ArrayRef<f32, D>,
        d_out: &ArrayRef<f32, D>,
        grads: &mut Linear,
        d_x: &mut Array<f32, D>,
    ) {
        assert!(
            d_x.shape() == x.shape(),
            "Linear::backward_adding_to: the input has shape {:?}, but d_x has shape {:?}",
            x.shape(),
            d_x.shape()
        );
        self.backward_weights(x, d_out, grads);
        let d_out = as_rows(d_out);
        if !d_x.is_standard_layout() {
            *d_x = into_contiguous(std::mem::take(d_x));
        }
        let d_x = d_x
            .view_mut()
            .into_shape_with_order((d_out.nrows(), self.in_features()))
            .expect("row-major, with a row for each of `d_out`");
        matmul_into_in(self.dtype, &d_out, &self.weight, 1.0, d_x);
    }

    /// Adds the gradients of the weights and the bias to `grads`, without computing the gradient of
    /// the input.
    fn backward_weights<D: Dimension>(
        &self,
        x: &ArrayRef<f32, D>,
        d_out: &ArrayRef<f32, D>,
        grads: &mut Linear,
    ) {
        self.check("Linear::backward", "the input", x, self.in_features());
        self.check("Linear::backward", "d_out", d_out, self.out_features());
        assert!(
            leading(x) == leading(d_out),
            "Linear::backward: the input has shape {:?}, but d_out has shape {:?}",
            x.shape(),
            d_out.shape()
        );
        assert!(
            grads.shapes() == self.shapes(),
            "Linear::backward: weight and bias have the shapes {:?}, but their gradients have the shapes {:?}",
            self.shapes(),
            grads.shapes()
        );
        let (x, d_out) = (as_rows(x), as_rows(d_out));
        // Because y = x W^T, the gradient of the weights is d_W = d_y^T x.
        matmul_into_in(self.dtype, &d_out.t(), &x, 1.0, grads.weight.view_mut());
        if let Some(d_bias) = &mut grads.bias {
            add_column_sums(&d_out, d_bias);
        }
    }

    fn check<D: Dimension>(&self, op: &str, what: &str, x: &ArrayRef<f32, D>, features: usize) {
        assert!(
            x.shape().last() == Some(&features),
            "{op}: {what} has shape {:?}, but its last dimension must be {features} for a weight of shape {:?}",
            x.shape(),
            self.weight.shape()
        );
        // Check the length of the bias, because a bias with a single element would be broadcast to
        // all outputs without an error.
        let bias = self.bias.as_ref().map_or(self.out_features(), Array1::len);
        assert!(
            bias == self.out_features(),
            "{op}: the bias has {bias} elements, but the weight has {} rows",
            self.out_features()
        );
    }

    fn shapes(&self) -> ((usize, usize), Option<usize>) {
        (self.weight.dim(), self.bias.as_ref().map(Array1::len))
    }
}

/// Returns the shape of an array without its last dimension, which contains the features. For
/// example, the result is `[2, 5]` for the shape `[2, 5, 768]`. The array must have at least one
/// dimension.
fn leading<D: Dimension>(x: &ArrayRef<f32, D>) -> &[usize] {
    &x.shape()[..x.ndim() - 1]
}

parameters!(Linear { "weight" weight, "bias" bias });

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bias_without_inputs_is_zero_and_draws_as_any_other() {
        let mut rng = TorchRng::manual_seed(1);
        let mut as_many = rng.clone();
        let layer = Linear::new(0, 3, true, &mut rng);
        assert_eq!(layer, Linear::zeros(0, 3, true));
        as_many.rand(3);
        assert_eq!(rng, as_many);
    }
}
