//! 5.3 Temperature and top-k
//!
//! Two ways to steer a draw. `with_temperature`: the softmax of the logits divided by the
//! temperature. `top_k`: keep the k largest logits and set all others to minus infinity; a logit as
//! large as the k-th stays.
//!
//! HINT: For top_k, sort a copy from the largest on: `sorted.sort_by(|a, b| b.total_cmp(a))`.
//! HINT: The k-th largest is `sorted[k - 1]`; everything below it becomes `f32::NEG_INFINITY`.

use practice::ndarray::Array1;

/// (vocabulary) logits to (vocabulary) probabilities
pub fn with_temperature(logits: &Array1<f32>, temperature: f32) -> Array1<f32> {
    // SOLUTION
    let scaled = logits / temperature;
    let largest = scaled.fold(f32::NEG_INFINITY, |most, &x| most.max(x));
    let exponentials = scaled.mapv(|x| (x - largest).exp());
    &exponentials / exponentials.sum()
    // END
}

/// (vocabulary) logits to (vocabulary) logits, of which k are left
pub fn top_k(logits: &Array1<f32>, k: usize) -> Array1<f32> {
    // SOLUTION
    let mut sorted = logits.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let least = sorted[k - 1];
    logits.mapv(|x| if x < least { f32::NEG_INFINITY } else { x })
    // END
}

fn main() {
    practice::decoding(with_temperature, top_k).print();
    // Your experiments go here.
}
