//! 4.2 Layer normalization
//!
//! Normalize each row of x to mean 0 and variance 1: subtract the row's mean, divide by the square
//! root of its variance plus `eps`. The variance is the mean of the squared distances (divided by
//! n, not n - 1). Then multiply by `scale` and add `shift`, feature by feature.
//!
//! HINT: Work row by row: `for mut row in out.rows_mut()`.
//! HINT: `row.mean()` is an Option, because a row could be empty; or use `row.sum() / n`.
//! HINT: eps belongs inside the root.

use practice::ndarray::{Array1, Array2};

/// (rows, n) to (rows, n)
pub fn layer_norm(
    x: &Array2<f32>,
    scale: &Array1<f32>,
    shift: &Array1<f32>,
    eps: f32,
) -> Array2<f32> {
    // SOLUTION
    let mut out = x.clone();
    for mut row in out.rows_mut() {
        let n = row.len() as f32;
        let mean = row.sum() / n;
        let variance = row.mapv(|x| (x - mean).powi(2)).sum() / n;
        row.mapv_inplace(|x| (x - mean) / (variance + eps).sqrt());
    }
    out * scale + shift
    // END
}

fn main() {
    practice::layer_norm(layer_norm).print();
    // Your experiments go here.
}
