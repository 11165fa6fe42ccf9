//! Cross-entropy of logits and target ids, `mean_i (ln sum_j e^(x_ij) - x_(i, t_i))`
//! (`torch.nn.functional.cross_entropy`; book section 5.1.2).
//!
//! The maximum is subtracted from the target's logit too, as in PyTorch, so that logits far from 0
//! keep their digits. The sum over rows runs in f64 in order.

use kernels::{elementwise, for_each, reduce};
use ndarray::{Array2, ArrayRef2};
use rayon::prelude::*;

use crate::rows::{as_rows, into_contiguous, rows_per_task, slice_mut};

/// The target of a row that doesn't count, such as padding: PyTorch's default `ignore_index`, -100,
/// as u32.
pub const IGNORE_INDEX: u32 = -100i32 as u32;

/// Returns the number of targets that count, which is the divisor of the mean loss.
#[must_use]
pub fn counted_targets<'t>(targets: impl IntoIterator<Item = &'t u32>) -> usize {
    let targets = targets.into_iter();
    targets.filter(|&&target| target != IGNORE_INDEX).count()
}

/// Returns the mean loss of `logits` (rows, vocab_size) against one target id per row.
///
/// Rows whose target is [`IGNORE_INDEX`] don't count. If no row counts, the loss is NaN, as in
/// PyTorch. Label smoothing and weights of classes aren't supported.
///
/// ```
/// use tensor_ops::{cross_entropy, ndarray::array};
/// let loss = cross_entropy(&array![[0.0, 0.0, 0.0, 0.0]], &[2]);
/// assert!((loss - 4f32.ln()).abs() < 1e-6); // a guess among four tokens
///
/// let padded = array![[0.0, 0.0, 0.0, 0.0], [9.0, 0.0, 0.0, 0.0]];
/// assert_eq!(cross_entropy(&padded, &[2, tensor_ops::IGNORE_INDEX]), loss);
/// ```
///
/// # Panics
/// As [`cross_entropy_rows`].
#[must_use]
pub fn cross_entropy(logits: &ArrayRef2<f32>, targets: &[u32]) -> f32 {
    check(logits, targets);
    mean(&row_losses(logits, targets), targets)
}

/// Returns the loss of each row of `logits` (rows, vocab_size), whose mean is [`cross_entropy`]. It
/// is 0 for a row whose target is [`IGNORE_INDEX`].
///
/// # Panics
/// If there isn't one target per row, or a target is neither below `vocab_size` nor
/// [`IGNORE_INDEX`].
#[must_use]
pub fn cross_entropy_rows(logits: &ArrayRef2<f32>, targets: &[u32]) -> Vec<f32> {
    check(logits, targets);
    row_losses(logits, targets)
}

/// Returns [`cross_entropy`] and its gradient with respect to the logits (rows, vocab_size) times
/// `d_loss`, which overwrites them.
///
/// The gradient of a row is `(softmax(x) - one_hot(target)) d_loss / n`, where n is the number of
/// rows that count, and 0 if the row's target is [`IGNORE_INDEX`]. Exponentials below 2^-64 of a
/// row's largest count as 0.
///
/// # Panics
/// As [`cross_entropy_rows`].
pub fn cross_entropy_train(
    logits: Array2<f32>,
    targets: &[u32],
    d_loss: f32,
) -> (f32, Array2<f32>) {
    check(&logits, targets);
    let mut d_logits = into_contiguous(logits);
    let (rows, width) = d_logits.dim();
    let factor = d_loss / counted_targets(targets) as f32;
    let mut losses = vec![0.0; rows];
    let (count, width) = (rows_per_task(width), width.max(1));
    let tasks = slice_mut(&mut d_logits)
        .chunks_mut(count * width)
        .zip(targets.chunks(count))
        .zip(losses.chunks_mut(count));
    for_each(tasks.collect(), |((rows, targets), losses)| {
        for ((row, &target), loss) in rows.chunks_mut(width).zip(targets).zip(losses) {
            match target {
                IGNORE_INDEX => row.fill(0.0),
                _ => {
                    *loss = elementwise::cross_entropy_with_gradient(row, target as usize, factor);
                }
            }
        }
    });
    (mean(&losses, targets), d_logits)
}

/// `ln sum_j e^(x_ij - max) - (x_(i, t_i) - max)` of each row, without keeping the exponentials.
fn row_losses(logits: &ArrayRef2<f32>, targets: &[u32]) -> Vec<f32> {
    let logits = as_rows(logits);
    let width = logits.ncols();
    let rows = logits.as_slice().expect("rows are row-major");
    let rows = rows.par_chunks(width.max(1)).zip(targets);
    rows.with_min_len(rows_per_task(width))
        .map(|(row, &target)| {
            if target == IGNORE_INDEX {
                return 0.0;
            }
            let max = reduce::max(row);
            reduce::sum_of_exp(row, max).ln() - (row[target as usize] - max)
        })
        .collect()
}

/// Returns the mean of the losses of the rows that count.
fn mean(losses: &[f32], targets: &[u32]) -> f32 {
    let sum: f64 = losses.iter().map(|&loss| f64::from(loss)).sum();
    (sum / counted_targets(targets) as f64) as f32
}

fn check(logits: &ArrayRef2<f32>, targets: &[u32]) {
    assert!(
        logits.nrows() == targets.len(),
        "cross_entropy: logits of shape {:?}, but {} targets",
        logits.shape(),
        targets.len()
    );
    let is_wrong = |&&t: &&u32| t as usize >= logits.ncols() && t != IGNORE_INDEX;
    if let Some(target) = targets.iter().find(is_wrong) {
        panic!(
            "cross_entropy: target {target} is out of range for {} classes",
            logits.ncols()
        );
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Axis, array};

    use super::*;

    #[test]
    fn ignored_rows_change_neither_the_loss_nor_the_gradient_of_the_others() {
        let logits = array![[1.0, 2.0, 0.5], [7.0, -3.0, 0.0], [0.1, 0.2, -0.4]];
        let targets = [2, IGNORE_INDEX, 0];
        let counted = logits.select(Axis(0), &[0, 2]);
        let (loss, d_logits) = cross_entropy_train(logits.clone(), &targets, 0.5);
        let (expected, d_expected) = cross_entropy_train(counted.clone(), &[2, 0], 0.5);
        assert_eq!(loss, expected);
        assert_eq!(d_logits.select(Axis(0), &[0, 2]), d_expected);
        assert!(d_logits.row(1).iter().all(|&d| d == 0.0));
        assert_eq!(
            cross_entropy(&logits, &targets),
            cross_entropy(&counted, &[2, 0])
        );
        assert_eq!(cross_entropy_rows(&logits, &targets)[1], 0.0);
        assert!(cross_entropy(&logits, &[IGNORE_INDEX; 3]).is_nan());
    }
}
