//! 4.4 Shortcut connections
//!
//! In the backward pass of a deep network, gradients often become smaller from layer to layer, so
//! the first layers learn very little. A shortcut connection adds the input of a layer to its
//! output. The gradient passes through this sum unchanged.
//!
//! Pass x through the layers, one after another. Add a shortcut connection around each layer whose
//! output has as many numbers as its input. Other layers have no shortcut connection.
//!
//! HINT: The input of the second layer is the output of the first layer including its shortcut
//!   connection.
//! HINT: x becomes x + layer(x) if both have the same length, and layer(x) otherwise.
//! HINT: Start with `let mut x = x.clone();`. Call a layer as `layer(&x)`. The length of a vector
//!   is `.len()`.

use practice::ndarray::Array1;

/// A layer, which is a function that maps a vector to another vector, possibly of a different
/// length.
type Layer<'a> = &'a dyn Fn(&Array1<f32>) -> Array1<f32>;

/// Returns the output of the last layer, including its shortcut connection.
pub fn forward(x: &Array1<f32>, layers: &[Layer<'_>]) -> Array1<f32> {
    // SOLUTION
    let mut x = x.clone();
    for layer in layers {
        let output = layer(&x);
        x = match output.len() == x.len() {
            true => x + output,
            false => output,
        };
    }
    x
    // END
}

// CHECKS

use ndarray::array;

use crate::Report;
use crate::check::{Check, Mistake};

type Forward = fn(&Array1<f32>, &[Layer<'_>]) -> Array1<f32>;

pub(crate) const MISTAKES: &[Mistake<Forward>] = &[
    (
        "the shortcut connections are missing; add each layer's input to its output",
        |x, layers| layers.iter().fold(x.clone(), |x, layer| layer(&x)),
    ),
    (
        "the first layer's input is added to all outputs; add the input of the same layer",
        |first, layers| {
            let mut x = first.clone();
            for layer in layers {
                let output = layer(&x);
                x = match output.len() == first.len() {
                    true => first + &output,
                    false => output,
                };
            }
            x
        },
    ),
    (
        "the input is added although the lengths differ; add it only if they are equal",
        |x, layers| layers.iter().fold(x.clone(), |x, layer| layer(&x) + x),
    ),
    (
        "one shortcut connection leads around all layers; add one around each layer",
        |first, layers| {
            let x = layers.iter().fold(first.clone(), |x, layer| layer(&x));
            match x.len() == first.len() {
                true => x + first,
                false => x,
            }
        },
    ),
];

/// Checks the learner's `forward`.
pub fn check(forward: Forward) -> Report {
    let mut check = Check::new(forward, MISTAKES);
    let double = |x: &Array1<f32>| x * 2.0;
    let sum = |x: &Array1<f32>| array![x.sum()];
    let zero = |x: &Array1<f32>| Array1::zeros(x.len());
    let x = array![1.0, -2.0, 3.0];
    // Each of these layers returns 2x. With its shortcut connection, which adds its input x, a
    // layer therefore multiplies x by 3, and two layers multiply it by 9.
    check.equals(
        "two layers that return 2x",
        array![9.0, -18.0, 27.0],
        |forward| forward(&x, &[&double, &double]),
    );
    check.equals("two such layers, then a sum", array![18.0], |forward| {
        forward(&x, &[&double, &double, &sum])
    });
    check.equals("no layers", x.clone(), |forward| forward(&x, &[]));
    check.equals("layers that return zeros", x.clone(), |forward| {
        forward(&x, &[&zero, &zero, &zero])
    });
    check.report()
}
