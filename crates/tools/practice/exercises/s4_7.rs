//! 4.7 Greedy generation
//!
//! Append `max_new_tokens` tokens to `ids`, one at a time: give the model the last `context_size`
//! ids (or all, if there are fewer), take the token with the largest logit, append it. Return all
//! ids, the prompt's included.
//!
//! HINT: The last n of a slice: `&ids[ids.len().saturating_sub(n)..]`.
//! HINT: The largest: keep the best place while you walk over `logits.iter().enumerate()`.

use practice::ndarray::Array1;

/// `model` gives the logits of the next token for some ids.
pub fn generate(
    model: &dyn Fn(&[u32]) -> Array1<f32>,
    mut ids: Vec<u32>,
    max_new_tokens: usize,
    context_size: usize,
) -> Vec<u32> {
    // SOLUTION
    for _ in 0..max_new_tokens {
        let seen = &ids[ids.len().saturating_sub(context_size)..];
        let logits = model(seen);
        let mut best = 0;
        for (id, logit) in logits.iter().enumerate() {
            if *logit > logits[best] {
                best = id;
            }
        }
        ids.push(best as u32);
    }
    ids
    // END
}

fn main() {
    practice::greedy(generate).print();
    // Your experiments go here.
}
