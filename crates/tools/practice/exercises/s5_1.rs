//! 5.1 Cross-entropy and perplexity
//!
//! Training needs a single number that measures how bad the predictions are. The loss of a position
//! is the negative natural logarithm of the probability that the model gives to the target. It is 0
//! if the model is certain of the target, and large if the model considers the target improbable.
//! `cross_entropy` returns the mean loss over all positions. The softmax of a row of logits
//! contains the probabilities. Logits of 1000 must also lead to a finite loss.
//!
//! `perplexity` converts a loss to a number that is easier to interpret. A model with this loss is
//! as uncertain as if it had to guess the target among this number of equally probable tokens.
//!
//! HINT: You don't need to compute any probability. The logarithm of a quotient is a difference of
//!   logarithms, and the logarithm of an exponential is its exponent.
//! HINT: The loss of a row x is m + ln(the sum of exp(x_j - m) over all j) - x_target, where m is
//!   the largest logit of the row. The perplexity is exp(loss).
//! HINT: `logits.rows().into_iter().zip(targets)` returns each row with its target.

use practice::ndarray::Array2;

/// Returns the mean loss over all positions. The logits have the shape (positions, vocabulary), and
/// `targets` contains one token ID per position.
pub fn cross_entropy(logits: &Array2<f32>, targets: &[u32]) -> f32 {
    // SOLUTION
    let mut total = 0.0;
    for (row, &target) in logits.rows().into_iter().zip(targets) {
        let largest = row.fold(f32::NEG_INFINITY, |most, &x| most.max(x));
        let sum: f32 = row.iter().map(|x| (x - largest).exp()).sum();
        total += largest + sum.ln() - row[target as usize];
    }
    total / targets.len() as f32
    // END
}

/// Converts a loss to a perplexity, which is the number of equally probable tokens among which a
/// random guess would have this loss.
pub fn perplexity(loss: f32) -> f32 {
    // SOLUTION
    loss.exp()
    // END
}

// CHECKS

use ndarray::array;

use crate::Report;
use crate::check::{Check, Mistake, random};
use crate::given::softmax_rows;
use crate::reference::{self, wide};

type CrossEntropy = fn(&Array2<f32>, &[u32]) -> f32;
type Perplexity = fn(f32) -> f32;

/// Returns the probability of each target.
fn of_targets(logits: &Array2<f32>, targets: &[u32]) -> Vec<f32> {
    let probabilities = softmax_rows(logits.clone());
    let rows = targets.iter().enumerate();
    rows.map(|(row, &target)| probabilities[[row, target as usize]])
        .collect()
}

fn mean(numbers: impl ExactSizeIterator<Item = f32>) -> f32 {
    let n = numbers.len() as f32;
    numbers.sum::<f32>() / n
}

pub(crate) const MISTAKES: &[Mistake<(CrossEntropy, Perplexity)>] = &[
    (
        "the losses are added up; divide the sum by the number of positions",
        (
            |logits, targets| targets.len() as f32 * cross_entropy(logits, targets),
            perplexity,
        ),
    ),
    (
        "the sign is wrong; the loss is the negative logarithm",
        (
            |logits, targets| -cross_entropy(logits, targets),
            perplexity,
        ),
    ),
    (
        "this is the logarithm of the mean; compute the mean of the logarithms",
        (
            |logits, targets| -mean(of_targets(logits, targets).into_iter()).ln(),
            perplexity,
        ),
    ),
    (
        "the logits are used as logarithms of probabilities; apply softmax first",
        (
            |logits, targets| {
                let rows = targets.iter().enumerate();
                -mean(rows.map(|(row, &target)| logits[[row, target as usize]]))
            },
            perplexity,
        ),
    ),
    (
        "the probabilities are averaged; compute their logarithms first",
        (
            |logits, targets| -mean(of_targets(logits, targets).into_iter()),
            perplexity,
        ),
    ),
    (
        "the logarithm has the base 2; use the natural logarithm `ln`",
        (
            |logits, targets| cross_entropy(logits, targets) / std::f32::consts::LN_2,
            perplexity,
        ),
    ),
    (
        "the logarithm has the base 10; use the natural logarithm `ln`",
        (
            |logits, targets| cross_entropy(logits, targets) / std::f32::consts::LN_10,
            perplexity,
        ),
    ),
    (
        "the exponentials of large logits overflow; subtract the largest logit first",
        (
            |logits, targets| {
                let rows = logits.rows().into_iter().zip(targets);
                mean(
                    rows.map(|(row, &target)| row.mapv(f32::exp).sum().ln() - row[target as usize]),
                )
            },
            perplexity,
        ),
    ),
    (
        "small probabilities are rounded to 0; compute their logarithms from the logits",
        (
            |logits, targets| -mean(of_targets(logits, targets).into_iter().map(f32::ln)),
            perplexity,
        ),
    ),
    (
        "the perplexity is a power of 2; use `exp`, because the loss is a natural logarithm",
        (cross_entropy, f32::exp2),
    ),
];

/// Checks the learner's `cross_entropy` and `perplexity`.
pub fn check(cross_entropy: CrossEntropy, perplexity: Perplexity) -> Report {
    let mut check = Check::new((cross_entropy, perplexity), MISTAKES);
    // Probabilities that the book's model gives to six target tokens, as printed by cell In [8] of
    // the book's notebook. The functions under test expect logits, so each probability is converted
    // to the logits of a vocabulary of two tokens, of which token 0 is the target.
    let probabilities = [
        7.4541e-05f32,
        3.1061e-05,
        1.1563e-05,
        1.0337e-05,
        5.6776e-05,
        4.7559e-06,
    ];
    let book = Array2::from_shape_fn((6, 2), |(row, column)| match column {
        0 => probabilities[row].ln(),
        _ => (1.0 - probabilities[row]).ln(),
    });
    check.printed(
        "the book's predictions, In [11]",
        ("ch05", "In [11]", 0),
        |(yours, _)| yours(&book, &[0; 6]),
    );
    let (logits, targets) = (random(4, 5, 7), [0, 4, 2, 2]);
    let softmax = reference::softmax_rows(&wide(&logits));
    let rows = targets.iter().enumerate();
    let losses = rows.map(|(row, &target)| -softmax[[row, target as usize]].ln());
    let loss = losses.sum::<f64>() / 4.0;
    check.equals("a second input (seed 7)", loss, |(yours, _)| {
        yours(&logits, &targets)
    });
    check.equals(
        "a guess among 50,257 tokens",
        50257f64.ln(),
        |(yours, _)| yours(&Array2::zeros((1, 50257)), &[7]),
    );
    check.equals("logits of 1000 and 0, target 0", 0.0, |(yours, _)| {
        yours(&array![[1000.0, 0.0]], &[0])
    });
    check.equals("logits of 1000 and 0, target 1", 1000.0, |(yours, _)| {
        yours(&array![[1000.0, 0.0]], &[1])
    });
    check.equals(
        "the perplexity of a loss of 2",
        2f64.exp(),
        |(_, perplexity)| perplexity(2.0),
    );
    check.report()
}
