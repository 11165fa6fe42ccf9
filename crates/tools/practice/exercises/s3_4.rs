//! 3.4 Scaled dot-product attention
//!
//! Self-attention now has three learned matrices, which compute three vectors for each word: a
//! query (what the word looks for), a key (what it offers) and a value (what it contributes). The
//! score of two words is the dot product of the first word's query and the second word's key.
//! Softmax converts the scores of a word to weights, and the context vector of the word is the
//! weighted average of the values.
//!
//! The more features a key has, the larger the scores become. If scores are large, softmax gives
//! nearly all of the weight to one word, and the gradients become so small that training makes
//! hardly any progress. Therefore, scale the scores so that their size doesn't depend on `d_k`, the
//! number of features of a key.
//!
//! HINT: If the d_k features of two random vectors are independent and have mean 0 and variance 1,
//!   the dot product of the vectors has the variance d_k. By which number do you have to divide it
//!   to get a variance of 1?
//! HINT: queries = x @ w_query, and likewise for the keys and the values. The weights are the
//!   softmax of each row of queries @ keys^T / sqrt(d_k). The result is weights @ values.
//! HINT: d_k is `keys.ncols()`. The operator `/` divides all elements of a matrix by a number.

use practice::given::softmax_rows;
use practice::ndarray::Array2;

/// Returns the context vectors of n words, with the shape (n, d_out). The words `x` have the shape
/// (n, d_in), and each weight matrix has the shape (d_in, d_out).
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

// CHECKS

use attention::{SelfAttentionV1, WeightInit};
use torch_rng::TorchRng;

use super::inputs;
use crate::Report;
use crate::check::{Check, Mistake, random};
use crate::reference::{self, wide};

type Attention = fn(&Array2<f32>, &Array2<f32>, &Array2<f32>, &Array2<f32>) -> Array2<f32>;

/// Computes self-attention in which the scores are divided by `divisor`, and returns the context
/// vectors. Some typical mistakes use a wrong divisor, such as the number of features of a key
/// instead of its square root.
fn divided(
    x: &Array2<f32>,
    [w_query, w_key, w_value]: [&Array2<f32>; 3],
    divisor: f32,
) -> Array2<f32> {
    let scores = x.dot(w_query).dot(&x.dot(w_key).t());
    softmax_rows(scores / divisor).dot(&x.dot(w_value))
}

pub(crate) const MISTAKES: &[Mistake<Attention>] = &[
    (
        "the scores aren't divided by the square root of d_k; divide them before softmax",
        |x, q, k, v| divided(x, [q, k, v], 1.0),
    ),
    (
        "the scores are divided by d_k; divide them by its square root",
        |x, q, k, v| divided(x, [q, k, v], k.ncols() as f32),
    ),
    (
        "the scores are multiplied by the square root of d_k; divide them by it",
        |x, q, k, v| divided(x, [q, k, v], 1.0 / (k.ncols() as f32).sqrt()),
    ),
    (
        "the scores are divided by the square root of d_in; use that of d_k",
        |x, q, k, v| divided(x, [q, k, v], (x.ncols() as f32).sqrt()),
    ),
    (
        "the scores are divided by the square root of the number of words; use that of d_k",
        |x, q, k, v| divided(x, [q, k, v], (x.nrows() as f32).sqrt()),
    ),
    (
        "queries and keys are exchanged; the rows of the scores belong to the queries",
        |x, q, k, v| attention(x, k, q, v),
    ),
    (
        "the keys are used as values; compute the values with `w_value`",
        |x, q, k, _| attention(x, q, k, k),
    ),
    (
        "the words are used as values; multiply them by `w_value` first",
        |x, q, k, _| {
            let scores = x.dot(q).dot(&x.dot(k).t()) / (k.ncols() as f32).sqrt();
            softmax_rows(scores).dot(x)
        },
    ),
    (
        "softmax is missing; apply it to each row of the scaled scores",
        |x, q, k, v| {
            let scores = x.dot(q).dot(&x.dot(k).t()) / (k.ncols() as f32).sqrt();
            scores.dot(&x.dot(v))
        },
    ),
    (
        "softmax is applied to the columns; apply it to the rows",
        |x, q, k, v| {
            let scores = x.dot(q).dot(&x.dot(k).t()) / (k.ncols() as f32).sqrt();
            softmax_rows(scores.t().to_owned()).t().dot(&x.dot(v))
        },
    ),
    (
        "the weights are divided by the square root of d_k; divide the scores by it",
        |x, q, k, v| divided(x, [q, k, v], 1.0) / (k.ncols() as f32).sqrt(),
    ),
];

/// Checks the learner's `attention`.
pub fn check(attention: Attention) -> Report {
    let mut check = Check::new(attention, MISTAKES);
    let book = SelfAttentionV1::new(3, 2, WeightInit::Rand, &mut TorchRng::manual_seed(123));
    check.printed(
        "the book's weights, In [23]",
        ("ch03", "In [23]", 0),
        |attention| attention(&inputs(), &book.w_query, &book.w_key, &book.w_value),
    );
    let x = random(5, 3, 7);
    let [q, k, v] = [8, 9, 10].map(|seed| random(3, 4, seed));
    let expected = {
        let [x, q, k, v] = [&x, &q, &k, &v].map(wide);
        let scores = x.dot(&q).dot(&x.dot(&k).t()) / 4f64.sqrt();
        reference::softmax_rows(&scores).dot(&x.dot(&v))
    };
    check.equals("5 words, d_in = 3, d_out = 4", expected, |attention| {
        attention(&x, &q, &k, &v)
    });
    check.report()
}
