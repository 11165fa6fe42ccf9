//! 3.5 The causal mask
//!
//! A model that learns to predict the next word must not see this word. Convert scores to weights
//! that hide the future: the weight of a word for each later word is 0, and the weights for the
//! word itself and for all earlier words sum to 1. Scale the scores as in exercise 3.4.
//!
//! Like all scores, these scores can be large positive or negative numbers, for example 300 or
//! -300.
//!
//! HINT: It is easier to hide the future before softmax than after it. Which score leads to a
//!   weight of 0, no matter how small the other scores are?
//! HINT: The weights are the softmax of each row of the masked scores. The masked score in row i
//!   and column j is minus infinity if j > i, and score_ij / sqrt(d_k) otherwise.
//! HINT: `scores.indexed_iter_mut()` returns each number with its index, as `((i, j), score)`.
//!   `f32::NEG_INFINITY` is minus infinity.

use practice::given::softmax_rows;
use practice::ndarray::Array2;

/// Returns the attention weights of n words, which are 0 for later words. The scores and the
/// weights both have the shape (n, n).
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

// CHECKS

use attention::SelfAttentionV2;
use torch_rng::TorchRng;

use super::inputs;
use crate::Report;
use crate::check::{Check, Mistake, random, sum_is_1};
use crate::reference;

type CausalWeights = fn(&Array2<f32>, usize) -> Array2<f32>;

/// Returns the scores divided by the square root of `d_k`. If `is_hidden(i, j)` returns true, the
/// score in row `i` and column `j`, which determines the weight of word `i` for word `j`, is
/// replaced with `mask`. Some typical mistakes hide the wrong words or use a wrong `mask`, such as
/// 0.
fn masked(
    scores: &Array2<f32>,
    d_k: usize,
    mask: f32,
    is_hidden: impl Fn(usize, usize) -> bool,
) -> Array2<f32> {
    let mut masked = scores / (d_k as f32).sqrt();
    for ((i, j), score) in masked.indexed_iter_mut() {
        if is_hidden(i, j) {
            *score = mask;
        }
    }
    masked
}

/// Computes causal attention weights with a typical mistake: softmax is applied to the scores of
/// all words, and the weights for later words are set to 0 only afterwards, so the remaining
/// weights no longer sum to 1.
fn masked_late(scores: &Array2<f32>, d_k: usize) -> Array2<f32> {
    let mut weights = softmax_rows(scores / (d_k as f32).sqrt());
    weights
        .indexed_iter_mut()
        .filter(|((i, j), _)| j > i)
        .for_each(|(_, weight)| *weight = 0.0);
    weights
}

const HIDDEN: f32 = f32::NEG_INFINITY;

pub(crate) const MISTAKES: &[Mistake<CausalWeights>] = &[
    (
        "each word sees the next word; mask the scores with j > i",
        |scores, d_k| softmax_rows(masked(scores, d_k, HIDDEN, |i, j| j > i + 1)),
    ),
    (
        "a word doesn't see itself; mask the scores with j > i and not with j >= i",
        |scores, d_k| softmax_rows(masked(scores, d_k, HIDDEN, |i, j| j >= i)),
    ),
    (
        "the past is masked; mask the future, which is where j > i",
        |scores, d_k| softmax_rows(masked(scores, d_k, HIDDEN, |i, j| j < i)),
    ),
    (
        "no score is masked; replace the scores with j > i with minus infinity",
        |scores, d_k| softmax_rows(scores / (d_k as f32).sqrt()),
    ),
    (
        "masked scores are 0, for which softmax returns a weight; use minus infinity",
        |scores, d_k| softmax_rows(masked(scores, d_k, 0.0, |i, j| j > i)),
    ),
    (
        "masked scores are -100, but other scores can be smaller; use minus infinity",
        |scores, d_k| softmax_rows(masked(scores, d_k, -100.0, |i, j| j > i)),
    ),
    (
        "the mask is applied after softmax, so rows don't sum to 1; apply it before softmax",
        masked_late,
    ),
    (
        "masking the weights and dividing again can lead to 0 / 0; mask before softmax",
        |scores, d_k| {
            let mut weights = masked_late(scores, d_k);
            for mut row in weights.rows_mut() {
                let sum = row.sum();
                row /= sum;
            }
            weights
        },
    ),
    (
        "the scores aren't divided by the square root of d_k; divide them before softmax",
        |scores, _| causal_weights(scores, 1),
    ),
    (
        "the scores are divided by d_k; divide them by its square root",
        |scores, d_k| causal_weights(scores, d_k * d_k),
    ),
    (
        "the scores are divided by the square root of the number of words; use that of d_k",
        |scores, _| causal_weights(scores, scores.nrows()),
    ),
    (
        "softmax is missing; apply it to each row of the masked scores",
        |scores, d_k| masked(scores, d_k, 0.0, |i, j| j > i),
    ),
];

/// Checks the learner's `causal_weights`.
pub fn check(causal_weights: CausalWeights) -> Report {
    let mut check = Check::new(causal_weights, MISTAKES);
    let v2 = SelfAttentionV2::new(3, 2, false, &mut TorchRng::manual_seed(789));
    let (queries, keys) = (v2.w_query.forward(&inputs()), v2.w_key.forward(&inputs()));
    check.printed(
        "the book's scores, In [30]",
        ("ch03", "In [30]", 0),
        |yours| yours(&queries.dot(&keys.t()), 2),
    );
    let by_rows = |scores: &Array2<f32>, d_k: usize| {
        let mut weights = reference::wide(scores) / (d_k as f64).sqrt();
        for (i, mut row) in weights.rows_mut().into_iter().enumerate() {
            let seen = row.iter().take(i + 1).copied().collect();
            let softmax = reference::softmax(&seen);
            (row.iter_mut().enumerate())
                .for_each(|(j, weight)| *weight = softmax.get(j).copied().unwrap_or(0.0));
        }
        weights
    };
    let scores = random(4, 4, 7);
    check.equals(
        "a second input (seed 7), d_k = 9",
        by_rows(&scores, 9),
        |yours| yours(&scores, 9),
    );
    let large = scores.mapv(|score| 300.0 * score.signum());
    check.equals(
        "scores of 300 and -300, d_k = 1",
        by_rows(&large, 1),
        |yours| yours(&large, 1),
    );
    let negative = Array2::from_elem((3, 3), -300.0);
    check.equals("scores of -300, d_k = 1", by_rows(&negative, 1), |yours| {
        yours(&negative, 1)
    });
    check.holds("each row sums to 1", |yours| {
        yours(&scores, 9)
            .rows()
            .into_iter()
            .try_for_each(|row| sum_is_1("the weights in a row", row.sum()))
    });
    check.holds("the future doesn't change the past", |yours| {
        let mut changed = scores.clone();
        changed.column_mut(3).fill(50.0);
        let (before, after) = (yours(&scores, 9), yours(&changed, 9));
        match (0..3).all(|row| before.row(row) == after.row(row)) {
            true => Ok(()),
            false => {
                Err("the last column affects earlier rows; mask the scores with j > i".to_owned())
            }
        }
    });
    check.report()
}
