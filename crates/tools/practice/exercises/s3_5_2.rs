//! 3.5.2 Dropout
//!
//! A model that relies on only a few numbers overfits easily. During training, dropout sets
//! randomly chosen numbers to 0, so the model has to rely on many numbers. Each number is dropped
//! with the probability `p`. After training, no number is dropped. To make sums of these numbers
//! equally large on average during and after training, dropout must increase the numbers that it
//! keeps.
//!
//! Go through `x` row by row. For each element, call `random()` to get a random number that is at
//! least 0 and less than 1, and drop the element if the random number is less than `p`. You can
//! assume that `p` is less than 1.
//!
//! HINT: If half of the numbers are dropped, by which factor must the others increase so that the
//!   sum stays the same on average?
//! HINT: out = 0 if random() < p, and x / (1 - p) otherwise.
//! HINT: `x.mapv(|x| ...)` applies a closure to each number, row by row.

use practice::ndarray::Array2;

/// Returns an array of the same shape as `x`, in which dropped numbers are 0.
pub fn dropout(x: &Array2<f32>, p: f32, random: &mut dyn FnMut() -> f32) -> Array2<f32> {
    // SOLUTION
    x.mapv(|x| if random() < p { 0.0 } else { x / (1.0 - p) })
    // END
}

// CHECKS

use torch_rng::TorchRng;

use crate::Report;
use crate::check::{Check, Mistake, random};

/// A function that returns the next random number.
type Random<'a> = &'a mut dyn FnMut() -> f32;
type Dropout = fn(&Array2<f32>, f32, Random<'_>) -> Array2<f32>;

pub(crate) const MISTAKES: &[Mistake<Dropout>] = &[
    (
        "the numbers that are kept aren't scaled; divide them by 1 - p",
        |x, p, random| x.mapv(|x| if random() < p { 0.0 } else { x }),
    ),
    (
        "the numbers that are kept are multiplied by 1 - p; divide them by it",
        |x, p, random| x.mapv(|x| if random() < p { 0.0 } else { x * (1.0 - p) }),
    ),
    (
        "the numbers that are kept are divided by p; divide them by 1 - p",
        |x, p, random| x.mapv(|x| if random() < p { 0.0 } else { x / p }),
    ),
    (
        "numbers are kept with the probability p; drop them with this probability",
        |x, p, random| x.mapv(|x| if random() < p { x / p } else { 0.0 }),
    ),
    (
        "whole rows are dropped; draw a random number for each element of x",
        |x, p, random| {
            let mut out = x / (1.0 - p);
            for mut row in out.rows_mut() {
                if random() < p {
                    row.fill(0.0);
                }
            }
            out
        },
    ),
    (
        "either all numbers are dropped or none; draw a random number for each of them",
        |x, p, random| match random() < p {
            true => Array2::zeros(x.dim()),
            false => x / (1.0 - p),
        },
    ),
    (
        "no number is dropped; drop a number if `random() < p`",
        |x, _, _| x.clone(),
    ),
];

/// Checks the learner's `dropout`.
pub fn check(dropout: Dropout) -> Report {
    let mut check = Check::new(dropout, MISTAKES);
    // Calls a dropout function with random numbers from a generator with a fixed seed. The check
    // can generate the same random numbers again, so it knows which numbers the learner's function
    // must drop.
    let with = |dropout: Dropout, x: &Array2<f32>, p: f32, seed: u64| {
        let mut rng = TorchRng::manual_seed(seed);
        dropout(x, p, &mut || rng.rand(1)[0])
    };
    let expected = |x: &Array2<f32>, p: f32, seed: u64| {
        let mut rng = TorchRng::manual_seed(seed);
        let mut out = x.mapv(f64::from);
        for number in &mut out {
            let stays = rng.rand(1)[0] >= p;
            *number *= f64::from(u8::from(stays)) / (1.0 - f64::from(p));
        }
        out
    };
    let ones = Array2::<f32>::ones((6, 6));
    check.equals(
        "6 x 6 ones, p = 0.5 (seed 123)",
        expected(&ones, 0.5, 123),
        |dropout| with(dropout, &ones, 0.5, 123),
    );
    let x = random(4, 5, 7);
    for p in [0.1, 0.8] {
        let label = format!("a second input (seed 7), p = {p}");
        check.equals(&label, expected(&x, p, 8), |dropout| {
            with(dropout, &x, p, 8)
        });
    }
    check.equals("p = 0", x.clone(), |dropout| with(dropout, &x, 0.0, 9));
    check.holds("the mean stays the same", |dropout| {
        let mean = with(dropout, &Array2::ones((100, 100)), 0.3, 10).sum() / 10_000.0;
        match (mean - 1.0).abs() < 0.03 {
            true => Ok(()),
            false => Err(format!(
                "after dropout, the mean of 10,000 ones is {mean}, but it should be about 1"
            )),
        }
    });
    check.report()
}
