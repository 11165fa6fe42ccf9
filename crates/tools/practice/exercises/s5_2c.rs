//! 5.2c The training loop
//!
//! A training step consists of four parts: reset the gradients, compute the loss of a batch,
//! compute the gradients, and change the weights. Perform such a step for each batch, and go
//! through all batches `epochs` times. After every `eval_every` steps, counted from the beginning
//! of the training, measure the loss on the validation data, because only this loss shows whether
//! the model overfits.
//!
//! The trait `practice::Training` has a method for each of these tasks. `loss` returns the loss of
//! the batch with the given number. As in PyTorch, `backward` adds the gradients of the last loss
//! to the gradients that are already stored.
//!
//! Return one pair per measurement, which consists of the number of steps so far and the validation
//! loss.
//!
//! HINT: Which method must be called before `backward`, and which one must be called after it?
//!   Which counter must not start again at 0 when the next epoch begins?
//! HINT: For each batch of each epoch, call zero_grad, loss, backward and step. Then add 1 to the
//!   number of steps. If this number is divisible by eval_every, append (steps, validation_loss) to
//!   the result.
//! HINT: `for batch in 0..batches` goes through the batches, and `steps % eval_every == 0` tests
//!   whether a number is divisible.

use practice::Training;

/// Trains a model for `epochs` passes over its batches, and measures the validation loss after
/// every `eval_every` steps. Returns the results of these measurements. Each of them is a pair of
/// the number of steps so far and the validation loss.
pub fn train(
    model: &mut dyn Training,
    batches: usize,
    epochs: usize,
    eval_every: usize,
) -> Vec<(usize, f32)> {
    // SOLUTION
    let (mut steps, mut losses) = (0, Vec::new());
    for _ in 0..epochs {
        for batch in 0..batches {
            model.zero_grad();
            model.loss(batch);
            model.backward();
            model.step();
            steps += 1;
            if steps % eval_every == 0 {
                losses.push((steps, model.validation_loss()));
            }
        }
    }
    losses
    // END
}

// CHECKS

use ndarray::Array2;

use crate::Report;
use crate::check::{Check, Mistake};

type Train = fn(&mut dyn Training, usize, usize, usize) -> Vec<(usize, f32)>;

/// A part of a training step.
#[derive(Clone, Copy)]
enum Part {
    Zero,
    Loss,
    Backward,
    Step,
}
use Part::{Backward, Loss, Step, Zero};

/// Trains a model with a training loop that depends on the arguments. For each batch, performs the
/// parts of a training step in the order that `parts` returns for the index of the batch. Measures
/// the validation loss whenever `is_measured(steps)` returns true, where `steps` is the number of
/// steps so far. Most of the incorrect training loops that the check recognizes call this function
/// with a `parts` that returns the wrong parts, or with an `is_measured` that contains a wrong
/// condition.
fn train_by(
    model: &mut dyn Training,
    (batches, epochs): (usize, usize),
    parts: impl Fn(usize) -> Vec<Part>,
    is_measured: impl Fn(usize) -> bool,
) -> Vec<(usize, f32)> {
    let mut losses = Vec::new();
    for step in 0..batches * epochs {
        let batch = step % batches;
        for part in parts(batch) {
            match part {
                Zero => model.zero_grad(),
                Loss => _ = model.loss(batch),
                Backward => model.backward(),
                Step => model.step(),
            }
        }
        if is_measured(step + 1) {
            losses.push((step + 1, model.validation_loss()));
        }
    }
    losses
}

const RIGHT: [Part; 4] = [Zero, Loss, Backward, Step];

pub(crate) const MISTAKES: &[Mistake<Train>] = &[
    (
        "the gradients are never reset, so they accumulate; call `zero_grad` in each step",
        |model, batches, epochs, every| {
            let parts = |_| RIGHT[1..].to_vec();
            train_by(model, (batches, epochs), parts, |steps| steps % every == 0)
        },
    ),
    (
        "the gradients are reset only once per epoch; call `zero_grad` in each step",
        |model, batches, epochs, every| {
            let parts = |batch| RIGHT[usize::from(batch > 0)..].to_vec();
            train_by(model, (batches, epochs), parts, |steps| steps % every == 0)
        },
    ),
    (
        "`step` uses gradients of 0; call `zero_grad`, `backward` and `step` in this order",
        |model, batches, epochs, every| {
            let parts = |_| vec![Loss, Backward, Zero, Step];
            train_by(model, (batches, epochs), parts, |steps| steps % every == 0)
        },
    ),
    (
        "the weights change only once per epoch; call `step` for each batch",
        |model, batches, epochs, every| {
            let parts = |batch| match batch + 1 == batches {
                true => RIGHT.to_vec(),
                false => RIGHT[..3].to_vec(),
            };
            train_by(model, (batches, epochs), parts, |steps| steps % every == 0)
        },
    ),
    (
        "there is only one epoch; go through all batches `epochs` times",
        |model, batches, _, every| train(model, batches, 1, every),
    ),
    (
        "the steps of each epoch are counted separately; count all steps of the training",
        |model, batches, epochs, every| {
            let step_of_epoch = |steps: usize| (steps - 1) % batches + 1;
            let is_measured = |steps| step_of_epoch(steps) % every == 0;
            let losses = train_by(model, (batches, epochs), |_| RIGHT.to_vec(), is_measured);
            let number = |(steps, loss)| (step_of_epoch(steps), loss);
            losses.into_iter().map(number).collect()
        },
    ),
    (
        "the loss is measured after each epoch; measure it after every `eval_every` steps",
        |model, batches, epochs, _| train(model, batches, epochs, batches),
    ),
    (
        "the loss is measured one step too late; count the step before you measure",
        |model, batches, epochs, every| {
            let is_measured = |steps: usize| (steps - 1).is_multiple_of(every);
            let losses = train_by(model, (batches, epochs), |_| RIGHT.to_vec(), is_measured);
            losses
                .into_iter()
                .map(|(steps, loss)| (steps - 1, loss))
                .collect()
        },
    ),
];

/// A tiny model with which the checks test a training loop. It has a single weight, and the loss of
/// batch number i is half of the squared difference between the weight and i.
#[derive(Default)]
struct OneWeight {
    weight: f32,
    gradient: f32,
    of_last_loss: f32,
}

impl Training for OneWeight {
    fn zero_grad(&mut self) {
        self.gradient = 0.0;
    }

    fn loss(&mut self, batch: usize) -> f32 {
        self.of_last_loss = self.weight - batch as f32;
        self.of_last_loss.powi(2) / 2.0
    }

    fn backward(&mut self) {
        self.gradient += self.of_last_loss;
    }

    fn step(&mut self) {
        self.weight -= 0.3 * self.gradient;
    }

    fn validation_loss(&self) -> f32 {
        (self.weight - 2.0).powi(2) / 2.0
    }
}

/// Checks the learner's `train`.
pub fn check(train: Train) -> Report {
    let mut check = Check::new(train, MISTAKES);
    // Convert the list that the training loop returns to an array, because checks compare arrays.
    // Each row of the array contains one pair of the list: the number of steps so far and the
    // validation loss.
    let losses = |train: Train, batches: usize, epochs: usize, every: usize| {
        let losses = train(&mut OneWeight::default(), batches, epochs, every);
        Array2::from_shape_fn((losses.len(), 2), |(row, column)| match column {
            0 => losses[row].0 as f32,
            _ => losses[row].1,
        })
    };
    let expected = |batches: usize, epochs: usize, every: usize| {
        let (mut weight, mut rows) = (0.0f64, Vec::new());
        for step in 0..batches * epochs {
            weight += 0.3 * ((step % batches) as f64 - weight);
            if (step + 1) % every == 0 {
                rows.extend([(step + 1) as f64, (weight - 2.0).powi(2) / 2.0]);
            }
        }
        Array2::from_shape_vec((rows.len() / 2, 2), rows).expect("two numbers per row")
    };
    for (label, batches, epochs, every) in [
        ("5 batches, 1 epoch, measured always", 5, 1, 1),
        ("5 batches, 3 epochs, every 2 steps", 5, 3, 2),
        ("4 batches, 5 epochs, every 7 steps", 4, 5, 7),
        ("no epochs", 4, 0, 1),
    ] {
        check.equals(label, expected(batches, epochs, every), |train| {
            losses(train, batches, epochs, every)
        });
    }
    check.report()
}
