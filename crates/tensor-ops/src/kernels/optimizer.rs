//! The optimizer's loops over one block of a weight; the callers split weights into blocks.

use multiversion::multiversion;

use crate::adamw::AdamWStep;

/// One AdamW update of a block; the gradient is zero afterwards.
///
/// The square root and the divisions hide behind the memory traffic: seven streams of four bytes an element.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn adamw(
    p: &mut [f32],
    grad: &mut [f32],
    m: &mut [f32],
    v: &mut [f32],
    step: &AdamWStep,
) {
    let AdamWStep {
        keep,
        step_size,
        one_minus_beta1,
        beta2,
        one_minus_beta2,
        sqrt_bias_correction2,
        eps,
        grad_scale,
    } = *step;
    let n = p.len();
    let (grad, m, v) = (&mut grad[..n], &mut m[..n], &mut v[..n]);
    for i in 0..n {
        let g = grad[i] * grad_scale;
        grad[i] = 0.0;
        m[i] += one_minus_beta1 * (g - m[i]);
        v[i] = v[i] * beta2 + one_minus_beta2 * g * g;
        let denom = v[i].sqrt() / sqrt_bias_correction2 + eps;
        p[i] = p[i] * keep - step_size * m[i] / denom;
    }
}

/// `sum += x; x = 0`
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn move_into_sum(sum: &mut [f32], x: &mut [f32]) {
    for (sum, x) in sum.iter_mut().zip(x) {
        *sum += *x;
        *x = 0.0;
    }
}

/// `sum x_i^2` in f64, in eight lanes that are added up in order.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn sum_of_squares(x: &[f32]) -> f64 {
    let mut lanes = [0.0f64; 8];
    let (chunks, rest) = x.as_chunks::<8>();
    for chunk in chunks {
        for (lane, &value) in lanes.iter_mut().zip(chunk) {
            *lane += f64::from(value) * f64::from(value);
        }
    }
    for (lane, &value) in lanes.iter_mut().zip(rest) {
        *lane += f64::from(value) * f64::from(value);
    }
    lanes.iter().sum()
}
