//! 3.3.2 Context vectors of all words
//!
//! Self-attention without weights. The score of two words is the dot product of their vectors.
//! Softmax makes weights of each row of scores. The context vector of a word is the sum of all
//! words' vectors, each times its weight.
//! With `inputs` of shape (n, d) the scores and the weights are (n, n), and the result is (n, d)
//! again.
//!
//! HINT: All dot products at once are a matrix product: `inputs.dot(&inputs.t())`.
//! HINT: Softmax goes over each row: `for mut row in weights.rows_mut()`.
//! HINT: The sums are a matrix product, too: `weights.dot(inputs)`.

use practice::ndarray::Array2;

/// (n, d) words to (n, d) context vectors
pub fn context_vectors(inputs: &Array2<f32>) -> Array2<f32> {
    // SOLUTION
    let mut weights = inputs.dot(&inputs.t());
    for mut row in weights.rows_mut() {
        let largest = row.fold(f32::NEG_INFINITY, |most, &x| most.max(x));
        row.mapv_inplace(|x| (x - largest).exp());
        let sum = row.sum();
        row /= sum;
    }
    weights.dot(inputs)
    // END
}

fn main() {
    practice::context_vectors(context_vectors).print();
    // Your experiments go here.
}
