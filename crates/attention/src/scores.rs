//! The three steps that compute attention weights from queries and keys (book sections 3.4 and
//! 3.5): dot products, the causal mask, and scaled softmax.
//!
//! As in the book, each function processes the scores of whole sequences as matrices. `head.rs`
//! computes the same attention weights faster: it processes blocks of queries and doesn't compute
//! most of the scores that the mask hides.

use ndarray::{Array, Array2, ArrayRef, ArrayRef2, Axis, Dimension, Zip};
use tensor_ops::{matmul_batched, softmax};

/// Returns the attention scores, which are the dot products of all queries with all keys. The
/// PyTorch equivalent is `queries @ keys.transpose(-2, -1)`.
///
/// `queries` and `keys` have the shape `(..., num_tokens, d_k)`, and the scores have the shape
/// `(..., num_tokens, num_tokens)`.
pub(crate) fn dot_products<D: Dimension>(
    queries: &ArrayRef<f32, D>,
    keys: &ArrayRef<f32, D>,
) -> Array<f32, D> {
    let (mut keys, n) = (keys.view(), keys.ndim());
    keys.swap_axes(n - 2, n - 1);
    matmul_batched(queries, &keys)
}

/// Returns the causal mask for `n` tokens, a matrix of shape `(n, n)`. The element `[i, j]` is 1 if
/// query `i` may attend to key `j`, which is the case if `j <= i`. Otherwise, it is 0.
///
/// The PyTorch equivalent is `torch.tril(torch.ones(n, n))`.
#[must_use]
pub fn causal_mask(n: usize) -> Array2<f32> {
    Array2::from_shape_fn((n, n), |(i, j)| if j <= i { 1.0 } else { 0.0 })
}

/// Divides each row of `x` by its sum. The PyTorch equivalent is `x / x.sum(dim=-1, keepdim=True)`.
///
/// In section 3.5.1 of the book, the mask is first applied by setting some of the attention weights
/// to 0. This function is then used to make each row of weights sum to 1 again.
#[must_use]
pub fn normalize_rows(x: &ArrayRef2<f32>) -> Array2<f32> {
    let sums = x.sum_axis(Axis(1)).insert_axis(Axis(1)); // shape: (rows, 1)
    &x.view() / &sums // shape: (rows, columns)
}

/// Returns a copy of the attention scores in which all elements above the diagonal are replaced by
/// minus infinity. Softmax converts these elements to weights of 0, so no token attends to a later
/// token.
///
/// The scores have the shape `(..., num_tokens, num_tokens)`. The equivalent code in the book is
/// `scores.masked_fill(mask.bool(), -torch.inf)`.
///
/// ```
/// use ndarray::array;
/// let masked = attention::mask_future(&array![[1.0, 2.0], [3.0, 4.0]]);
/// assert_eq!(masked, array![[1.0, f32::NEG_INFINITY], [3.0, 4.0]]);
/// ```
///
/// # Panics
///
/// Panics if `scores` has fewer than two dimensions, or if its last two dimensions aren't equal.
#[must_use]
pub fn mask_future<D: Dimension>(scores: &ArrayRef<f32, D>) -> Array<f32, D> {
    let num_tokens = match *scores.shape() {
        [.., queries, keys] if queries == keys => keys,
        ref shape => panic!(
            "mask_future: the scores have shape {shape:?}, but the last two dimensions (queries and keys) must be equal"
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

/// Converts attention scores to attention weights. Each score is divided by the square root of
/// `d_k`, the number of features of a key, before softmax is applied along the last dimension. The
/// PyTorch equivalent is `torch.softmax(scores / d_k**0.5, dim=-1)`.
///
/// Both the scores and the weights have the shape `(..., queries, keys)`.
///
/// # Panics
///
/// Panics if `scores` has no dimensions.
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
    #[should_panic(expected = "the scores have shape [2, 3, 4]")]
    fn more_keys_than_queries_are_refused() {
        drop(mask_future(&Array3::zeros((2, 3, 4))));
    }

    #[test]
    #[should_panic(expected = "the scores have shape [3, 1]")]
    fn one_key_of_several_queries_is_refused() {
        drop(mask_future(&Array2::zeros((3, 1))));
    }
}
