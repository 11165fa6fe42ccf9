//! 5.2b A step of AdamW
//!
//! The plainest step subtracts the gradient, times the learning rate, from a weight. But gradients
//! of single batches jump around, and those of some weights are always larger than those of others.
//! AdamW therefore remembers two means for each weight: `moments[0]` is a mean of its gradients,
//! which smooths the jumps, and `moments[1]` a mean of their squares. The step divides the first by
//! the root of the second, so that all weights move by similar amounts.
//!
//! Both are running means: after each gradient, `BETA1` (or `BETA2`) of the old mean stays. They
//! begin at 0, so they are too small at first, and the step corrects that. Weight decay pulls each
//! weight a little towards 0: this part is proportional to the weight, the learning rate and
//! `decay`, and has nothing to do with the gradient or its means.
//!
//! Update `moments` and return the new weight. `step` is 1 in the first step.
//!
//! HINT: After t steps the weights of a running mean add up to 1 - BETA^t. What does that say about
//!   the correction?
//! HINT: m = BETA1 m + (1 - BETA1) g, v = BETA2 v + (1 - BETA2) g^2, and the new weight is weight
//!   (1 - lr decay) - lr (m / (1 - BETA1^t)) / (sqrt(v / (1 - BETA2^t)) + EPS).
//! HINT: `let [mean, square] = moments;` gives names to the two numbers, which `*mean = ...`
//!   changes. `BETA1.powi(step)` is a power.

/// The part of the mean of gradients that stays.
pub const BETA1: f32 = 0.9;

/// The part of the mean of squares that stays.
pub const BETA2: f32 = 0.999;

/// Is added to the root, so that a weight without gradients causes no division by 0.
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

/// Updates the moments, and returns them with the corrections of this step.
fn means(gradient: f32, moments: &mut [f32; 2], step: i32) -> [f32; 2] {
    adamw(0.0, gradient, moments, step, 0.0, 0.0);
    [
        moments[0] / (1.0 - BETA1.powi(step)),
        moments[1] / (1.0 - BETA2.powi(step)),
    ]
}

pub(crate) const MISTAKES: &[Mistake<AdamW>] = &[
    (
        "the means are not corrected for their start at 0",
        |weight, gradient, moments, step, lr, decay| {
            means(gradient, moments, step);
            weight * (1.0 - lr * decay) - lr * moments[0] / (moments[1].sqrt() + EPS)
        },
    ),
    (
        "the corrected means are stored, not the running ones",
        |weight, gradient, moments, step, lr, decay| {
            *moments = means(gradient, moments, step);
            weight * (1.0 - lr * decay) - lr * moments[0] / (moments[1].sqrt() + EPS)
        },
    ),
    (
        "the weight decay is missing",
        |weight, gradient, moments, step, lr, _| adamw(weight, gradient, moments, step, lr, 0.0),
    ),
    (
        "the decay is part of the gradient, as in Adam; AdamW keeps it apart",
        |weight, gradient, moments, step, lr, decay| {
            adamw(weight, gradient + decay * weight, moments, step, lr, 0.0)
        },
    ),
    (
        "the decay is not multiplied by the learning rate",
        |weight, gradient, moments, step, lr, decay| {
            adamw(weight, gradient, moments, step, lr, decay / lr)
        },
    ),
    (
        "divided by the mean of the squares, not by its root",
        |weight, gradient, moments, step, lr, decay| {
            let [mean, square] = means(gradient, moments, step);
            weight * (1.0 - lr * decay) - lr * mean / (square + EPS)
        },
    ),
    (
        "EPS is added inside the root, not after it",
        |weight, gradient, moments, step, lr, decay| {
            let [mean, square] = means(gradient, moments, step);
            weight * (1.0 - lr * decay) - lr * mean / (square + EPS).sqrt()
        },
    ),
    (
        "the step goes uphill: subtract it",
        |weight, gradient, moments, step, lr, decay| {
            adamw(weight, gradient, moments, step, -lr, -decay)
        },
    ),
    (
        "this is plain gradient descent: the means are missing",
        |weight, gradient, _, _, lr, decay| weight * (1.0 - lr * decay) - lr * gradient,
    ),
    (
        "the means are not stored, so each step forgets the steps before it",
        |weight, gradient, moments, step, lr, decay| {
            adamw(weight, gradient, &mut moments.clone(), step, lr, decay)
        },
    ),
];

/// Checks an answer to this exercise.
pub fn check(adamw: AdamW) -> Report {
    let mut check = Check::new(adamw, MISTAKES);
    // The weight and both means after each step.
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
