//! 5.1 Cross-entropy and perplexity
//!
//! Measure a model with one number. For each row of logits: softmax, the probability of the target,
//! its natural logarithm, the sign turned. The cross-entropy is the mean over the rows. The
//! perplexity is e to that power.
//! Take the logarithm of softmax in one step, so that large logits don't overflow: ln softmax(x)_t
//! = x_t - m - ln(sum of exp(x - m)), with m the largest logit.
//!
//! HINT: `logits.rows().into_iter().zip(targets)` goes over both together.
//! HINT: Without the largest logit subtracted, exp(1000) is infinite.

use practice::ndarray::Array2;

/// (rows, vocabulary) logits and a target for each row to the mean loss
pub fn cross_entropy(logits: &Array2<f32>, targets: &[u32]) -> f32 {
    // SOLUTION
    let mut total = 0.0;
    for (row, &target) in logits.rows().into_iter().zip(targets) {
        let largest = row.fold(f32::NEG_INFINITY, |most, &x| most.max(x));
        let sum: f32 = row.iter().map(|x| (x - largest).exp()).sum();
        total -= row[target as usize] - largest - sum.ln();
    }
    total / targets.len() as f32
    // END
}

/// The number of tokens that a model with this loss is unsure among.
pub fn perplexity(loss: f32) -> f32 {
    // SOLUTION
    loss.exp()
    // END
}

fn main() {
    practice::cross_entropy(cross_entropy, perplexity).print();
    // Your experiments go here.
}
