//! 3.3.2 Context vectors of all words
//!
//! Self-attention computes a context vector for each word. This is a weighted average of the
//! vectors of all words. A word has a larger weight if its vector points in a similar direction or
//! is long. This first version learns nothing. The score of two words is the dot product of their
//! vectors, and softmax converts the scores of a word to its weights. `softmax_rows` applies your
//! function from exercise 3.3.1 to each row of a matrix.
//!
//! Return the context vectors of all words.
//!
//! HINT: A single matrix product computes all dot products, and another one computes all weighted
//!   averages.
//! HINT: scores = inputs @ inputs^T. The weights are the softmax of each row of the scores, and the
//!   context vectors are weights @ inputs.
//! HINT: `a.dot(&b)` multiplies two matrices, and `a.t()` is the transpose of `a`.

use practice::given::softmax_rows;
use practice::ndarray::Array2;

/// Returns the context vectors of n words. The inputs and the result both have the shape (n, d).
pub fn context_vectors(inputs: &Array2<f32>) -> Array2<f32> {
    // SOLUTION
    let scores = inputs.dot(&inputs.t());
    softmax_rows(scores).dot(inputs)
    // END
}

// CHECKS

use ndarray::array;

use super::inputs;
use crate::Report;
use crate::check::{Check, Mistake, random};
use crate::reference::{self, wide};

type ContextVectors = fn(&Array2<f32>) -> Array2<f32>;

fn weights(inputs: &Array2<f32>) -> Array2<f32> {
    softmax_rows(inputs.dot(&inputs.t()))
}

pub(crate) const MISTAKES: &[Mistake<ContextVectors>] = &[
    (
        "softmax is applied to the columns; apply it to the rows",
        |inputs| {
            // A learner might apply softmax to the columns of the scores instead of the rows. The
            // matrix of scores is symmetric, so this mistake leads to the transpose of the correct
            // weights.
            weights(inputs).t().dot(inputs)
        },
    ),
    (
        "the scores are used as weights; apply softmax to each row first",
        |inputs| inputs.dot(&inputs.t()).dot(inputs),
    ),
    (
        "each row of scores is divided by its sum; apply softmax to each row instead",
        |inputs| {
            let mut scores = inputs.dot(&inputs.t());
            for mut row in scores.rows_mut() {
                let sum = row.sum();
                row /= sum;
            }
            scores.dot(inputs)
        },
    ),
    (
        "softmax is applied to all scores at once; apply it to each row",
        |inputs| {
            let exponentials = inputs.dot(&inputs.t()).mapv(f32::exp);
            (&exponentials / exponentials.sum()).dot(inputs)
        },
    ),
    (
        "the function returns the weights; multiply them by the vectors of the words",
        weights,
    ),
];

/// Checks the learner's `context_vectors`.
pub fn check(context_vectors: ContextVectors) -> Report {
    let mut check = Check::new(context_vectors, MISTAKES);
    check.printed(
        "the book's words, In [13]",
        ("ch03", "In [13]", 0),
        |yours| yours(&inputs()),
    );
    let second = random(4, 3, 7);
    let x = wide(&second);
    let expected = reference::softmax_rows(&x.dot(&x.t())).dot(&x);
    check.equals("a second input (seed 7)", expected, |yours| yours(&second));
    check.holds("equal words have equal vectors", |yours| {
        let twice = yours(&array![[1.0, 2.0], [1.0, 2.0]]);
        match twice.row(0) == twice.row(1) {
            true => Ok(()),
            false => Err(format!(
                "the vectors of two occurrences of the same word are {} and {}, but they should be equal",
                twice.row(0),
                twice.row(1)
            )),
        }
    });
    check.report()
}
