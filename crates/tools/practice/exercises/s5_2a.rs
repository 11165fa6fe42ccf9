//! 5.2a Backward: cross-entropy and a linear layer
//!
//! The gradient of a number describes how the loss changes if the number increases a little. It is
//! the change of the loss divided by the change of the number. Training computes gradients in a
//! backward pass, from the loss to the first layer. Each operation receives the gradient of its
//! output and returns the gradients of its inputs. Write the backward passes of the last two
//! operations of a GPT.
//!
//! `cross_entropy_gradient` returns the gradient of each logit. The loss is the mean over all
//! positions, as in exercise 5.1, so the logits of one position affect only a fraction of it.
//!
//! `linear_backward` is the backward pass of `y = x @ W.T + b`. It receives `d_y`, which is the
//! gradient of y, and returns the gradients of x, W and b. Each gradient has the shape of its
//! array. Note that the bias is added to each row of y.
//!
//! The checks compare your gradients with finite differences. To compute these, they change a
//! number a little and compute the loss again.
//!
//! HINT: If a number is used several times, its gradient is the sum of the gradients of all uses.
//!   The shapes leave almost no choice: which product of d_y, x and W has the shape of W?
//! HINT: d_logits = (softmax(logits) - one_hot(target)) / n for n positions, where one_hot is 1 for
//!   the target and 0 for all other tokens. d_x = d_y @ W, d_W = d_y^T @ x, and d_b is the sum of
//!   the rows of d_y.
//! HINT: `d_y.sum_axis(Axis(0))` returns the sum of the rows. `probabilities[[row, target as
//!   usize]] -= 1.0` changes a single number.

use practice::given::softmax_rows;
use practice::ndarray::{Array1, Array2, Axis};

/// Returns the gradients of the logits. Like the logits, they have the shape (positions,
/// vocabulary).
pub fn cross_entropy_gradient(logits: &Array2<f32>, targets: &[u32]) -> Array2<f32> {
    // SOLUTION
    let mut probabilities = softmax_rows(logits.clone());
    for (row, &target) in targets.iter().enumerate() {
        probabilities[[row, target as usize]] -= 1.0;
    }
    probabilities / targets.len() as f32
    // END
}

/// Returns the gradients of x, W and b. `x` has the shape (n, in), `weight` has the shape (out,
/// in), and `d_y` has the shape (n, out).
pub fn linear_backward(
    x: &Array2<f32>,
    weight: &Array2<f32>,
    d_y: &Array2<f32>,
) -> (Array2<f32>, Array2<f32>, Array1<f32>) {
    // SOLUTION
    (d_y.dot(weight), d_y.t().dot(x), d_y.sum_axis(Axis(0)))
    // END
}

// CHECKS

use crate::Report;
use crate::check::{Check, Mistake, random};
use crate::reference::{self, wide};

type CrossEntropyGradient = fn(&Array2<f32>, &[u32]) -> Array2<f32>;
type LinearBackward =
    fn(&Array2<f32>, &Array2<f32>, &Array2<f32>) -> (Array2<f32>, Array2<f32>, Array1<f32>);

/// Computes the gradient of the cross-entropy loss with respect to the logits, but without the
/// division by the number of positions: takes the softmax of each row and subtracts `taken` from
/// the probability of the target token. For the correct gradient, `taken` is 1. An incorrect
/// version of the function that the check recognizes, which forgets this subtraction, passes 0.
fn probabilities_less(logits: &Array2<f32>, targets: &[u32], taken: f32) -> Array2<f32> {
    let mut probabilities = softmax_rows(logits.clone());
    for (row, &target) in targets.iter().enumerate() {
        probabilities[[row, target as usize]] -= taken;
    }
    probabilities
}

pub(crate) const MISTAKES: &[Mistake<(CrossEntropyGradient, LinearBackward)>] = &[
    (
        "the gradients aren't divided by the number of positions; divide them by it",
        (
            |logits, targets| probabilities_less(logits, targets, 1.0),
            linear_backward,
        ),
    ),
    (
        "the gradients are divided by the number of logits; use the number of positions",
        (
            |logits, targets| probabilities_less(logits, targets, 1.0) / logits.len() as f32,
            linear_backward,
        ),
    ),
    (
        "the targets are missing; subtract 1 from the probability of each target",
        (
            |logits, targets| probabilities_less(logits, targets, 0.0) / targets.len() as f32,
            linear_backward,
        ),
    ),
    (
        "the sign is wrong; subtract one_hot(target) from the probabilities",
        (
            |logits, targets| -cross_entropy_gradient(logits, targets),
            linear_backward,
        ),
    ),
    (
        "only the targets have a gradient; the loss depends on all logits, so return all",
        (
            |logits, targets| {
                let mut gradient = cross_entropy_gradient(logits, targets);
                for ((row, id), gradient) in gradient.indexed_iter_mut() {
                    if id != targets[row] as usize {
                        *gradient = 0.0;
                    }
                }
                gradient
            },
            linear_backward,
        ),
    ),
    (
        "softmax is missing; subtract 1 from the target's probability, not from its logit",
        (
            |logits, targets| {
                let mut gradient = logits.clone();
                for (row, &target) in targets.iter().enumerate() {
                    gradient[[row, target as usize]] -= 1.0;
                }
                gradient / targets.len() as f32
            },
            linear_backward,
        ),
    ),
    (
        "the gradient of W is transposed; return it in the shape of W",
        (cross_entropy_gradient, |x, weight, d_y| {
            let (d_x, d_weight, d_bias) = linear_backward(x, weight, d_y);
            (d_x, d_weight.t().to_owned(), d_bias)
        }),
    ),
    (
        "the gradient of W is divided by the number of rows; return the product as it is",
        (cross_entropy_gradient, |x, weight, d_y| {
            let (d_x, d_weight, d_bias) = linear_backward(x, weight, d_y);
            (d_x, d_weight / x.nrows() as f32, d_bias)
        }),
    ),
    (
        "the gradient of b is the mean of the rows of d_y; return their sum",
        (cross_entropy_gradient, |x, weight, d_y| {
            let (d_x, d_weight, d_bias) = linear_backward(x, weight, d_y);
            (d_x, d_weight, d_bias / x.nrows() as f32)
        }),
    ),
    (
        "the gradient of b is the first row of d_y; return the sum of all rows",
        (cross_entropy_gradient, |x, weight, d_y| {
            let (d_x, d_weight, _) = linear_backward(x, weight, d_y);
            (d_x, d_weight, d_y.row(0).to_owned())
        }),
    ),
    (
        "the gradient of x is computed with the transpose of W; use W itself",
        (cross_entropy_gradient, |x, weight, d_y| {
            let (_, d_weight, d_bias) = linear_backward(x, weight, d_y);
            (d_y.dot(&weight.t()), d_weight, d_bias)
        }),
    ),
];

/// Returns the gradient of `loss` at `x`, approximated by finite differences.
fn differences(x: &Array2<f64>, loss: impl Fn(&Array2<f64>) -> f64) -> Array2<f64> {
    const STEP: f64 = 1e-5;
    Array2::from_shape_fn(x.dim(), |place| {
        let at = |step: f64| {
            let mut x = x.clone();
            x[place] += step;
            loss(&x)
        };
        (at(STEP) - at(-STEP)) / (2.0 * STEP)
    })
}

/// Checks the learner's `cross_entropy_gradient` and `linear_backward`.
pub fn check(
    cross_entropy_gradient: CrossEntropyGradient,
    linear_backward: LinearBackward,
) -> Report {
    let mut check = Check::new((cross_entropy_gradient, linear_backward), MISTAKES);
    let (logits, targets) = (random(4, 5, 7), [0, 4, 2, 2]);
    let loss = |logits: &Array2<f64>| {
        let probabilities = reference::softmax_rows(logits);
        let rows = targets.iter().enumerate();
        let losses = rows.map(|(row, &target)| -probabilities[[row, target as usize]].ln());
        losses.sum::<f64>() / targets.len() as f64
    };
    check.equals(
        "the logits of 4 positions (seed 7)",
        differences(&wide(&logits), loss),
        |(gradient, _)| gradient(&logits, &targets),
    );
    let one = Array2::zeros((1, 4));
    let expected = Array2::from_shape_fn((1, 4), |(_, id)| if id == 2 { -0.75 } else { 0.25 });
    check.equals("one position, equal logits", expected, |(gradient, _)| {
        gradient(&one, &[2])
    });
    check.holds("a position's gradients sum to 0", |(gradient, _)| {
        let sum = gradient(&logits, &targets).row(0).sum();
        match sum.abs() < 1e-5 {
            true => Ok(()),
            false => Err(format!(
                "the sum of the position's gradients is {sum}, but it should be 0"
            )),
        }
    });
    for (n, inputs, outputs) in [(4, 3, 2), (3, 3, 3)] {
        let [x, weight, d_y] = [(n, inputs, 8), (outputs, inputs, 9), (n, outputs, 10)]
            .map(|(rows, columns, seed)| random(rows, columns, seed));
        let bias = random(1, outputs, 11);
        let wide = [&x, &weight, &bias, &d_y].map(wide);
        // With respect to y, the gradient of this loss is d_y.
        let loss = |x: &Array2<f64>, weight: &Array2<f64>, bias: &Array2<f64>| {
            ((x.dot(&weight.t()) + bias) * &wide[3]).sum()
        };
        let of = |what: &str| format!("d_{what}: {n} rows, {inputs} inputs, {outputs} outputs");
        let expected = differences(&wide[0], |x| loss(x, &wide[1], &wide[2]));
        check.equals(&of("x"), expected, |(_, backward)| {
            backward(&x, &weight, &d_y).0
        });
        let expected = differences(&wide[1], |weight| loss(&wide[0], weight, &wide[2]));
        check.equals(&of("W"), expected, |(_, backward)| {
            backward(&x, &weight, &d_y).1
        });
        let expected = differences(&wide[2], |bias| loss(&wide[0], &wide[1], bias));
        check.equals(&of("b"), expected.row(0).to_owned(), |(_, backward)| {
            backward(&x, &weight, &d_y).2
        });
    }
    check.report()
}
