//! Tests that results that underflow become 0 instead of subnormal (denormal) numbers. Many CPUs
//! are about a hundred times slower at operations on subnormal numbers.

use ndarray::{Array1, Array2, Axis};
use tensor_ops::engine::{
    AdamWStep, PAGE, adamw_update, attend_query, causal_softmax_from_log_sums, causal_softmax_rows,
    softmax_backward_row,
};
use tensor_ops::{cross_entropy_train, gelu, softmax};

/// Returns attention scores whose exponentials range from 1 to numbers so small that they underflow
/// to 0.
fn peaked() -> Array2<f32> {
    Array2::from_shape_fn((40, 400), |(i, j)| {
        ((i * 7 + j * 13) % 401) as f32 * -0.3 - i as f32
    })
}

fn assert_no_denormal<'a>(what: &str, values: impl IntoIterator<Item = &'a f32>) {
    let (mut zeros, mut others) = (0, 0);
    for (i, x) in values.into_iter().enumerate() {
        assert!(!x.is_subnormal(), "{what}: {x:e} at {i}");
        zeros += usize::from(*x == 0.0);
        others += usize::from(*x != 0.0);
    }
    assert!(
        zeros > 0 && others > 0,
        "{what}: {zeros} zeros and {others} others don't run through the smallest numbers"
    );
}

#[test]
fn softmax_and_its_gradient_are_zero_or_normal() {
    assert_no_denormal("softmax", &softmax(&peaked(), Axis(1)));

    let scale = 0.7;
    let mut p = peaked();
    let mut log_sums = vec![0.0; p.nrows()];
    causal_softmax_rows(p.view_mut(), scale, 400, &mut log_sums);
    assert_no_denormal("attention's weights", &p);
    let mut again = peaked();
    causal_softmax_from_log_sums(again.view_mut(), scale, 400, &log_sums);
    assert_no_denormal("attention's weights, found again", &again);
    for exponent in 0..12 {
        let gradient = 10f32.powi(-exponent);
        let mut d = Array2::from_shape_fn(p.dim(), |(i, j)| ((i + 3 * j) % 17) as f32 * gradient);
        for (p, mut d) in p.outer_iter().zip(d.outer_iter_mut()) {
            let d = d.as_slice_mut().expect("row-major");
            softmax_backward_row(p.to_slice().expect("row-major"), d, scale);
        }
        assert_no_denormal("softmax's gradient", &d);
    }

    let pages: Vec<Vec<f32>> = (0..400usize.div_ceil(PAGE))
        .map(|page| {
            let position = |i: usize| (page * PAGE + i % PAGE) as f32;
            (0..2 * PAGE * 8).map(|i| position(i) * -0.5).collect()
        })
        .collect();
    let (mut weights, mut context) = (Vec::new(), [0.0; 8]);
    let pages = pages.iter().map(|page| &page[..]);
    attend_query(&[0.1; 8], pages, 400, scale, &mut weights, &mut context);
    let weights = Array1::from(weights);
    assert_no_denormal("the cache's weights", &weights);
}

#[test]
fn cross_entropys_gradient_is_zero_or_normal() {
    for d_loss in [1.0, 1e-3, 1e-20] {
        let targets: Vec<u32> = (0..40).collect();
        let (_, d_logits) = cross_entropy_train(peaked(), &targets, d_loss);
        assert_no_denormal("cross-entropy", &d_logits);
    }
}

#[test]
fn gelu_is_zero_or_normal() {
    let x = Array2::from_shape_fn((1, 4000), |(_, i)| i as f32 * -0.005);
    assert_no_denormal("gelu", &gelu(&x));
}

#[test]
fn moments_of_weights_without_a_gradient_die_out() {
    let step = AdamWStep {
        keep: 1.0 - 1e-4,
        step_size: 1e-3,
        one_minus_beta1: 0.1,
        beta2: 0.95,
        one_minus_beta2: 0.05,
        sqrt_bias_correction2: 1.0,
        eps: 1e-8,
        grad_scale: 1.0,
    };
    let n = 64;
    let mut p = vec![0.5; n];
    let (mut m, mut v) = (vec![0.0; n], vec![0.0; n]);
    for turn in 0..3000 {
        // Test AdamW with gradients that make its moments decay towards 0. In the first step, the
        // gradients range from 1 to 1e-63, and the smallest of them underflow to 0 in `f32`. In all
        // later steps, only the gradient of the first weight differs from 0, so the moments of all
        // other weights become smaller and smaller.
        let gradient = |i: usize| {
            if i == 0 || turn == 0 {
                10f32.powi(-(i as i32))
            } else {
                0.0
            }
        };
        let mut grad: Vec<f32> = (0..n).map(gradient).collect();
        adamw_update(&mut p, &mut grad, &mut m, &mut v, &step);
        assert_no_denormal("first moments", &m);
        assert_no_denormal("second moments", &v);
    }
    assert_eq!(m[1..], vec![0.0; n - 1]);
    assert_eq!(v[1..], vec![0.0; n - 1]);
}
