//! The steps from logits to a drawn token: temperature, top-k, top-p, the largest logit (book
//! section 5.3).
//!
//! Each works on the logits of one position, `(vocab_size)`, and rules tokens out by minus
//! infinity, whose probability is 0.
//! They take logits as they come: [`check_logits`] is for the door. None of them draws.

use kernels::reduce::max;
use ndarray::{Array1, ArrayRef1, ArrayView1, Axis};
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
/// If the temperature is not a finite number above 0, a logit is NaN or plus infinity, or all are
/// minus infinity.
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
    check_logits(logits)?;
    let mut scaled = logits.to_vec();
    divide_by_temperature(&mut scaled, temperature);
    Ok(softmax(&Array1::from(scaled), Axis(0)))
}

/// Keeps the `top_k` largest logits and sets the others to minus infinity.
///
/// As `torch.where(logits < torch.topk(logits, top_k)[0][-1], -inf, logits)`, the book's and
/// transformers' filter: tokens that tie with the last one kept are kept too.
///
/// ```
/// use ndarray::array;
/// let nothing = f32::NEG_INFINITY;
/// let kept = generate::top_k_filter(&array![4.5, 0.9, 6.8, 6.3], 2);
/// assert_eq!(kept, array![nothing, nothing, 6.8, 6.3]);
/// ```
///
/// 0 keeps all, as more than there are does.
#[must_use]
pub fn top_k_filter(logits: &ArrayRef1<f32>, top_k: usize) -> Array1<f32> {
    let mut kept = logits.to_vec();
    keep_top_k(&mut kept, top_k);
    kept.into()
}

/// The id of the largest logit, the first of equals: `torch.argmax`.
///
/// # Errors
/// If a logit is NaN or plus infinity, all are minus infinity, or there are none.
pub fn greedy_id(logits: &ArrayRef1<f32>) -> Result<u32, GenerateError> {
    let largest = largest(logits)?;
    let id = logits.iter().position(|&value| value == largest);
    Ok(id.expect("the largest is one of them") as u32)
}

/// The ids of the `top` largest, the largest first, and of equal ones the lower id.
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

/// Checks that a token can be chosen: each logit is a number or minus infinity, and one is a
/// number.
///
/// # Errors
/// Names the first logit that is NaN or plus infinity, or reports that all are minus infinity.
pub(crate) fn check_logits(logits: &ArrayRef1<f32>) -> Result<(), GenerateError> {
    largest(logits).map(drop)
}

/// `logits / temperature`. Where that overflows, the logits are first shifted to a maximum of 0,
/// which no softmax notices.
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

/// Keeps the most probable tokens until their probabilities sum to `top_p`: a token goes if those
/// before it, from the most probable down, already do.
///
/// Among equals the later id comes first, as in transformers, which sorts upwards and cuts from
/// below.
pub(crate) fn keep_top_p(logits: &mut [f32], top_p: f32) {
    let p = softmax(&ArrayView1::from(&*logits), Axis(0));
    // All tokens not above p_i sum to at most n p_i: if that is below 1 - top_p, token i goes,
    // unsorted.
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

/// Keeps the tokens whose probability is at least `min_p` times the highest.
pub(crate) fn keep_min_p(logits: &mut [f32], min_p: f32) {
    let p = softmax(&ArrayView1::from(&*logits), Axis(0));
    let least = min_p * p.fold(0.0f32, |most, &p| most.max(p));
    for (x, &p) in logits.iter_mut().zip(&p) {
        if p < least {
            *x = f32::NEG_INFINITY;
        }
    }
}

/// Makes tokens less likely that a text has already: each once, however often it occurs. A finite
/// logit stays finite.
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

/// The largest logit, of those that [`check_logits`] takes.
fn largest(logits: &ArrayRef1<f32>) -> Result<f32, GenerateError> {
    let largest = match logits.as_slice() {
        Some(logits) => max(logits), // NaN if one is
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
