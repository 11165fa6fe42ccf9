//! From scores to attention weights, the plain way: the whole matrix, then the mask, then softmax (book sections 3.4 and 3.5).
//!
//! `heads.rs` does the same in blocks, without the masked half.

use ndarray::{Array, ArrayViewMut2, Axis, Dimension, s};
use tensor_ops::softmax;

/// Sets the scores (num_tokens, num_tokens) above the diagonal to minus infinity: no query sees a later key.
pub(crate) fn mask_future(mut scores: ArrayViewMut2<f32>) {
    for (i, mut row) in scores.outer_iter_mut().enumerate() {
        row.slice_mut(s![i + 1..]).fill(f32::NEG_INFINITY);
    }
}

/// `softmax(scores / sqrt(d_k), dim=-1)`.
pub(crate) fn scaled_softmax<D: Dimension>(mut scores: Array<f32, D>, d_k: usize) -> Array<f32, D> {
    scores /= (d_k as f32).sqrt();
    let last = Axis(scores.ndim() - 1);
    softmax(&scores, last)
}
