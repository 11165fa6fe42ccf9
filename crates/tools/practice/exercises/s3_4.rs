//! 3.4 Scaled dot-product attention
//!
//! Now three matrices of shape (d_in, d_out) turn each word into a query, a key and a value. The
//! scores are the dot products of queries with keys, divided by the square root of the number of
//! features of a key. Softmax makes weights of each row, and the weights mix the values.
//! Use `softmax_rows`.
//!
//! HINT: queries = x @ w_query, and so on: `x.dot(w_query)`.
//! HINT: Row i of the scores has query i with all keys: `queries.dot(&keys.t())`.
//! HINT: d_k is `keys.ncols()`; Rust divides a whole matrix by a number with `/`.

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

/// (n, d_in) words and three (d_in, d_out) matrices to (n, d_out) context vectors
pub fn attention(
    x: &Array2<f32>,
    w_query: &Array2<f32>,
    w_key: &Array2<f32>,
    w_value: &Array2<f32>,
) -> Array2<f32> {
    // SOLUTION
    let (queries, keys, values) = (x.dot(w_query), x.dot(w_key), x.dot(w_value));
    let scores = queries.dot(&keys.t()) / (keys.ncols() as f32).sqrt();
    softmax_rows(scores).dot(&values)
    // END
}

fn main() {
    practice::attention_with_weights(attention).print();
    // Your experiments go here.
}
