//! 5.2b A step of AdamW
//!
//! The simplest optimizer subtracts the gradient, multiplied by the learning rate, from each
//! weight. However, the gradients vary from batch to batch, and some weights always have larger
//! gradients than others. AdamW therefore stores two running means for each weight. `moments[0]` is
//! the mean of its gradients, which smooths the variations, and `moments[1]` is the mean of their
//! squares. The optimizer divides the first mean by the square root of the second, so that all
//! weights change by similar amounts.
//!
//! In each step, a running mean keeps the fraction `BETA1` (or `BETA2`) of its old value, and the
//! new gradient (or its square) contributes the rest. The means start at 0, so they are too small
//! at first, and the optimizer corrects them before it uses them. In addition, weight decay moves
//! each weight a little toward 0. The size of this change is the product of the weight, the
//! learning rate and `decay`. It doesn't depend on the gradient or the means.
//!
//! Update `moments` and return the new weight. `step` counts the steps and is 1 in the first step.
//!
//! HINT: After t steps, the coefficients of all gradients in a running mean add up to 1 - BETA^t.
//!   How can you correct the mean so that they add up to 1?
//! HINT: m = BETA1 m + (1 - BETA1) g, v = BETA2 v + (1 - BETA2) g^2, and the new weight is weight
//!   (1 - lr decay) - lr (m / (1 - BETA1^t)) / (sqrt(v / (1 - BETA2^t)) + EPS).
//! HINT: `let [mean, square] = moments;` gives names to the two means, and `*mean = ...` changes
//!   one of them. `BETA1.powi(step)` computes a power.

/// Fraction of the old running mean of the gradients that is kept in each step.
pub const BETA1: f32 = 0.9;

/// Fraction of the old running mean of the squared gradients that is kept in each step.
pub const BETA2: f32 = 0.999;

/// Small number that is added to the square root to prevent a division by 0 if all gradients of a
/// weight are 0.
pub const EPS: f32 = 1e-8;

/// Returns the new weight.
pub fn adamw(
    weight: f32,
    gradient: f32,
    moments: &mut [f32; 2],
    step: i32,
    lr: f32,
    decay: f32,
) -> f32 {
    // SOLUTION
    let [mean, square] = moments;
    *mean = BETA1 * *mean + (1.0 - BETA1) * gradient;
    *square = BETA2 * *square + (1.0 - BETA2) * gradient * gradient;
    let mean = *mean / (1.0 - BETA1.powi(step));
    let square = *square / (1.0 - BETA2.powi(step));
    weight * (1.0 - lr * decay) - lr * mean / (square.sqrt() + EPS)
    // END
}

// CHECKS

use ndarray::Array2;

use crate::Report;
use crate::check::{Check, Mistake};

type AdamW = fn(f32, f32, &mut [f32; 2], i32, f32, f32) -> f32;

/// Updates the two running means of AdamW in `moments` with `gradient`. Returns copies of the means
/// that are corrected for the fact that they start at 0. The incorrect versions of `adamw` that the
/// check recognizes use this function for the part of the computation that they perform correctly.
fn means(gradient: f32, moments: &mut [f32; 2], step: i32) -> [f32; 2] {
    adamw(0.0, gradient, moments, step, 0.0, 0.0);
    [
        moments[0] / (1.0 - BETA1.powi(step)),
        moments[1] / (1.0 - BETA2.powi(step)),
    ]
}

pub(crate) const MISTAKES: &[Mistake<AdamW>] = &[
    (
        "the means aren't corrected for their start at 0; divide them by 1 - BETA^step",
        |weight, gradient, moments, step, lr, decay| {
            means(gradient, moments, step);
            weight * (1.0 - lr * decay) - lr * moments[0] / (moments[1].sqrt() + EPS)
        },
    ),
    (
        "the corrected means are stored; store the means before the correction",
        |weight, gradient, moments, step, lr, decay| {
            *moments = means(gradient, moments, step);
            weight * (1.0 - lr * decay) - lr * moments[0] / (moments[1].sqrt() + EPS)
        },
    ),
    (
        "the weight decay is missing; multiply the weight by 1 - lr * decay",
        |weight, gradient, moments, step, lr, _| adamw(weight, gradient, moments, step, lr, 0.0),
    ),
    (
        "the decay is added to the gradient, as in Adam; apply it to the weight directly",
        |weight, gradient, moments, step, lr, decay| {
            adamw(weight, gradient + decay * weight, moments, step, lr, 0.0)
        },
    ),
    (
        "the decay isn't multiplied by the learning rate; multiply it by lr",
        |weight, gradient, moments, step, lr, decay| {
            adamw(weight, gradient, moments, step, lr, decay / lr)
        },
    ),
    (
        "the step is divided by the mean of the squares; divide it by its square root",
        |weight, gradient, moments, step, lr, decay| {
            let [mean, square] = means(gradient, moments, step);
            weight * (1.0 - lr * decay) - lr * mean / (square + EPS)
        },
    ),
    (
        "EPS is added before the square root is computed; add it afterwards",
        |weight, gradient, moments, step, lr, decay| {
            let [mean, square] = means(gradient, moments, step);
            weight * (1.0 - lr * decay) - lr * mean / (square + EPS).sqrt()
        },
    ),
    (
        "the weight moves in the wrong direction; subtract the step",
        |weight, gradient, moments, step, lr, decay| {
            adamw(weight, gradient, moments, step, -lr, -decay)
        },
    ),
    (
        "this is plain gradient descent; use the running means of the gradients",
        |weight, gradient, _, _, lr, decay| weight * (1.0 - lr * decay) - lr * gradient,
    ),
    (
        "the means aren't stored, so earlier steps are forgotten; write to `moments`",
        |weight, gradient, moments, step, lr, decay| {
            adamw(weight, gradient, &mut moments.clone(), step, lr, decay)
        },
    ),
];

/// Checks the learner's `adamw`.
pub fn check(adamw: AdamW) -> Report {
    let mut check = Check::new(adamw, MISTAKES);
    // Each row contains the weight and both means after a step.
    let steps = |adamw: AdamW, gradients: &[f32], lr: f32, decay: f32| {
        let (mut weight, mut moments) = (2.0, [0.0; 2]);
        let mut rows = Array2::<f32>::zeros((gradients.len(), 3));
        for (i, &gradient) in gradients.iter().enumerate() {
            weight = adamw(weight, gradient, &mut moments, i as i32 + 1, lr, decay);
            let numbers = [weight, moments[0], moments[1]];
            rows.row_mut(i).assign(&ndarray::aview1(&numbers));
        }
        rows
    };
    let expected = |gradients: &[f32], lr: f64, decay: f64| {
        let (mut weight, mut mean, mut square) = (2.0, 0.0, 0.0);
        let mut rows = Array2::<f64>::zeros((gradients.len(), 3));
        for (i, &gradient) in gradients.iter().enumerate() {
            let gradient = f64::from(gradient);
            mean += 0.1 * (gradient - mean);
            square += 0.001 * (gradient * gradient - square);
            let t = i as i32 + 1;
            let root = (square / (1.0 - 0.999f64.powi(t))).sqrt();
            weight -= lr * decay * weight;
            weight -= lr * mean / (1.0 - 0.9f64.powi(t)) / (root + 1e-8);
            let numbers = [weight, mean, square];
            rows.row_mut(i).assign(&ndarray::aview1(&numbers));
        }
        rows
    };
    for (label, gradients, lr, decay) in [
        ("the first step", &[30.0f32][..], 0.5f32, 0.0f32),
        ("five steps", &[30.0, -10.0, 40.0, 20.0, -50.0], 0.5, 0.0),
        ("with a weight decay of 0.1", &[30.0, -10.0, 40.0], 0.5, 0.1),
        ("gradients of 0: only the decay", &[0.0, 0.0], 0.5, 0.1),
        ("a gradient of 1e-8", &[1e-8], 0.5, 0.0),
    ] {
        let expected = expected(gradients, f64::from(lr), f64::from(decay));
        check.equals(label, expected, |adamw| steps(adamw, gradients, lr, decay));
    }
    check.report()
}
