//! Functions that prepare logits for sampling (section 5.3 of the book): temperature scaling, the
//! top-k, top-p and min-p filters, and the repetition penalty. This module also contains
//! [`greedy_id`], which returns the token with the largest logit.
//!
//! Each filter processes the logits of a single position, an array of shape (vocab_size). To
//! exclude a token, the filter sets its logit to minus infinity, so that the probability of the
//! token becomes 0. The filters don't use random numbers.
//!
//! [`softmax_with_temperature`] and [`greedy_id`] return an error if the logits are invalid. The
//! other functions don't check the logits, so [`Sampling`](crate::Sampling) calls [`check_logits`]
//! before it uses them.

use kernels::reduce::max;
use ndarray::{Array1, ArrayRef1, ArrayView1, Axis};
use tensor_ops::softmax;

use crate::GenerateError;

/// Computes the probabilities `softmax(logits / temperature)`, like the book's function
/// `softmax_with_temperature`. The logits and the result have the shape (vocab_size).
///
/// ```
/// use ndarray::array;
/// let p = generate::softmax_with_temperature(&array![0.0, f32::NEG_INFINITY, 0.0], 0.7)?;
/// assert_eq!(p, array![0.5, 0.0, 0.5]);
/// # Ok::<(), generate::GenerateError>(())
/// ```
///
/// # Errors
///
/// Returns an error if the temperature isn't a finite number above 0, if a logit is NaN or plus
/// infinity, or if all logits are minus infinity.
pub fn softmax_with_temperature(
    logits: &ArrayRef1<f32>,
    temperature: f32,
) -> Result<Array1<f32>, GenerateError> {
    if !(temperature.is_finite() && temperature > 0.0) {
        return Err(GenerateError::Setting {
            name: "temperature",
            expected: "a finite number greater than 0",
            value: temperature,
        });
    }
    check_logits(logits)?;
    let mut scaled = logits.to_vec();
    divide_by_temperature(&mut scaled, temperature);
    Ok(softmax(&Array1::from(scaled), Axis(0)))
}

/// Keeps the `top_k` largest logits and sets all other logits to minus infinity.
///
/// If several tokens have the same logit as the smallest one that is kept, all of them are kept.
/// The book and the transformers library produce the same result with the expression
/// `torch.where(logits < torch.topk(logits, top_k)[0][-1], -inf, logits)`.
///
/// ```
/// use ndarray::array;
/// let nothing = f32::NEG_INFINITY;
/// let kept = generate::top_k_filter(&array![4.5, 0.9, 6.8, 6.3], 2);
/// assert_eq!(kept, array![nothing, nothing, 6.8, 6.3]);
/// ```
///
/// If `top_k` is 0 or larger than the number of logits, all logits are kept.
#[must_use]
pub fn top_k_filter(logits: &ArrayRef1<f32>, top_k: usize) -> Array1<f32> {
    let mut kept = logits.to_vec();
    keep_top_k(&mut kept, top_k);
    kept.into()
}

/// Returns the ID of the token with the largest logit, like `torch.argmax`. If several logits are
/// equally large, the lowest ID is returned.
///
/// # Errors
///
/// Returns an error if a logit is NaN or plus infinity, if all logits are minus infinity, or if
/// there are no logits.
pub fn greedy_id(logits: &ArrayRef1<f32>) -> Result<u32, GenerateError> {
    let largest = largest(logits)?;
    let id = logits.iter().position(|&value| value == largest);
    Ok(id.expect("the largest is one of them") as u32)
}

/// Returns the IDs of the `top` largest scores, sorted by score in descending order. IDs with equal
/// scores are in ascending order.
pub fn likeliest(scores: &ArrayRef1<f32>, top: usize) -> Vec<u32> {
    let mut order: Vec<u32> = (0..scores.len() as u32).collect();
    let larger = |a: &u32, b: &u32| {
        let by_score = scores[*b as usize].total_cmp(&scores[*a as usize]);
        by_score.then(a.cmp(b))
    };
    if top < order.len() {
        order.select_nth_unstable_by(top, larger);
        order.truncate(top);
    }
    order.sort_unstable_by(larger);
    order
}

/// Checks that a token can be chosen, which requires that no logit is NaN or plus infinity and that
/// at least one logit is finite.
///
/// # Errors
///
/// If a logit is NaN or plus infinity, returns an error that contains the first such logit and its
/// ID. If all logits are minus infinity, returns [`GenerateError::NoCandidate`].
pub(crate) fn check_logits(logits: &ArrayRef1<f32>) -> Result<(), GenerateError> {
    largest(logits).map(drop)
}

/// Divides the logits by the temperature. If a quotient would overflow, this function first
/// subtracts the largest logit from all logits, which doesn't change their softmax.
pub(crate) fn divide_by_temperature(logits: &mut [f32], temperature: f32) {
    let max = max(logits);
    let overflows = !(max / temperature).is_finite();
    let shift = if overflows { max } else { 0.0 };
    for x in logits {
        *x = (*x - shift) / temperature;
    }
}

pub(crate) fn keep_top_k(logits: &mut [f32], top_k: usize) {
    if top_k == 0 || top_k >= logits.len() {
        return;
    }
    let mut sorted = logits.to_vec();
    let (_, &mut smallest_kept, _) =
        sorted.select_nth_unstable_by(top_k - 1, |a, b| b.total_cmp(a));
    for x in logits {
        if *x < smallest_kept {
            *x = f32::NEG_INFINITY;
        }
    }
}

/// Keeps the smallest set of most probable tokens whose probabilities add up to at least `top_p`,
/// and sets the logits of all other tokens to minus infinity.
///
/// If several tokens are equally probable and only some of them can be kept, those with the highest
/// IDs are kept. The transformers library keeps the same tokens, because it sorts the probabilities
/// in ascending order and removes tokens from the beginning until only the tokens to keep are left.
pub(crate) fn keep_top_p(logits: &mut [f32], top_p: f32) {
    let p = softmax(&ArrayView1::from(&*logits), Axis(0));
    // To avoid sorting the whole vocabulary, exclude most tokens with a simple bound. The tokens
    // that are at most as probable as token i have a total probability of at most n * p_i. If this
    // bound is less than 1 - top_p, the remaining tokens, which are more probable than token i,
    // already add up to more than top_p, so token i isn't needed. The factor 0.999 is a margin for
    // rounding errors.
    let (top_p, n) = (f64::from(top_p), p.len() as f64);
    let can_stay = |p: f32| f64::from(p) * n >= (1.0 - top_p) * 0.999;
    let mut order: Vec<usize> = (0..p.len()).filter(|&i| can_stay(p[i])).collect();
    order.sort_unstable_by(|&a, &b| p[b].total_cmp(&p[a]).then(b.cmp(&a)));
    let mut sum = 0.0;
    let kept = order.iter().take_while(|&&i| {
        let before = sum;
        sum += f64::from(p[i]);
        before < top_p
    });
    let kept: Vec<(usize, f32)> = kept.map(|&i| (i, logits[i])).collect();
    logits.fill(f32::NEG_INFINITY);
    for (i, logit) in kept {
        logits[i] = logit;
    }
}

/// Keeps the tokens whose probability is at least `min_p` times the highest probability, and sets
/// the logits of the other tokens to minus infinity.
pub(crate) fn keep_min_p(logits: &mut [f32], min_p: f32) {
    let p = softmax(&ArrayView1::from(&*logits), Axis(0));
    let least = min_p * p.fold(0.0f32, |most, &p| most.max(p));
    for (x, &p) in logits.iter_mut().zip(&p) {
        if p < least {
            *x = f32::NEG_INFINITY;
        }
    }
}

/// Applies the repetition penalty to the logits of the tokens that already occur in the text. A
/// penalty above 1 makes these tokens less likely, and a penalty below 1 makes them more likely.
///
/// Each token is penalized only once, regardless of how often it occurs in the text. The new logits
/// are clamped to the range of f32, so finite logits stay finite.
pub(crate) fn penalize(logits: &mut Array1<f32>, tokens: &[u32], penalty: f32) {
    let mut seen = vec![false; logits.len()];
    for &id in tokens {
        let Some(seen) = seen.get_mut(id as usize) else {
            continue;
        };
        if !std::mem::replace(seen, true) {
            let logit = &mut logits[id as usize];
            let penalized = match *logit < 0.0 {
                true => *logit * penalty,
                false => *logit / penalty,
            };
            *logit = match logit.is_finite() {
                true => penalized.clamp(f32::MIN, f32::MAX),
                false => penalized,
            };
        }
    }
}

/// Returns the largest logit.
///
/// # Errors
///
/// Returns the same errors as [`check_logits`].
fn largest(logits: &ArrayRef1<f32>) -> Result<f32, GenerateError> {
    let largest = match logits.as_slice() {
        Some(logits) => max(logits), // NaN if one of the logits is NaN
        None => max(&logits.to_vec()),
    };
    if largest.is_finite() {
        return Ok(largest);
    }
    let wrong = |&(_, &value): &(usize, &f32)| value.is_nan() || value == f32::INFINITY;
    Err(match logits.iter().enumerate().find(wrong) {
        Some((id, &value)) => GenerateError::Logit { id, value },
        None => GenerateError::NoCandidate {
            vocab_size: logits.len(),
        },
    })
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn the_likeliest_come_first() {
        let probabilities = array![0.1, 0.4, 0.2, 0.3];
        assert_eq!(likeliest(&probabilities, 2), [1, 3]);
        assert_eq!(likeliest(&probabilities, 9), [1, 3, 2, 0]);
        assert!(likeliest(&probabilities, 0).is_empty());
        assert_eq!(likeliest(&array![0.5, 1.0, 0.5, 1.0, 0.5], 3), [1, 3, 0]);
    }
}
