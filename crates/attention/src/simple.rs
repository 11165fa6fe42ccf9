//! Self-attention without trainable weights (book section 3.3).
//!
//! The context vector of a token is a weighted mean of all input vectors. The weights are computed
//! by taking the dot product of the token's input vector with each input vector and applying
//! softmax to the results.

use ndarray::{Array1, Array2, ArrayRef1, ArrayRef2, Axis};
use tensor_ops::{matmul, softmax};

/// Returns the attention scores, which are the dot products of all pairs of input vectors. The
/// PyTorch equivalent is `inputs @ inputs.T`.
///
/// The inputs have the shape `(num_tokens, d)`, and the scores have the shape
/// `(num_tokens, num_tokens)`.
#[must_use]
pub fn attention_scores(inputs: &ArrayRef2<f32>) -> Array2<f32> {
    matmul(inputs, &inputs.t())
}

/// Divides attention scores by their sum, so that the resulting weights sum to 1. The PyTorch
/// equivalent is `scores / scores.sum()`.
///
/// Section 3.3.1 of the book starts with this simple normalization and then replaces it with
/// softmax.
#[must_use]
pub fn normalize_by_sum(scores: &ArrayRef1<f32>) -> Array1<f32> {
    scores / scores.sum()
}

/// Returns the attention weights, which are the softmax of each row of scores. The PyTorch
/// equivalent is `torch.softmax(scores, dim=-1)`.
///
/// Both the scores and the weights have the shape `(num_tokens, num_tokens)`. Each row of weights
/// sums to 1.
#[must_use]
pub fn attention_weights(scores: &ArrayRef2<f32>) -> Array2<f32> {
    softmax(scores, Axis(1))
}

/// Returns the context vectors. Each context vector is a weighted mean of the input vectors, and
/// its weights are one row of the attention weights. The PyTorch equivalent is
/// `attn_weights @ inputs`.
///
/// The weights have the shape `(num_tokens, num_tokens)`. The inputs and the context vectors have
/// the shape `(num_tokens, d)`.
///
/// # Panics
///
/// Panics if the number of columns of `weights` differs from the number of rows of `inputs`.
#[must_use]
pub fn context_vectors(weights: &ArrayRef2<f32>, inputs: &ArrayRef2<f32>) -> Array2<f32> {
    matmul(weights, inputs)
}
