//! Erratum B1, replayed: causal attention whose softmax runs over the queries, `dim=1` of (batch, n_tokens, n_tokens).
//!
//! An early version of the book's class did this; exercise 3.2 still prints its numbers.
//! Each column sums to 1 instead of each row. It is here to be shown wrong, never to be used.

use attention::{CausalAttention, MultiHeadAttentionWrapper};
use ndarray::{Array3, Axis, concatenate, s};
use tensor_ops::{matmul_batched, softmax};

/// What the wrapper's heads give with the bug: (batch, n_tokens, d_in) -> (batch, n_tokens, n_heads * d_out).
pub(in crate::verify) fn forward(
    wrapper: &MultiHeadAttentionWrapper,
    x: &Array3<f32>,
) -> Array3<f32> {
    let heads: Vec<Array3<f32>> = wrapper
        .heads
        .iter()
        .map(|head| head_forward(head, x))
        .collect();
    let views: Vec<_> = heads.iter().map(|head| head.view()).collect();
    concatenate(Axis(2), &views).expect("the heads have one shape")
}

fn head_forward(head: &CausalAttention, x: &Array3<f32>) -> Array3<f32> {
    let queries = head.w_query.forward(x); // (batch, n_tokens, d_out)
    let keys = head.w_key.forward(x);
    let mut scores = matmul_batched(&queries, &keys.view().permuted_axes([0, 2, 1])); // (batch, n_tokens, n_tokens)
    for mut sequence in scores.outer_iter_mut() {
        for (query, mut row) in sequence.outer_iter_mut().enumerate() {
            row.slice_mut(s![query + 1..]).fill(f32::NEG_INFINITY);
        }
    }
    scores /= (keys.shape()[2] as f32).sqrt();
    let weights = softmax(&scores, Axis(1)); // the bug: Axis(2) is right
    matmul_batched(&weights, &head.w_value.forward(x))
}
