//! The cross-entropy loss for logits `x` and target IDs `t`, `mean_i (ln sum_j e^(x_ij) - x_(i,
//! t_i))` (`torch.nn.functional.cross_entropy`; book section 5.1.2).
//!
//! As in PyTorch, the maximum of each row of logits is first subtracted from the whole row, so that
//! the loss is accurate even if the logits are far from 0. The losses of the rows are added in
//! order, in `f64`.

use kernels::{elementwise, for_each, reduce};
use ndarray::{Array2, ArrayRef2};
use rayon::prelude::*;

use crate::rows::{as_rows, into_contiguous, rows_per_task, slice_mut};

/// Target ID of rows that should be ignored, for example because they are padding. It is PyTorch's
/// default value for `ignore_index`, -100, converted to `u32`.
pub const IGNORE_INDEX: u32 = -100i32 as u32;

/// Returns the number of targets other than [`IGNORE_INDEX`]. To compute the mean loss, divide the
/// sum of the losses by this number.
#[must_use]
pub fn counted_targets<'t>(targets: impl IntoIterator<Item = &'t u32>) -> usize {
    let targets = targets.into_iter();
    targets.filter(|&&target| target != IGNORE_INDEX).count()
}

/// Returns the mean cross-entropy for logits with the shape `(rows, vocab_size)` and one target ID
/// for each row.
///
/// Rows whose target is [`IGNORE_INDEX`] are ignored. If all rows are ignored, the loss is NaN, as
/// in PyTorch. Label smoothing and class weights aren't supported.
///
/// ```
/// use tensor_ops::{cross_entropy, ndarray::array};
/// let loss = cross_entropy(&array![[0.0, 0.0, 0.0, 0.0]], &[2]);
/// assert!((loss - 4f32.ln()).abs() < 1e-6); // all four tokens are equally probable
///
/// let padded = array![[0.0, 0.0, 0.0, 0.0], [9.0, 0.0, 0.0, 0.0]];
/// assert_eq!(cross_entropy(&padded, &[2, tensor_ops::IGNORE_INDEX]), loss);
/// ```
///
/// # Panics
///
/// Panics under the same conditions as [`cross_entropy_rows`].
#[must_use]
pub fn cross_entropy(logits: &ArrayRef2<f32>, targets: &[u32]) -> f32 {
    check(logits, targets);
    mean(&row_losses(logits, targets), targets)
}

/// Returns the cross-entropy loss of each row of the logits, which have the shape `(rows,
/// vocab_size)`. `targets` contains one target ID for each row. If the target of a row is
/// [`IGNORE_INDEX`], its loss is 0.
///
/// # Panics
///
/// Panics if there isn't exactly one target for each row, or if a target is neither less than
/// `vocab_size` nor [`IGNORE_INDEX`].
#[must_use]
pub fn cross_entropy_rows(logits: &ArrayRef2<f32>, targets: &[u32]) -> Vec<f32> {
    check(logits, targets);
    row_losses(logits, targets)
}

/// Returns the mean cross-entropy loss, as computed by [`cross_entropy`], and the gradient of the
/// logits. The logits and their gradient have the shape `(rows, vocab_size)`. The gradient reuses
/// the memory of the logits.
///
/// `d_loss` is the gradient of the loss. The gradient of a row `x` is `(softmax(x) -
/// one_hot(target)) d_loss / n`, where `n` is the number of rows that aren't ignored. If the target
/// of a row is [`IGNORE_INDEX`], all elements of its gradient are 0. Probabilities that are less
/// than 2^-64 times the largest probability of their row are treated as 0.
///
/// # Panics
///
/// Panics under the same conditions as [`cross_entropy_rows`].
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

/// Returns the loss `ln sum_j e^(x_ij - max) - (x_(i, t_i) - max)` for each row `i`, or 0 if its
/// target is [`IGNORE_INDEX`]. The exponentials aren't stored.
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

/// Returns the mean loss of the rows that aren't ignored.
fn mean(losses: &[f32], targets: &[u32]) -> f32 {
    let sum: f64 = losses.iter().map(|&loss| f64::from(loss)).sum();
    (sum / counted_targets(targets) as f64) as f32
}

fn check(logits: &ArrayRef2<f32>, targets: &[u32]) {
    assert!(
        logits.nrows() == targets.len(),
        "cross_entropy: the logits have shape {:?}, but there are {} targets",
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
