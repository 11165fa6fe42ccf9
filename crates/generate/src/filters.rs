//! What stands between logits and a drawn token: temperature, top-k, the largest logit (book section 5.3).
//!
//! Each function takes the logits of one position, `(vocab_size)`, and rules tokens out by minus infinity, whose probability is 0.
//! None of them draws.

use ndarray::{Array1, ArrayRef1, Axis};
use tensor_ops::softmax;

use crate::GenerateError;

/// The book's `softmax_with_temperature`: `softmax(logits / temperature)`.
///
/// ```
/// use ndarray::array;
/// let p = generate::softmax_with_temperature(&array![0.0, f32::NEG_INFINITY, 0.0], 0.7)?;
/// assert_eq!(p, array![0.5, 0.0, 0.5]);
/// # Ok::<(), generate::GenerateError>(())
/// ```
///
/// # Errors
/// If the temperature is not a finite number above 0, a logit is NaN or plus infinity, or all are minus infinity.
pub fn softmax_with_temperature(
    logits: &ArrayRef1<f32>,
    temperature: f32,
) -> Result<Array1<f32>, GenerateError> {
    if !(temperature.is_finite() && temperature > 0.0) {
        return Err(GenerateError::Setting {
            name: "temperature",
            expected: "a finite number above 0",
            value: temperature,
        });
    }
    greedy_id(logits)?;
    // Dividing by a temperature near 0 may overflow; the differences to the maximum decide alone.
    let max = logits.fold(f32::NEG_INFINITY, |a, &b| a.max(b));
    let scaled = if (max / temperature).is_finite() {
        logits.mapv(|x| x / temperature)
    } else {
        logits.mapv(|x| (x - max) / temperature)
    };
    Ok(softmax(&scaled, Axis(0)))
}

/// Keeps the `top_k` largest logits and sets the others to minus infinity.
///
/// As `torch.where(logits < torch.topk(logits, top_k)[0][-1], -inf, logits)`: tokens that tie with the last one kept are kept too.
///
/// # Errors
/// If `top_k` is 0 or larger than the vocabulary.
pub fn top_k_filter(logits: &ArrayRef1<f32>, top_k: usize) -> Result<Array1<f32>, GenerateError> {
    let vocab_size = logits.len();
    if top_k == 0 || top_k > vocab_size {
        return Err(GenerateError::TopK { top_k, vocab_size });
    }
    let mut sorted = logits.to_vec();
    let (_, &mut smallest_kept, _) =
        sorted.select_nth_unstable_by(top_k - 1, |a, b| b.total_cmp(a));
    Ok(logits.mapv(|x| {
        if x < smallest_kept {
            f32::NEG_INFINITY
        } else {
            x
        }
    }))
}

/// The id of the largest logit, the first of equals: `torch.argmax`.
///
/// # Errors
/// If a logit is NaN or plus infinity, all are minus infinity, or there are none.
pub fn greedy_id(logits: &ArrayRef1<f32>) -> Result<u32, GenerateError> {
    let (mut best, mut max) = (None, f32::NEG_INFINITY);
    for (id, &value) in logits.iter().enumerate() {
        if value.is_nan() || value == f32::INFINITY {
            return Err(GenerateError::Logit { id, value });
        }
        if value > max {
            (best, max) = (Some(id as u32), value);
        }
    }
    best.ok_or(GenerateError::NoCandidate {
        vocab_size: logits.len(),
    })
}
