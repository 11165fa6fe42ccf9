//! Cross-entropy of logits and target ids, `mean_i (ln sum_j e^(x_ij) - x_(i, t_i))`
//! (`torch.nn.functional.cross_entropy`; book section 5.1.2).
//!
//! The maximum is subtracted from the target's logit too, as in PyTorch, so that logits far from 0
//! keep their digits. The sum over rows runs in f64 in order. Label smoothing, weights and an
//! ignored index aren't supported.

use kernels::{elementwise, for_each, reduce};
use ndarray::{Array2, ArrayRef2};
use rayon::prelude::*;

use crate::rows::{as_rows, into_contiguous, rows_per_task, slice_mut};

/// The mean loss of `logits` (rows, vocab_size) against one target id per row; NaN for no rows, as
/// in PyTorch.
///
/// ```
/// use tensor_ops::{cross_entropy, ndarray::array};
/// let loss = cross_entropy(&array![[0.0, 0.0, 0.0, 0.0]], &[2]);
/// assert!((loss - 4f32.ln()).abs() < 1e-6); // a guess among four tokens
/// ```
///
/// # Panics
/// If there is not one target per row, or a target is not below `vocab_size`.
#[must_use]
pub fn cross_entropy(logits: &ArrayRef2<f32>, targets: &[u32]) -> f32 {
    check(logits, targets);
    mean(&row_losses(logits, targets))
}

/// The loss of each row of `logits` (rows, vocab_size), whose mean is [`cross_entropy`].
///
/// # Panics
/// If there is not one target per row, or a target is not below `vocab_size`.
#[must_use]
pub fn cross_entropy_rows(logits: &ArrayRef2<f32>, targets: &[u32]) -> Vec<f32> {
    check(logits, targets);
    row_losses(logits, targets)
}

/// [`cross_entropy`] with its gradient: the gradient of the logits (rows, vocab_size) times
/// `d_loss` overwrites them: `(softmax(x) - one_hot(target)) d_loss / rows`. Exponentials below
/// 2^-64 of a row's largest count as 0.
///
/// # Panics
/// As there.
pub fn cross_entropy_train(
    logits: Array2<f32>,
    targets: &[u32],
    d_loss: f32,
) -> (f32, Array2<f32>) {
    check(&logits, targets);
    let mut d_logits = into_contiguous(logits);
    let (rows, width) = d_logits.dim();
    let factor = d_loss / rows as f32;
    let mut losses = vec![0.0; rows];
    let (count, width) = (rows_per_task(width), width.max(1));
    let tasks = slice_mut(&mut d_logits)
        .chunks_mut(count * width)
        .zip(targets.chunks(count))
        .zip(losses.chunks_mut(count));
    for_each(tasks.collect(), |((rows, targets), losses)| {
        for ((row, &target), loss) in rows.chunks_mut(width).zip(targets).zip(losses) {
            *loss = elementwise::cross_entropy_with_gradient(row, target as usize, factor);
        }
    });
    (mean(&losses), d_logits)
}

/// `ln sum_j e^(x_ij - max) - (x_(i, t_i) - max)` of each row, without keeping the exponentials.
fn row_losses(logits: &ArrayRef2<f32>, targets: &[u32]) -> Vec<f32> {
    let logits = as_rows(logits);
    let width = logits.ncols();
    let rows = logits.as_slice().expect("rows are row-major");
    let rows = rows.par_chunks(width.max(1)).zip(targets);
    rows.with_min_len(rows_per_task(width))
        .map(|(row, &target)| {
            let max = reduce::max(row);
            reduce::sum_of_exp(row, max).ln() - (row[target as usize] - max)
        })
        .collect()
}

fn mean(losses: &[f32]) -> f32 {
    let sum: f64 = losses.iter().map(|&loss| f64::from(loss)).sum();
    (sum / losses.len() as f64) as f32
}

fn check(logits: &ArrayRef2<f32>, targets: &[u32]) {
    assert!(
        logits.nrows() == targets.len(),
        "cross_entropy: logits of shape {:?}, but {} targets",
        logits.shape(),
        targets.len()
    );
    if let Some(target) = targets.iter().find(|&&t| t as usize >= logits.ncols()) {
        panic!(
            "cross_entropy: target {target} is out of range for {} classes",
            logits.ncols()
        );
    }
}
