//! From scores to attention weights, the plain way: the whole matrix, then the mask, then softmax
//! (book sections 3.4 and 3.5).
//!
//! `head.rs` does the same in blocks, without the masked half.

use ndarray::{Array, Array2, ArrayRef, ArrayRef2, Axis, Dimension, Zip};
use tensor_ops::{matmul_batched, softmax};

/// `queries @ keys.transpose(-2, -1)`: (..., num_tokens, d_k) each -> (..., num_tokens, num_tokens)
pub(crate) fn dot_products<D: Dimension>(
    queries: &ArrayRef<f32, D>,
    keys: &ArrayRef<f32, D>,
) -> Array<f32, D> {
    let (mut keys, n) = (keys.view(), keys.ndim());
    keys.swap_axes(n - 2, n - 1);
    matmul_batched(queries, &keys)
}

/// `torch.tril(torch.ones(n, n))`: 1 where query i may see key j, j <= i, and 0 elsewhere.
#[must_use]
pub fn causal_mask(n: usize) -> Array2<f32> {
    Array2::from_shape_fn((n, n), |(i, j)| if j <= i { 1.0 } else { 0.0 })
}

/// `x / x.sum(dim=-1, keepdim=True)`: section 3.5.1 makes masked weights sum to 1 again with it.
#[must_use]
pub fn normalize_rows(x: &ArrayRef2<f32>) -> Array2<f32> {
    let sums = x.sum_axis(Axis(1)).insert_axis(Axis(1)); // (rows, 1)
    &x.view() / &sums // (rows, columns)
}

/// `scores.masked_fill(mask, -torch.inf)`: scores (..., num_tokens, num_tokens) with minus infinity
/// above the diagonal, so that no query sees a later key.
///
/// ```
/// use ndarray::array;
/// let masked = attention::mask_future(&array![[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(masked, array![[1.0, f32::NEG_INFINITY], [3.0, 4.0]]);
/// ```
///
/// # Panics
/// If the last two dimensions differ, or there is only one.
#[must_use]
pub fn mask_future<D: Dimension>(scores: &ArrayRef<f32, D>) -> Array<f32, D> {
    let num_tokens = match *scores.shape() {
        [.., queries, keys] if queries == keys => keys,
        ref shape => panic!(
            "mask_future: scores have shape {shape:?}, but as many queries as keys are needed"
        ),
    };
    let mask = causal_mask(num_tokens);
    let mask = mask.broadcast(scores.raw_dim());
    let mask = mask.expect("the last two dimensions are the mask's");
    Zip::from(scores).and(&mask).map_collect(|&score, &mask| {
        if mask == 1.0 {
            score
        } else {
            f32::NEG_INFINITY
        }
    })
}

/// `torch.softmax(scores / d_k**0.5, dim=-1)`: scores (..., queries, keys) to weights; `d_k` is the
/// size of a key.
#[must_use]
pub fn scaled_softmax<D: Dimension>(scores: &ArrayRef<f32, D>, d_k: usize) -> Array<f32, D> {
    let last = Axis(scores.ndim() - 1);
    softmax(&(scores / (d_k as f32).sqrt()), last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::{Array3, array};

    #[test]
    fn the_mask_renormalised_is_the_softmax_of_masked_scores() {
        let scores = array![[0.3, 2.0, -1.0], [0.1, 0.7, 5.0], [-0.4, 0.2, 0.9]];
        let weights = scaled_softmax(&scores, 2) * causal_mask(3);
        let expected = scaled_softmax(&mask_future(&scores), 2);
        test_support::assert_close(&normalize_rows(&weights), &expected, 1e-6);
    }

    #[test]
    #[should_panic(expected = "scores have shape [2, 3, 4]")]
    fn more_keys_than_queries_are_refused() {
        drop(mask_future(&Array3::zeros((2, 3, 4))));
    }

    #[test]
    #[should_panic(expected = "scores have shape [3, 1]")]
    fn one_key_of_several_queries_is_refused() {
        drop(mask_future(&Array2::zeros((3, 1))));
    }
}
