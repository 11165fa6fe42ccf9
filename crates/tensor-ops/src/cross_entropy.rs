//! Cross-entropy of logits and target ids, `mean_i (ln sum_j e^(x_ij) - x_(i, t_i))` (`torch.nn.functional.cross_entropy`; book section 5.1.2).
//!
//! The sum over rows runs in f64 in order. There is no label smoothing, no weights and no ignored index.

use kernels::{elementwise, reduce};
use ndarray::{Array1, Array2, ArrayRef2};
use rayon::prelude::*;

use crate::rows::{as_rows, for_each_block, into_contiguous, rows_per_task, slice_mut};

/// What `backward` needs of the forward pass.
#[derive(Clone, Debug)]
pub struct CrossEntropyCache {
    /// (rows, vocab_size)
    logits: Array2<f32>,
    /// (rows): `ln sum_j e^(x_ij)`
    log_sums: Array1<f32>,
    /// (rows)
    targets: Vec<u32>,
}

/// The mean loss of `logits` (rows, vocab_size) against one target id per row; NaN for no rows, as in PyTorch.
///
/// # Panics
/// If there is not one target per row, or a target is not below `vocab_size`.
pub fn cross_entropy(logits: &ArrayRef2<f32>, targets: &[u32]) -> f32 {
    check(logits, targets);
    mean_loss(logits, &log_sums(logits), targets)
}

/// The loss of each row of `logits` (rows, vocab_size), whose mean is [`cross_entropy`].
///
/// # Panics
/// If there is not one target per row, or a target is not below `vocab_size`.
pub fn cross_entropy_rows(logits: &ArrayRef2<f32>, targets: &[u32]) -> Vec<f32> {
    check(logits, targets);
    row_losses(logits, &log_sums(logits), targets).collect()
}

/// As [`cross_entropy`], keeping what [`CrossEntropyCache::backward`] needs.
///
/// # Panics
/// If there is not one target per row, or a target is not below `vocab_size`.
pub fn cross_entropy_train(logits: Array2<f32>, targets: Vec<u32>) -> (f32, CrossEntropyCache) {
    check(&logits, &targets);
    let logits = into_contiguous(logits);
    let log_sums = log_sums(&logits);
    let loss = mean_loss(&logits, &log_sums, &targets);
    (
        loss,
        CrossEntropyCache {
            logits,
            log_sums,
            targets,
        },
    )
}

impl CrossEntropyCache {
    /// The gradient of the logits (rows, vocab_size), written over them: `(softmax(x) - one_hot(target)) d_loss / rows`; probabilities below 2^-64 count as 0.
    pub fn backward(self, d_loss: f32) -> Array2<f32> {
        let Self {
            logits: mut d_logits,
            log_sums,
            targets,
        } = self;
        let (rows, width) = d_logits.dim();
        let scale = d_loss / rows as f32;
        for_each_block(slice_mut(&mut d_logits), width, |first_row, block| {
            for (i, row) in block.chunks_mut(width).enumerate() {
                let (target, log_sum) = (targets[first_row + i], log_sums[first_row + i]);
                elementwise::cross_entropy_backward(row, target as usize, log_sum, scale);
            }
        });
        d_logits
    }
}

/// `ln sum_j e^(x_ij)` of each row, without keeping the exponentials.
fn log_sums(logits: &ArrayRef2<f32>) -> Array1<f32> {
    let logits = as_rows(logits);
    let width = logits.ncols();
    let mut sums = Array1::zeros(logits.nrows());
    let values = logits.as_slice().expect("rows are row-major");
    let rows = rows_per_task(width);
    slice_mut(&mut sums)
        .par_chunks_mut(rows)
        .zip(values.par_chunks(rows * width.max(1)))
        .for_each(|(sums, rows)| {
            for (sum, row) in sums.iter_mut().zip(rows.chunks(width)) {
                let max = reduce::max(row);
                *sum = max + reduce::sum_of_exp(row, max).ln();
            }
        });
    sums
}

fn mean_loss(logits: &ArrayRef2<f32>, log_sums: &Array1<f32>, targets: &[u32]) -> f32 {
    let total: f64 = row_losses(logits, log_sums, targets).map(f64::from).sum();
    (total / targets.len() as f64) as f32
}

fn row_losses(
    logits: &ArrayRef2<f32>,
    log_sums: &Array1<f32>,
    targets: &[u32],
) -> impl Iterator<Item = f32> {
    let rows = targets.iter().enumerate();
    rows.map(|(row, &target)| log_sums[row] - logits[[row, target as usize]])
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
