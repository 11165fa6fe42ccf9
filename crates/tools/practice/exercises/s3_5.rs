//! 3.5 The causal mask
//!
//! A word must not see the words after it. Set the score of row i and column j to minus infinity
//! where j > i, divide by the square root of `d_k`, and take the softmax of each row: the future
//! gets a weight of 0, and each row still sums to 1. Use `softmax_rows`.
//!
//! HINT: `scores.indexed_iter()` gives each number with its place `(i, j)`.
//! HINT: `f32::NEG_INFINITY` stays infinite when it is divided, and its exponential is 0.

use practice::ndarray::Array2;

/// Softmax of each row.
fn softmax_rows(mut scores: Array2<f32>) -> Array2<f32> {
    for mut row in scores.rows_mut() {
        let largest = row.fold(f32::NEG_INFINITY, |most, &x| most.max(x));
        row.mapv_inplace(|x| (x - largest).exp());
        let sum = row.sum();
        row /= sum;
    }
    scores
}

/// (n, n) scores to (n, n) weights, 0 in the future
pub fn causal_weights(scores: &Array2<f32>, d_k: usize) -> Array2<f32> {
    // SOLUTION
    let mut masked = scores / (d_k as f32).sqrt();
    for ((i, j), score) in masked.indexed_iter_mut() {
        if j > i {
            *score = f32::NEG_INFINITY;
        }
    }
    softmax_rows(masked)
    // END
}

fn main() {
    practice::causal_weights(causal_weights).print();
    // Your experiments go here.
}
