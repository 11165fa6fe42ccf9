//! 3.3.1 Softmax: scores to weights
//!
//! Turn scores into weights that are positive and sum to 1: the exponential of each score, divided
//! by the sum of all exponentials. Subtract the largest score first: it changes nothing in the
//! result and keeps large scores from overflowing.
//!
//! HINT: `scores.mapv(f32::exp)` takes the exponential of each number.
//! HINT: The largest: `scores.fold(f32::NEG_INFINITY, |most, &x| most.max(x))`.

use practice::ndarray::Array1;

/// (n) scores to (n) weights
pub fn softmax(scores: &Array1<f32>) -> Array1<f32> {
    // SOLUTION
    let largest = scores.fold(f32::NEG_INFINITY, |most, &x| most.max(x));
    let exponentials = scores.mapv(|x| (x - largest).exp());
    &exponentials / exponentials.sum()
    // END
}

fn main() {
    practice::softmax(softmax).print();
    // Your experiments go here.
}
