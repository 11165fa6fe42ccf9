//! 4.3b The feed-forward network: listing 4.4
//!
//! Attention moves information between tokens. The feed-forward network then processes each token
//! separately. Its first layer computes a larger number of features (four times as many in GPT-2),
//! and GELU is applied to each of them. Its second layer reduces them to the original number, so
//! the result can be added to the input.
//!
//! The layers have the layout of `nn.Linear`, so a weight has the shape (out, in). Each layer has a
//! bias. `gelu` is your function from exercise 4.3, which is applied to a single number.
//!
//! HINT: Without a function between them, two linear layers are equivalent to a single one. Where
//!   must GELU be applied?
//! HINT: hidden = gelu(x @ w1^T + b1), and the result is hidden @ w2^T + b2.
//! HINT: `x.dot(&w1.t()) + b1` computes a linear layer, and `.mapv(gelu)` applies a function to
//!   each number.

use practice::given::gelu;
use practice::ndarray::{Array1, Array2};

/// Applies the feed-forward network to n tokens. `x` and the result have the shape (n, d). `w1` has
/// the shape (hidden, d), and `w2` has the shape (d, hidden).
pub fn feed_forward(
    x: &Array2<f32>,
    w1: &Array2<f32>,
    b1: &Array1<f32>,
    w2: &Array2<f32>,
    b2: &Array1<f32>,
) -> Array2<f32> {
    // SOLUTION
    let hidden = (x.dot(&w1.t()) + b1).mapv(gelu);
    hidden.dot(&w2.t()) + b2
    // END
}

// CHECKS

use crate::Report;
use crate::check::{Check, Mistake, random};
use crate::reference::wide;

type FeedForward =
    fn(&Array2<f32>, &Array2<f32>, &Array1<f32>, &Array2<f32>, &Array1<f32>) -> Array2<f32>;

pub(crate) const MISTAKES: &[Mistake<FeedForward>] = &[
    (
        "GELU is missing; apply it between the two layers",
        |x, w1, b1, w2, b2| (x.dot(&w1.t()) + b1).dot(&w2.t()) + b2,
    ),
    (
        "ReLU is applied between the layers; apply GELU",
        |x, w1, b1, w2, b2| (x.dot(&w1.t()) + b1).mapv(|x| x.max(0.0)).dot(&w2.t()) + b2,
    ),
    (
        "GELU is applied after the second layer; apply it between the layers",
        |x, w1, b1, w2, b2| ((x.dot(&w1.t()) + b1).dot(&w2.t()) + b2).mapv(gelu),
    ),
    (
        "GELU is also applied after the second layer; apply it only between the layers",
        |x, w1, b1, w2, b2| feed_forward(x, w1, b1, w2, b2).mapv(gelu),
    ),
    (
        "GELU is applied before the first bias is added; add the bias first",
        |x, w1, b1, w2, b2| (x.dot(&w1.t()).mapv(gelu) + b1).dot(&w2.t()) + b2,
    ),
    (
        "the bias of the first layer is missing; add b1",
        |x, w1, _, w2, b2| x.dot(&w1.t()).mapv(gelu).dot(&w2.t()) + b2,
    ),
    (
        "the bias of the second layer is missing; add b2",
        |x, w1, b1, w2, _| (x.dot(&w1.t()) + b1).mapv(gelu).dot(&w2.t()),
    ),
    (
        "both biases are missing; add b1 and b2",
        |x, w1, _, w2, _| x.dot(&w1.t()).mapv(gelu).dot(&w2.t()),
    ),
    (
        "the input is added to the result; omit it, because the block adds it later",
        |x, w1, b1, w2, b2| feed_forward(x, w1, b1, w2, b2) + x,
    ),
];

/// Checks the learner's `feed_forward`.
pub fn check(feed_forward: FeedForward) -> Report {
    let mut check = Check::new(feed_forward, MISTAKES);
    for (label, tokens, d, hidden) in [
        ("2 tokens, 3 features, 12 hidden", 2, 3, 12),
        ("1 token, 4 features, 2 hidden", 1, 4, 2),
    ] {
        let x = random(tokens, d, 7);
        let (w1, w2) = (random(hidden, d, 8), random(d, hidden, 9));
        let [b1, b2] =
            [(hidden, 10), (d, 11)].map(|(n, seed)| random(1, n, seed).row(0).to_owned());
        let gelu = |x: f64| {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3));
            0.5 * x * (1.0 + inner.tanh())
        };
        let inside = (wide(&x).dot(&wide(&w1).t()) + wide(&b1)).mapv(gelu);
        let expected = inside.dot(&wide(&w2).t()) + wide(&b2);
        check.equals(label, expected, |yours| yours(&x, &w1, &b1, &w2, &b2));
    }
    check.holds("tokens don't affect each other", |yours| {
        let x = random(3, 4, 7);
        let (w1, w2) = (random(8, 4, 8), random(4, 8, 9));
        let (b1, b2) = (Array1::ones(8), Array1::ones(4));
        let mut changed = x.clone();
        changed.row_mut(0).fill(2.0);
        let [before, after] = [&x, &changed].map(|x| yours(x, &w1, &b1, &w2, &b2));
        let change = (&before - &after).mapv(f32::abs);
        match change.row(1).sum() + change.row(2).sum() < 1e-4 {
            true => Ok(()),
            false => Err(
                "the first token affects other rows, but it should affect only its own".to_owned(),
            ),
        }
    });
    check.report()
}
