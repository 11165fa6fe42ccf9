//! 4.2 Layer normalization
//!
//! Deep networks are hard to train if the numbers grow or shrink from layer to layer. Layer
//! normalization changes the features of each token (a row of x) so that their mean is 0 and their
//! variance is 1. The other tokens don't affect the result. Two learned vectors then let the model
//! adjust the size (`scale`) and the center (`shift`) of each feature.
//!
//! As in GPT-2, use the biased variance and add `eps` to it. This prevents a division by 0 if all
//! numbers of a row are equal.
//!
//! HINT: The biased variance is the mean of the squared differences from the mean. To compute it,
//!   divide the sum of the squares by n and not by n - 1.
//! HINT: out = (x - mean) / sqrt(variance + eps) * scale + shift
//! HINT: Change a copy of x row by row with `for mut row in out.rows_mut()`. The mean of a row is
//!   `row.sum() / n`.

use practice::ndarray::{Array1, Array2};

/// Normalizes each row of `x`. `x` and the result have the shape (rows, n), and `scale` and `shift`
/// have the shape (n).
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

// CHECKS

use ndarray::{Axis, array};
use tensor_ops::{Linear, relu};
use torch_rng::TorchRng;

use crate::Report;
use crate::check::{Check, Mistake, random};
use crate::reference::wide;

type LayerNorm = fn(&Array2<f32>, &Array1<f32>, &Array1<f32>, f32) -> Array2<f32>;

/// Replaces each number of `x` with the result of `change`, which receives the number and the mean
/// and biased variance of its row. The incorrect versions of `layer_norm` that the check recognizes
/// call this function, each with a different formula as `change`.
fn by_rows(x: &Array2<f32>, change: impl Fn(f32, f32, f32) -> f32) -> Array2<f32> {
    let mut out = x.clone();
    for mut row in out.rows_mut() {
        let (mean, variance) = (row.mean().unwrap_or_default(), row.var(0.0));
        row.mapv_inplace(|x| change(x, mean, variance));
    }
    out
}

pub(crate) const MISTAKES: &[Mistake<LayerNorm>] = &[
    (
        "the variance is computed with n - 1; divide the sum of the squares by n",
        |x, scale, shift, eps| {
            let n = x.ncols() as f32;
            let normed = by_rows(x, |x, mean, variance| {
                (x - mean) / (variance * n / (n - 1.0) + eps).sqrt()
            });
            normed * scale + shift
        },
    ),
    (
        "eps is added to the square root; add it to the variance",
        |x, scale, shift, eps| {
            by_rows(x, |x, mean, variance| (x - mean) / (variance.sqrt() + eps)) * scale + shift
        },
    ),
    (
        "the numbers are divided by the variance; divide them by its square root",
        |x, scale, shift, eps| {
            by_rows(x, |x, mean, variance| (x - mean) / (variance + eps)) * scale + shift
        },
    ),
    (
        "the mean isn't subtracted; subtract it from each number of the row",
        |x, scale, shift, eps| {
            by_rows(x, |x, _, variance| x / (variance + eps).sqrt()) * scale + shift
        },
    ),
    (
        "scale and shift are missing; multiply by scale and then add shift",
        |x, _, _, eps| by_rows(x, |x, mean, variance| (x - mean) / (variance + eps).sqrt()),
    ),
    (
        "shift is added before the multiplication by scale; add it afterwards",
        |x, scale, shift, eps| {
            (by_rows(x, |x, mean, variance| (x - mean) / (variance + eps).sqrt()) + shift) * scale
        },
    ),
    (
        "the columns are normalized; normalize each row",
        |x, scale, shift, eps| {
            let x = x.t().to_owned();
            let normed = by_rows(&x, |x, mean, variance| (x - mean) / (variance + eps).sqrt());
            normed.t().to_owned() * scale + shift
        },
    ),
];

/// Checks the learner's `layer_norm`.
pub fn check(layer_norm: LayerNorm) -> Report {
    let mut check = Check::new(layer_norm, MISTAKES);
    let mut rng = TorchRng::manual_seed(123);
    let batch = Array2::from_shape_vec((2, 5), rng.randn(10)).expect("ten numbers");
    let book = relu(&Linear::new(5, 6, true, &mut rng).forward(&batch));
    let (ones, zeros) = (Array1::ones(6), Array1::zeros(6));
    check.printed(
        "the book's variances, In [12]",
        ("ch04", "In [12]", 1),
        |yours| yours(&book, &ones, &zeros, 1e-5).var_axis(Axis(1), 0.0),
    );
    let x = random(3, 4, 7);
    let (scale, shift) = (array![1.0, 2.0, 0.5, -1.0], array![0.0, 1.0, -1.0, 3.0]);
    let mut expected = wide(&x);
    for mut row in expected.rows_mut() {
        let mean = row.sum() / 4.0;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 4.0;
        row.mapv_inplace(|x| (x - mean) / (variance + 0.1).sqrt());
    }
    let expected = expected * wide(&scale) + wide(&shift);
    check.equals("a second input (seed 7), eps = 0.1", expected, |yours| {
        yours(&x, &scale, &shift, 0.1)
    });
    let (ones, zeros) = (Array1::ones(4), Array1::zeros(4));
    check.equals(
        "a row of equal numbers",
        Array2::<f32>::zeros((1, 4)),
        |yours| yours(&array![[2.0, 2.0, 2.0, 2.0]], &ones, &zeros, 1e-5),
    );
    check.holds("100 * x has the same result", |yours| {
        let once = yours(&x, &ones, &zeros, 0.0);
        let times_100 = yours(&(&x * 100.0), &ones, &zeros, 0.0);
        match (&once - &times_100)
            .iter()
            .all(|difference| difference.abs() < 1e-3)
        {
            true => Ok(()),
            false => {
                Err("the results for x and 100 * x differ, but they should be equal".to_owned())
            }
        }
    });
    check.report()
}
