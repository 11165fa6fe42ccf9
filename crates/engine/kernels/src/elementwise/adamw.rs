//! The AdamW update of a weight tensor (`torch.optim.AdamW`) and the squared norm of a gradient,
//! which gradient clipping needs (`torch.nn.utils.clip_grad_norm_`).
//!
//! ```text
//! g = grad_scale * grad                     the gradient after clipping
//! p = (1 - lr * weight_decay) * p           weight decay, decoupled from the gradient
//! m = m + (1 - beta1) (g - m)
//! v = beta2 v + (1 - beta2) g^2
//! p = p - lr / (1 - beta1^t) * m / (sqrt(v) / sqrt(1 - beta2^t) + eps)
//! ```
//!
//! All loops process blocks of a fixed size, so the results have the same bits for any number of
//! threads. The weights, the moments and the number of steps `t` are stored by the caller.

use multiversion::multiversion;
use rayon::prelude::*;

use crate::elementwise::math::flush;
use crate::threads::for_each;

/// Number of elements in a block. Each task of [`adamw_update`] processes one block, which contains
/// 256 KiB of weights, gradients and moments. [`sums_of_squares`] returns one sum for each block.
pub const OPTIMIZER_BLOCK: usize = 16 * 1024;

/// Magnitude (2^-56) below which a gradient is replaced with 0. As long as the gradient of a weight
/// is 0, both moments of this weight shrink in every step. This limit and the limits for the
/// moments keep the moments from becoming denormal numbers, which make arithmetic much slower on
/// many CPUs. Gradients and moments below the limits have no effect on the weights anyway, because
/// `eps` is much larger.
const MIN_GRADIENT: f32 = 1.387_778_8e-17;
/// Magnitude (2^-96) below which a first moment is replaced with 0.
const MIN_MOMENT1: f32 = 1.262_177_4e-29;
/// Magnitude (2^-120) below which a second moment is replaced with 0.
const MIN_MOMENT2: f32 = 7.523_164e-37;

/// The coefficients of an AdamW step, which are the same for all weights. They are rounded to
/// `f32`, because PyTorch also rounds its scalars to `f32`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AdamWStep {
    /// Factor of the weight decay, `1 - lr * weight_decay`.
    pub keep: f32,
    /// Step size, `lr / (1 - beta1^t)`.
    pub step_size: f32,
    /// Factor of the gradient in the first moment, `1 - beta1`.
    pub one_minus_beta1: f32,
    /// Factor of the previous second moment in the new one, `beta2`.
    pub beta2: f32,
    /// Factor of the squared gradient in the update of the second moment, `1 - beta2`.
    pub one_minus_beta2: f32,
    /// Square root of the second bias correction, `sqrt(1 - beta2^t)`.
    pub sqrt_bias_correction2: f32,
    /// Constant that is added to the denominator.
    pub eps: f32,
    /// Factor by which gradient clipping multiplies the gradient, or 1 if the gradient isn't
    /// clipped.
    pub grad_scale: f32,
}

/// Updates the weights `p` of a tensor and their moments `m` and `v` from the gradient `grad`, and
/// then sets the gradient to 0. The work is divided among the threads of rayon's pool.
///
/// # Panics
///
/// Panics if the four slices don't have the same length.
pub fn adamw_update(
    p: &mut [f32],
    grad: &mut [f32],
    m: &mut [f32],
    v: &mut [f32],
    step: &AdamWStep,
) {
    assert!(
        p.len() == grad.len() && p.len() == m.len() && p.len() == v.len(),
        "adamw_update: there are {} weights, {} gradients, {} first moments and {} second moments, but these numbers must be equal",
        p.len(),
        grad.len(),
        m.len(),
        v.len()
    );
    let blocks = (p.chunks_mut(OPTIMIZER_BLOCK))
        .zip(grad.chunks_mut(OPTIMIZER_BLOCK))
        .zip(m.chunks_mut(OPTIMIZER_BLOCK))
        .zip(v.chunks_mut(OPTIMIZER_BLOCK));
    for_each(blocks.collect(), |(((p, grad), m), v)| {
        update_block(p, grad, m, v, step)
    });
}

/// Returns the sum of the squares of all elements of `x`, computed in `f64`. Each block of
/// [`OPTIMIZER_BLOCK`] elements is summed separately. The sums of the blocks are then added in
/// order.
pub fn sum_of_squares(x: &[f32]) -> f64 {
    sums_of_squares(x).iter().sum()
}

/// Returns one sum for each block of [`OPTIMIZER_BLOCK`] elements of `x`, which is the sum of the
/// squares of these elements. The sums are computed in `f64` by the threads of rayon's pool. If `x`
/// is empty, the result contains a single sum, which is 0.
pub fn sums_of_squares(x: &[f32]) -> Vec<f64> {
    if x.len() <= OPTIMIZER_BLOCK {
        return vec![sum_of_squares_of_block(x)];
    }
    x.par_chunks(OPTIMIZER_BLOCK)
        .map(sum_of_squares_of_block)
        .collect()
}

/// Adds each element of `x`, such as a gradient computed by another thread, to the corresponding
/// element of `sum`, and sets `x` to 0. Both happen in the same loop, so that `x` is read from
/// memory only once.
///
/// # Panics
///
/// Panics if the slices don't have the same length.
pub fn move_into_sum(sum: &mut [f32], x: &mut [f32]) {
    assert!(
        sum.len() == x.len(),
        "move_into_sum: {} numbers can't be added to {} sums, because these numbers must be equal",
        x.len(),
        sum.len()
    );
    let blocks = sum
        .chunks_mut(OPTIMIZER_BLOCK)
        .zip(x.chunks_mut(OPTIMIZER_BLOCK));
    for_each(blocks.collect(), |(sum, x)| move_block_into_sum(sum, x));
}

/// Performs the AdamW update of a block and sets the gradient of the block to 0.
///
/// The square root and the divisions of AdamW don't make this function slower, because its speed is
/// limited by reading and writing the weights, gradients and moments in memory.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn update_block(p: &mut [f32], grad: &mut [f32], m: &mut [f32], v: &mut [f32], step: &AdamWStep) {
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
        let g = flush(grad[i] * grad_scale, MIN_GRADIENT);
        grad[i] = 0.0;
        m[i] = flush(m[i] + one_minus_beta1 * (g - m[i]), MIN_MOMENT1);
        v[i] = flush(v[i] * beta2 + one_minus_beta2 * g * g, MIN_MOMENT2);
        let denom = v[i].sqrt() / sqrt_bias_correction2 + eps;
        p[i] = p[i] * keep - step_size * m[i] / denom;
    }
}

/// Performs [`move_into_sum`] for a single block: adds each element of `x` to the corresponding
/// element of `sum` and sets `x` to 0.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn move_block_into_sum(sum: &mut [f32], x: &mut [f32]) {
    for (sum, x) in sum.iter_mut().zip(x) {
        *sum += *x;
        *x = 0.0;
    }
}

/// Returns the sum of the squares of a block, computed in `f64`. The squares are added in eight
/// lanes, and the sums of the lanes are then added in order.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn sum_of_squares_of_block(x: &[f32]) -> f64 {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Coefficients with which the tests call the update function. They belong to the first AdamW
    /// step with a learning rate of 0.1, a weight decay of 0.5, the betas 0.9 and 0.99, and an
    /// `eps` of 1e-8.
    const FIRST: AdamWStep = AdamWStep {
        keep: 0.95,
        step_size: 1.0,
        one_minus_beta1: 0.1,
        beta2: 0.99,
        one_minus_beta2: 0.01,
        sqrt_bias_correction2: 0.1,
        eps: 1e-8,
        grad_scale: 1.0,
    };

    #[test]
    fn blocks_on_all_threads_give_the_bits_of_one_loop() {
        let n = 3 * OPTIMIZER_BLOCK + 17;
        let values = |k: usize| -> Vec<f32> {
            (0..n)
                .map(|i| ((i * k % 1009) as f32 - 500.0) / 300.0)
                .collect()
        };
        let v: Vec<f32> = values(13).iter().map(|v| v * v).collect();
        let step = AdamWStep {
            grad_scale: 0.37,
            ..FIRST
        };
        let mut blocks = (values(7), values(11), values(5), v.clone());
        let (p, g, m, s) = (&mut blocks.0, &mut blocks.1, &mut blocks.2, &mut blocks.3);
        adamw_update(p, g, m, s, &step);
        let mut whole = (values(7), values(11), values(5), v);
        let (p, g, m, s) = (&mut whole.0, &mut whole.1, &mut whole.2, &mut whole.3);
        update_block(p, g, m, s, &step);
        assert_eq!(blocks, whole);
    }

    #[test]
    fn the_sum_of_squares_is_exact_to_f64() {
        for n in [0, 1, 7, 8, 9, OPTIMIZER_BLOCK + 5] {
            let x: Vec<f32> = (0..n).map(|i| (i % 50) as f32).collect();
            let exact: f64 = x.iter().map(|&x| f64::from(x * x)).sum();
            assert_eq!(sum_of_squares(&x), exact, "{n} elements");
        }
    }

    #[test]
    fn a_moved_gradient_is_added_and_gone() {
        for n in [0, 5, 2 * OPTIMIZER_BLOCK + 3] {
            let mut sum: Vec<f32> = (0..n).map(|i| i as f32 / 7.0).collect();
            let mut x: Vec<f32> = (0..n).map(|i| 3.0 - i as f32 / 11.0).collect();
            let expected: Vec<f32> = sum.iter().zip(&x).map(|(sum, x)| sum + x).collect();
            move_into_sum(&mut sum, &mut x);
            assert_eq!(sum, expected);
            assert!(x.iter().all(|&x| x == 0.0));
        }
    }

    #[test]
    #[should_panic(
        expected = "adamw_update: there are 2 weights, 1 gradients, 2 first moments and 2 second moments"
    )]
    fn slices_of_different_lengths_are_refused() {
        adamw_update(
            &mut [0.0; 2],
            &mut [0.0],
            &mut [0.0; 2],
            &mut [0.0; 2],
            &FIRST,
        );
    }
}
