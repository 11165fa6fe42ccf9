//! ex3.1 From the weights of a linear layer to a matrix
//!
//! In exercise 3.1 of the book, the class `SelfAttention_v2` stores its weights in layers of type
//! `nn.Linear`, and `SelfAttention_v1` stores them as plain matrices. If both classes have the same
//! weights, they should return the same vectors.
//!
//! `nn.Linear` has a weight W with the shape (d_out, d_in) and computes `x @ W.T`.
//! `SelfAttention_v1` computes `x @ M`. Given W, return the matrix M for which both results are
//! equal.
//!
//! HINT: Compare the shapes of W and M. Which operation converts the shape (d_out, d_in) to (d_in,
//!   d_out)?
//! HINT: x @ M = x @ W^T for every x, so M = W^T.
//! HINT: `.t()` returns a transposed view of an array, and `.to_owned()` copies the view to a new
//!   array.

use practice::ndarray::Array2;

/// Converts the weight of `nn.Linear`, which has the shape (d_out, d_in), to the matrix of
/// `SelfAttention_v1`, which has the shape (d_in, d_out).
pub fn v1_weights(weight: &Array2<f32>) -> Array2<f32> {
    // SOLUTION
    weight.t().to_owned()
    // END
}

// CHECKS

use attention::SelfAttentionV2;
use torch_rng::TorchRng;

use super::inputs;
use crate::Report;
use crate::check::{Check, Mistake, random};
use crate::given::softmax_rows;

type Weights = fn(&Array2<f32>) -> Array2<f32>;

pub(crate) const MISTAKES: &[Mistake<Weights>] = &[
    (
        "the weight isn't transposed; return its transpose",
        Array2::clone,
    ),
    (
        "the shape is new, but the order of the numbers is old; transpose the matrix",
        |weight| {
            let numbers = weight.iter().copied().collect();
            let shape = (weight.ncols(), weight.nrows());
            Array2::from_shape_vec(shape, numbers).expect("as many numbers")
        },
    ),
];

/// Checks the learner's `v1_weights`.
pub fn check(v1_weights: Weights) -> Report {
    let mut check = Check::new(v1_weights, MISTAKES);
    let v2 = SelfAttentionV2::new(3, 2, false, &mut TorchRng::manual_seed(123));
    let cell = ("ch03_exercises", "In [14]", 0);
    check.printed("the context vectors of exercise 3.1", cell, |v1_weights| {
        let x = inputs();
        let [q, k, v] =
            [&v2.w_query, &v2.w_key, &v2.w_value].map(|linear| x.dot(&v1_weights(&linear.weight)));
        softmax_rows(q.dot(&k.t()) / 2f32.sqrt()).dot(&v)
    });
    let weight = random(3, 3, 7);
    let expected = Array2::from_shape_fn((3, 3), |(row, column)| weight[[column, row]]);
    check.equals("a square weight (seed 7)", expected, |yours| yours(&weight));
    check.report()
}
