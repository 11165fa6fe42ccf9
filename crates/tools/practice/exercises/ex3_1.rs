//! ex3.1 Weights from a linear layer to a matrix
//!
//! Exercise 3.1 of the book: `SelfAttention_v2` keeps its weights in `nn.Linear` layers,
//! `SelfAttention_v1` as plain matrices. `nn.Linear` computes `x @ W.T` with W of shape (d_out,
//! d_in); v1 computes `x @ M`. Which matrix M makes both the same?
//!
//! HINT: Which M makes x @ M equal to x @ W.T?
//! HINT: `.t()` is a view; `.to_owned()` makes an array of it.

use practice::ndarray::Array2;

/// (d_out, d_in) weights of `nn.Linear` to the (d_in, d_out) matrix of v1
pub fn v1_weights(weight: &Array2<f32>) -> Array2<f32> {
    // SOLUTION
    weight.t().to_owned()
    // END
}

fn main() {
    practice::weights_of_linear(v1_weights).print();
    // Your experiments go here.
}
