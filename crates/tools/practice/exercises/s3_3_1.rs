//! 3.3.1 Softmax: from scores to weights
//!
//! Attention scores can be any numbers. To compute a weighted average, convert the scores to
//! weights. No weight may be negative, the weights must sum to 1, and a larger score must lead to a
//! larger weight. Softmax computes such weights with exponentials.
//!
//! The scores of a trained model can be large, but e to the power of 1000 is infinite in `f32`.
//! Your function must also return the correct weights for such scores.
//!
//! HINT: If the same number is subtracted from all scores, the weights don't change. Which number
//!   can you subtract so that no exponential overflows?
//! HINT: weight_i = exp(score_i - m) / (the sum of exp(score_j - m) over all j), where m is the
//!   largest score.
//! HINT: `scores.fold(f32::NEG_INFINITY, |most, &x| most.max(x))` returns the largest score, and
//!   `scores.mapv(f32::exp)` applies a function to each score.

use practice::ndarray::Array1;

/// Returns the weights for n scores. The scores and the weights both have the shape (n).
pub fn softmax(scores: &Array1<f32>) -> Array1<f32> {
    // SOLUTION
    let largest = scores.fold(f32::NEG_INFINITY, |most, &x| most.max(x));
    let exponentials = scores.mapv(|x| (x - largest).exp());
    &exponentials / exponentials.sum()
    // END
}

// CHECKS

use ndarray::array;

use super::inputs;
use crate::Report;
use crate::check::{Check, Mistake, random, sum_is_1};
use crate::reference;

type Softmax = fn(&Array1<f32>) -> Array1<f32>;

/// Returns the softmax of the scores, computed with `shift` subtracted from each score. Some
/// typical mistakes subtract a number other than the largest score, so that the exponentials may
/// overflow.
fn shifted(scores: &Array1<f32>, shift: f32) -> Array1<f32> {
    let exponentials = scores.mapv(|x| (x - shift).exp());
    &exponentials / exponentials.sum()
}

pub(crate) const MISTAKES: &[Mistake<Softmax>] = &[
    (
        "the exponentials aren't divided by their sum; divide each of them by it",
        |scores| scores.mapv(f32::exp),
    ),
    (
        "the scores are divided by their sum; compute the exponentials first",
        |scores| scores / scores.sum(),
    ),
    (
        "the exponentials are divided by the sum of the scores; use their own sum",
        |scores| scores.mapv(f32::exp) / scores.sum(),
    ),
    (
        "the exponentials are divided by the largest one; divide them by their sum",
        |scores| {
            let largest = scores.fold(f32::NEG_INFINITY, |most, &x| most.max(x));
            scores.mapv(|x| (x - largest).exp())
        },
    ),
    (
        "the powers have the base 2; use `exp`, which has the base e",
        |scores| {
            let largest = scores.fold(f32::NEG_INFINITY, |most, &x| most.max(x));
            let powers = scores.mapv(|x| (x - largest).exp2());
            &powers / powers.sum()
        },
    ),
    (
        "the exponentials of large scores overflow; subtract the largest score first",
        |scores| shifted(scores, 0.0),
    ),
    (
        "the first score is subtracted from all scores; subtract the largest score",
        |scores| shifted(scores, scores[0]),
    ),
    (
        "the mean is subtracted from all scores; subtract the largest score",
        |scores| shifted(scores, scores.sum() / scores.len() as f32),
    ),
    (
        "scores above a limit become equal; subtract the largest score instead",
        |scores| shifted(&scores.mapv(|x| x.min(80.0)), 0.0),
    ),
];

/// Checks the learner's `softmax`.
pub fn check(softmax: Softmax) -> Report {
    let mut check = Check::new(softmax, MISTAKES);
    let inputs = inputs();
    let scores: Array1<f32> = inputs.outer_iter().map(|x| x.dot(&inputs.row(1))).collect();
    check.printed(
        "the book's scores, In [7]",
        ("ch03", "In [7]", 0),
        |softmax| softmax(&scores),
    );
    let second = random(1, 5, 7).row(0).to_owned();
    for (label, scores) in [
        ("a second input (seed 7)", second.clone()),
        ("scores of 1000 and 1000", array![1000.0, 1000.0]),
        ("scores of 1000 and 999", array![1000.0, 999.0]),
        ("scores of 0 and 1000", array![0.0, 1000.0]),
        ("scores of 1000, 0 and 0", array![1000.0, 0.0, 0.0]),
        ("scores of -1000 and -1001", array![-1000.0, -1001.0]),
    ] {
        let expected = reference::softmax(&reference::wide(&scores));
        check.equals(label, expected, |softmax| softmax(&scores));
    }
    check.holds("the weights sum to 1", |softmax| {
        sum_is_1("the weights", softmax(&second).sum())
    });
    check.report()
}
