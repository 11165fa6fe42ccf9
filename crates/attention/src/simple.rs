//! Self-attention without trainable weights (book section 3.3): every token's context vector is a
//! mean of all tokens, weighted by softmaxed dot products.

use ndarray::{Array1, Array2, ArrayRef1, ArrayRef2, Axis};
use tensor_ops::{matmul, softmax};

/// `inputs @ inputs.T`: (num_tokens, d) -> (num_tokens, num_tokens), the dot product of each token
/// with each.
#[must_use]
pub fn attention_scores(inputs: &ArrayRef2<f32>) -> Array2<f32> {
    matmul(inputs, &inputs.t())
}

/// `scores / scores.sum()`: the book's first, simplest normalisation.
#[must_use]
pub fn normalize_by_sum(scores: &ArrayRef1<f32>) -> Array1<f32> {
    scores / scores.sum()
}

/// `torch.softmax(scores, dim=-1)`: (num_tokens, num_tokens), each row sums to 1.
#[must_use]
pub fn attention_weights(scores: &ArrayRef2<f32>) -> Array2<f32> {
    softmax(scores, Axis(1))
}

/// `attn_weights @ inputs`: (num_tokens, d), one context vector per token.
///
/// # Panics
/// If `weights` does not have a column for each row of `inputs`.
#[must_use]
pub fn context_vectors(weights: &ArrayRef2<f32>, inputs: &ArrayRef2<f32>) -> Array2<f32> {
    matmul(weights, inputs)
}
