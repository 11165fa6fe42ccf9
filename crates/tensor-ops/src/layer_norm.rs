//! Layer normalization over the last dimension, `y = scale (x - mean) / sqrt(var + eps) + shift`
//! (book listing 4.2).
//!
//! The variance is divided by `n` instead of `n - 1`, so it is the biased estimate. Unlike batch
//! normalization, layer normalization uses no running statistics, so training mode and evaluation
//! mode produce the same result.

use kernels::{elementwise, for_each, reduce};
use ndarray::{Array, Array1, Array2, ArrayRef, Axis, Dimension};

use crate::parameters;
use crate::rows::{
    as_rows, empty, for_each_block, fresh_rows, rows_per_task, slice_mut, with_leading_dims_of,
};

/// A layer normalization module, like the class `LayerNorm` of the book (listing 4.2). To store the
/// gradients of its weights, use a second value of this type.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerNorm {
    /// Learned factors of layer normalization: each normalized feature is multiplied by one of
    /// these `emb_dim` factors.
    pub scale: Array1<f32>,
    /// Learned offsets of layer normalization: one of these `emb_dim` numbers is added to each
    /// feature after the multiplication by `scale`.
    pub shift: Array1<f32>,
    /// Small number that is added to the variance to avoid division by 0. The book and GPT-2 use
    /// 1e-5.
    pub eps: f32,
}

/// Intermediate results that [`LayerNorm::forward_train`] stores for [`LayerNorm::backward`].
#[derive(Clone, Debug)]
#[must_use]
pub struct LayerNormCache {
    /// Normalized input, `(x - mean) / sqrt(var + eps)`, with the shape `(rows, emb_dim)`.
    x_hat: Array2<f32>,
    /// Reciprocal standard deviation of each row, `1 / sqrt(var + eps)`.
    rstd: Array1<f32>,
}

impl LayerNorm {
    /// Creates a layer normalization module with a scale of 1, a shift of 0, and an `eps` of 1e-5.
    /// No random numbers are drawn.
    pub fn new(emb_dim: usize) -> Self {
        Self {
            scale: Array1::ones(emb_dim),
            shift: Array1::zeros(emb_dim),
            eps: 1e-5,
        }
    }

    /// Creates a layer normalization module whose scale and shift are 0. Use it to accumulate the
    /// gradients of another module.
    pub fn zeros(emb_dim: usize) -> Self {
        Self {
            scale: Array1::zeros(emb_dim),
            ..Self::new(emb_dim)
        }
    }

    /// Normalizes each row of `x`. The input and the output have the shape `(..., emb_dim)`. This
    /// method is a faster version of `gpt::layer_norm`, which follows the book's listing and
    /// computes the same result.
    ///
    /// ```
    /// use tensor_ops::{LayerNorm, ndarray::{Axis, array}};
    /// let out_ln = LayerNorm::new(3).forward(&array![[1.0, 2.0, 6.0], [0.1, 0.0, 0.2]]);
    /// assert!(out_ln.mean_axis(Axis(1)).unwrap().iter().all(|mean| mean.abs() < 1e-6));
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the last dimension of `x` isn't `emb_dim`, if the scale and the shift have
    /// different lengths, or if one of them isn't contiguous.
    pub fn forward<D: Dimension>(&self, x: &ArrayRef<f32, D>) -> Array<f32, D> {
        self.check(x);
        let rows = as_rows(x);
        let width = rows.ncols();
        let (scale, shift) = self.affine();
        let x_rows = rows.as_slice().expect("rows are row-major");
        let out = fresh_rows(x_rows.len(), width, |first_row, block| {
            let x = &x_rows[first_row * width..];
            for (x, out) in x.chunks(width).zip(block.chunks_mut(width)) {
                let (mean, rstd) = self.moments(x);
                elementwise::layer_norm(x, (scale, shift), (mean, rstd), out);
            }
        });
        let out = Array2::from_shape_vec(rows.raw_dim(), out).expect("as many numbers as `rows`");
        with_leading_dims_of(out, x)
    }

    /// Does the same as [`forward`](Self::forward), and also returns a cache for
    /// [`backward`](Self::backward).
    ///
    /// # Panics
    ///
    /// Panics under the same conditions as [`forward`](Self::forward).
    pub fn forward_train<D: Dimension>(
        &self,
        x: &ArrayRef<f32, D>,
    ) -> (Array<f32, D>, LayerNormCache) {
        self.check(x);
        let rows = as_rows(x);
        let (n_rows, width) = rows.dim();
        let mut out = empty((n_rows, width));
        let mut x_hat = empty((n_rows, width));
        let mut rstd = Array1::zeros(n_rows);
        let affine = self.affine();
        let x_rows = rows.as_slice().expect("rows are row-major");
        let (chunk, rows) = (width.max(1), rows_per_task(width));
        let tasks = slice_mut(&mut out)
            .chunks_mut(rows * chunk)
            .zip(slice_mut(&mut x_hat).chunks_mut(rows * chunk))
            .zip(slice_mut(&mut rstd).chunks_mut(rows))
            .zip(x_rows.chunks(rows * chunk));
        for_each(tasks.collect(), |(((out, x_hat), rstd), x)| {
            let rows = out.chunks_mut(chunk).zip(x_hat.chunks_mut(chunk));
            for (((out, x_hat), rstd), x) in rows.zip(rstd).zip(x.chunks(chunk)) {
                let moments = self.moments(x);
                *rstd = moments.1;
                elementwise::layer_norm_train(x, affine, moments, x_hat, out);
            }
        });
        (with_leading_dims_of(out, x), LayerNormCache { x_hat, rstd })
    }

    /// Adds the gradients of the scale and the shift to `grads`, and returns the gradient of the
    /// input. `d_out` is the gradient of the output. Both `d_out` and the returned gradient have
    /// the shape `(..., emb_dim)`.
    ///
    /// # Panics
    ///
    /// Panics if `d_out` doesn't have the same number of rows and features as the input of the
    /// forward pass, or if the gradients in `grads` don't have `emb_dim` contiguous elements.
    pub fn backward<D: Dimension>(
        &self,
        cache: LayerNormCache,
        d_out: &ArrayRef<f32, D>,
        grads: &mut LayerNorm,
    ) -> Array<f32, D> {
        let LayerNormCache { x_hat, rstd } = cache;
        let d_rows = as_rows(d_out);
        assert!(
            d_rows.dim() == x_hat.dim(),
            "LayerNorm::backward: d_out has shape {:?}, but as a matrix, the output of the forward pass has shape {:?}",
            d_out.shape(),
            x_hat.dim()
        );
        assert!(
            [&grads.scale, &grads.shift].map(|d| d.len()) == [x_hat.ncols(); 2],
            "LayerNorm::backward: the gradients of scale and shift have {} and {} elements, but scale and shift have {}",
            grads.scale.len(),
            grads.shift.len(),
            x_hat.ncols()
        );
        // Backpropagate first through the last operation of layer normalization, `out = scale *
        // x_hat + shift`.
        self.backward_affine(&x_hat, &d_rows, grads);
        // Then comes the backward pass of the normalization, `x_hat = (x - mean) * rstd`. Because
        // `mean` and `rstd` depend on `x` as well, the gradient has three terms: `d_x = rstd *
        // (d_x_hat - mean(d_x_hat) - x_hat * mean(d_x_hat * x_hat))`.
        let mut d_x = x_hat;
        let width = d_x.ncols();
        let scale = self.affine().0;
        let d_rows = d_rows.as_slice().expect("rows are row-major");
        for_each_block(slice_mut(&mut d_x), width, |first_row, block| {
            for (i, d_x) in block.chunks_mut(width).enumerate() {
                let row = first_row + i;
                let d_out = &d_rows[row * width..(row + 1) * width];
                elementwise::layer_norm_backward(d_out, scale, rstd[row], d_x);
            }
        });
        with_leading_dims_of(d_x, d_out)
    }

    /// Computes the gradients of the scale and the shift and adds them to `grads`. The gradient of
    /// the scale is the sum of `d_out * x_hat` over all rows, and the gradient of the shift is the
    /// sum of `d_out` over all rows. Each task processes 64 columns.
    fn backward_affine(
        &self,
        x_hat: &Array2<f32>,
        d_out: &ndarray::ArrayRef2<f32>,
        grads: &mut LayerNorm,
    ) {
        const COLUMNS_PER_TASK: usize = 64;
        let scales = slice_mut(&mut grads.scale).chunks_mut(COLUMNS_PER_TASK);
        let shifts = slice_mut(&mut grads.shift).chunks_mut(COLUMNS_PER_TASK);
        let tasks = scales.zip(shifts).enumerate().collect();
        for_each(tasks, |(task, (d_scale, d_shift))| {
            let first = task * COLUMNS_PER_TASK;
            let columns = first..first + d_scale.len();
            for (x_hat, d_out) in x_hat.axis_iter(Axis(0)).zip(d_out.axis_iter(Axis(0))) {
                let x_hat = &x_hat.to_slice().expect("row-major")[columns.clone()];
                let d_out = &d_out.to_slice().expect("row-major")[columns.clone()];
                elementwise::add_product(d_scale, x_hat, d_out);
                elementwise::add(d_shift, d_out);
            }
        });
    }

    /// Returns the mean of one row and its reciprocal standard deviation, `1 / sqrt(var + eps)`.
    fn moments(&self, x: &[f32]) -> (f32, f32) {
        let n = x.len() as f32;
        let mean = reduce::sum(x) / n;
        let var = reduce::sum_of_squared_deviations(x, mean) / n;
        (mean, 1.0 / (var + self.eps).sqrt())
    }

    fn affine(&self) -> (&[f32], &[f32]) {
        let vectors = [&self.scale, &self.shift];
        vectors
            .map(|x| {
                x.as_slice()
                    .expect("LayerNorm: scale and shift must be contiguous")
            })
            .into()
    }

    fn check<D: Dimension>(&self, x: &ArrayRef<f32, D>) {
        assert!(
            x.shape().last() == Some(&self.scale.len()),
            "LayerNorm::forward: input has shape {:?}, but scale and shift have {} elements",
            x.shape(),
            self.scale.len()
        );
        assert!(
            self.shift.len() == self.scale.len(),
            "LayerNorm::forward: the shift has {} elements, but the scale has {}",
            self.shift.len(),
            self.scale.len()
        );
    }
}

parameters!(LayerNorm { "scale" scale, "shift" shift });
