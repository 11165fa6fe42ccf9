//! Simple functions in `f64` that compute the expected results of checks.

use ndarray::{Array, Array1, Array2, Dimension};

/// Converts an array to `f64`.
pub(crate) fn wide<D: Dimension>(x: &Array<f32, D>) -> Array<f64, D> {
    x.mapv(f64::from)
}

/// Returns the softmax of a vector of scores.
pub(crate) fn softmax(scores: &Array1<f64>) -> Array1<f64> {
    let largest = scores.fold(f64::NEG_INFINITY, |most, &x| most.max(x));
    let exponentials = scores.mapv(|x| (x - largest).exp());
    &exponentials / exponentials.sum()
}

/// Returns the softmax of each row of a matrix.
pub(crate) fn softmax_rows(scores: &Array2<f64>) -> Array2<f64> {
    let mut weights = scores.clone();
    for mut row in weights.rows_mut() {
        let softmax = softmax(&row.to_owned());
        row.assign(&softmax);
    }
    weights
}
