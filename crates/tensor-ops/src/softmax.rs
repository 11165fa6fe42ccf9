//! Softmax, `e^x_i / sum_j e^x_j`. This module contains the naive version and the numerically
//! stable version (book section 3.3), and the version with a causal mask that attention uses.

use kernels::elementwise::NEGLIGIBLE;
use kernels::{elementwise, reduce};
use ndarray::{Array, ArrayRef, ArrayViewMut2, Axis, Dimension, RemoveAxis};

use crate::rows::{check_same_shape, into_contiguous};

/// Computes softmax along `axis` without subtracting the maximum, like `softmax_naive` in the book.
/// If an element is greater than about 88.7, its exponential overflows, and the result contains
/// NaN.
///
/// # Panics
///
/// Panics if the array doesn't have this axis.
#[must_use]
pub fn softmax_naive<D: RemoveAxis>(x: &ArrayRef<f32, D>, axis: Axis) -> Array<f32, D> {
    let mut out = x.mapv(f32::exp);
    for mut lane in out.lanes_mut(axis) {
        let sum: f32 = lane.sum();
        lane /= sum;
    }
    out
}

/// Computes softmax along `axis`. In PyTorch, this is `torch.softmax(x, dim)`. The maximum is
/// subtracted first, so no finite input overflows.
///
/// ```
/// use ndarray::{Axis, array};
/// let p = tensor_ops::softmax(&array![[1000.0, 1000.0, f32::NEG_INFINITY]], Axis(1));
/// assert_eq!(p, array![[0.5, 0.5, 0.0]]);
/// ```
///
/// # Panics
///
/// Panics if the array doesn't have this axis.
#[must_use]
pub fn softmax<D: Dimension>(x: &ArrayRef<f32, D>, axis: Axis) -> Array<f32, D> {
    map_lanes(x, axis, |lane| {
        elementwise::softmax(lane, 1.0, 0.0);
    })
}

/// Returns the gradient of the input of [`softmax`] along `axis`, which is `p (d_p - sum(d_p p))`.
/// `p` is the output of [`softmax`], and `d_p` is the gradient of this output.
///
/// # Panics
///
/// Panics if the shapes differ, or if the arrays don't have this axis.
#[must_use]
pub fn softmax_backward<D: Dimension>(
    p: &ArrayRef<f32, D>,
    d_p: &ArrayRef<f32, D>,
    axis: Axis,
) -> Array<f32, D> {
    check_same_shape("softmax_backward", p, d_p);
    let mut d_x = d_p.to_owned();
    for (p, mut d) in p.lanes(axis).into_iter().zip(d_x.lanes_mut(axis)) {
        let dot: f32 = p.iter().zip(&d).map(|(p, d)| p * d).sum();
        d.zip_mut_with(&p, |d, p| *d = p * (*d - dot));
    }
    d_x
}

/// Replaces attention scores with the attention weights `softmax(scale * scores)` under the causal
/// mask. The query in row `i` may attend to the keys in the columns from 0 to `first_query + i`.
/// The weights in later columns become 0.
///
/// `scores` has the shape `(n_queries, n_keys)`. For each row, this function also writes the
/// logarithm `ln(sum_j e^(scale * score_j))` to `log_sums`. In the backward pass,
/// [`causal_softmax_from_log_sums`] can recompute the weights from these logarithms and the scores.
///
/// The result is the same as if the masked scores were set to minus infinity before calling
/// `torch.softmax(scale * scores, dim=-1)`, but this function skips most masked scores.
/// Exponentials that are less than 2^-64 times the largest one of their row are set to 0. They are
/// too small to affect the sums, and products with them would be subnormal numbers, which are slow
/// on many CPUs.
///
/// # Panics
///
/// Panics if the rows aren't contiguous, if `log_sums` doesn't have one element for each row, or if
/// `scale` is negative or NaN.
pub fn causal_softmax_rows(
    mut scores: ArrayViewMut2<f32>,
    scale: f32,
    first_query: usize,
    log_sums: &mut [f32],
) {
    assert!(
        scores.nrows() == log_sums.len(),
        "causal_softmax_rows: there are {} rows, but there is room for {} sums",
        scores.nrows(),
        log_sums.len()
    );
    assert!(
        scale >= 0.0,
        "causal_softmax_rows: the scale must be at least 0, got {scale}"
    );
    for (i, (mut row, log_sum)) in scores.rows_mut().into_iter().zip(log_sums).enumerate() {
        let row = row.as_slice_mut().expect("rows of scores are contiguous");
        let visible = (first_query + i + 1).min(row.len());
        *log_sum = elementwise::softmax_of_first(row, visible, scale, NEGLIGIBLE);
    }
}

/// Replaces attention scores with the attention weights that [`causal_softmax_rows`] has computed
/// for the same scores. `scale` and `first_query` must be the same as in that call, and `log_sums`
/// must contain the logarithms that it wrote.
///
/// # Panics
///
/// Panics if the rows aren't contiguous, or if `log_sums` doesn't have one element for each row.
pub fn causal_softmax_from_log_sums(
    mut scores: ArrayViewMut2<f32>,
    scale: f32,
    first_query: usize,
    log_sums: &[f32],
) {
    assert!(
        scores.nrows() == log_sums.len(),
        "causal_softmax_from_log_sums: there are {} rows, but {} sums",
        scores.nrows(),
        log_sums.len()
    );
    for (i, (mut row, &log_sum)) in scores.rows_mut().into_iter().zip(log_sums).enumerate() {
        let row = row.as_slice_mut().expect("rows of scores are contiguous");
        let visible = (first_query + i + 1).min(row.len());
        elementwise::exp_minus_of_first(row, visible, scale, log_sum);
    }
}

/// Computes the backward pass of `p = softmax(scale * x)` for a single row. `d` must contain the
/// gradient of `p`, which is replaced by the gradient of `x`.
///
/// # Panics
///
/// Panics if the lengths differ.
pub fn softmax_backward_row(p: &[f32], d: &mut [f32], scale: f32) {
    assert!(
        p.len() == d.len(),
        "softmax_backward_row: there are {} probabilities, but {} gradients",
        p.len(),
        d.len()
    );
    // The gradient is d_x_i = scale p_i (d_p_i - sum_j d_p_j p_j).
    let dot = reduce::dot(p, d);
    elementwise::softmax_backward(p, d, dot, scale);
}

/// Returns a copy of `x` in which `f` has modified each one-dimensional lane along `axis`. For
/// example, if `x` is a matrix and `axis` is 1, `f` is called for each row.
fn map_lanes<D: Dimension>(
    x: &ArrayRef<f32, D>,
    axis: Axis,
    f: impl Fn(&mut [f32]),
) -> Array<f32, D> {
    assert!(
        axis.index() < x.ndim(),
        "softmax: the axis is {}, which doesn't exist in an array of shape {:?}",
        axis.index(),
        x.shape()
    );
    let mut out = into_contiguous(x.to_owned());
    for mut lane in out.lanes_mut(axis) {
        if let Some(lane) = lane.as_slice_mut() {
            f(lane);
        } else {
            let mut copy = lane.to_vec();
            f(&mut copy);
            lane.iter_mut().zip(copy).for_each(|(x, y)| *x = y);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array2;

    #[test]
    fn a_scale_of_zero_weighs_all_that_a_row_may_see_alike() {
        let mut scores = Array2::from_shape_fn((20, 20), |(i, j)| (i * 7 + j * 5) as f32 - 80.0);
        causal_softmax_rows(scores.view_mut(), 0.0, 0, &mut [0.0; 20]);
        for (i, row) in scores.rows().into_iter().enumerate() {
            let weight = 1.0 / (i + 1) as f32;
            for (j, &p) in row.iter().enumerate() {
                let expected = if j <= i { weight } else { 0.0 };
                assert!((p - expected).abs() < 1e-6, "({i}, {j}): {p}");
            }
        }
    }
}
