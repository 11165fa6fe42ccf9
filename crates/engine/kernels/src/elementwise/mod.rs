//! Element-wise operations and operations on rows, such as GELU, softmax and LayerNorm, with their
//! backward passes.
//!
//! Functions that process a single row run on the calling thread. To use several threads, the
//! caller must divide the rows of a matrix among them. The functions for the optimizer, such as
//! [`adamw_update`], divide their work among the threads of rayon's pool themselves.

use std::f32::consts::LOG2_E;

use multiversion::multiversion;

mod adamw;
pub(crate) mod math;
pub mod reduce;
pub(crate) mod transpose;

use reduce::LANES;

pub use adamw::{
    AdamWStep, OPTIMIZER_BLOCK, adamw_update, move_into_sum, sum_of_squares, sums_of_squares,
};
pub use math::NEGLIGIBLE;
pub use transpose::transpose_into;

/// The constant `sqrt(2 / pi)` of GELU.
const SQRT_2_OVER_PI: f32 = 0.797_884_6;
const CUBIC: f32 = 0.044_715;
/// Magnitude (2^-96) below which a gradient is set to 0. Such a small gradient has no effect on the
/// weights, because AdamW adds 1e-8 to its denominator. If it weren't set to 0, its products with
/// other small numbers would often be denormal numbers, which make arithmetic much slower on many
/// CPUs.
const TINY_GRADIENT: f32 = 1.262_177_4e-29;

/// Applies GELU to each element of `x` and writes the results to `out`. Like PyTorch's
/// `nn.GELU(approximate='tanh')`, the function computes an approximation that is based on tanh.
///
/// The approximation is `0.5 x (1 + tanh(u))` with `u = sqrt(2/pi) (x + 0.044715 x^3)`. It is
/// computed as `x sigmoid(2 u)`, which is the same because `1 + tanh(u)` equals `2 sigmoid(2 u)`.
/// If one of the slices is longer than the other, its remaining elements are ignored.
#[multiversion(targets("x86_64+avx512f+avx512dq", "x86_64+avx2"))]
pub fn gelu(x: &[f32], out: &mut [f32]) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out = x * gelu_sigmoid(x, x * x);
    }
}

/// Multiplies the gradient `d` by the derivative of [`gelu`] at `x`.
///
/// The derivative of GELU is `s + x s (1 - s) 2 u'`. Here, `u` is defined as for [`gelu`], `u'` is
/// the derivative of `u`, and `s` is `sigmoid(2 u)`.
#[multiversion(targets("x86_64+avx512f+avx512dq", "x86_64+avx2"))]
pub fn gelu_backward(x: &[f32], d: &mut [f32]) {
    for (d, &x) in d.iter_mut().zip(x) {
        let square = x * x;
        let s = gelu_sigmoid(x, square);
        let twice_d_u = 2.0 * SQRT_2_OVER_PI + 6.0 * SQRT_2_OVER_PI * CUBIC * square;
        *d *= s + x * s * (1.0 - s) * twice_d_u;
    }
}

/// Returns `sigmoid(2 u)`, where `u` is defined as for [`gelu`]. The result is computed as
/// `1 / (1 + 2^y)` with `y = -2 u log2(e)`. The argument `square` must be `x^2`.
#[inline(always)]
fn gelu_sigmoid(x: f32, square: f32) -> f32 {
    const LINEAR: f32 = -2.0 * LOG2_E * SQRT_2_OVER_PI;
    math::falling_sigmoid(x * (LINEAR + LINEAR * CUBIC * square))
}

/// Replaces `row` with the softmax of `scale * row` and returns `ln(sum_i e^(scale * row_i))`, the
/// logarithm of the sum of exponentials.
///
/// To avoid overflow, the maximum of `scale * row` is subtracted from each element of `scale * row`
/// before its exponential is computed. Exponentials below `floor` are set to 0. `scale` must not be
/// negative. If all elements of `row` are minus infinity, the result is NaN, as in PyTorch.
pub fn softmax(row: &mut [f32], scale: f32, floor: f32) -> f32 {
    softmax_of_first(row, row.len(), scale, floor)
}

/// Replaces the first `n` elements of `row` with their [`softmax`] and sets the other elements to
/// 0. Like [`softmax`], returns the logarithm of the sum of exponentials, in this case of the first
/// `n` elements. If `n` is 0, returns minus infinity, the logarithm of 0.
///
/// # Panics
///
/// Panics if `row` has fewer than `n` elements.
pub fn softmax_of_first(row: &mut [f32], n: usize, scale: f32, floor: f32) -> f32 {
    if n == 0 {
        row.fill(0.0);
        return f32::NEG_INFINITY;
    }
    let end = match scale {
        0.0 => n, // The product of minus infinity and 0 would be NaN.
        _ => whole_registers(row, n),
    };
    row[n..end].fill(f32::NEG_INFINITY);
    let max = reduce::max(&row[..end]) * scale;
    let sum = exp_minus(&mut row[..end], scale, max, floor);
    row[n..].fill(0.0);
    multiply(&mut row[..end], 1.0 / sum);
    max + sum.ln()
}

/// Replaces each of the first `n` elements `x` of `row` with `exp(scale * x - shift)` and sets the
/// other elements to 0. Exponentials below [`NEGLIGIBLE`] also become 0.
///
/// # Panics
///
/// Panics if `row` has fewer than `n` elements.
pub fn exp_minus_of_first(row: &mut [f32], n: usize, scale: f32, shift: f32) {
    let end = whole_registers(row, n);
    exp_minus(&mut row[..end], scale, shift, NEGLIGIBLE);
    row[n..].fill(0.0);
}

/// Returns how many elements of `row` a loop should process if only the first `n` are needed: `n`
/// rounded up to a multiple of [`LANES`], but at most the length of `row`. Processing a whole
/// vector register takes no longer than processing a few elements one by one.
fn whole_registers(row: &[f32], n: usize) -> usize {
    n.next_multiple_of(LANES).min(row.len())
}

/// Replaces each element `x` of `row` with `exp(scale * x - shift)`, or with 0 if the exponential
/// is below `floor`. Returns the sum of the new elements, which are added in the same order as in
/// [`reduce::sum`].
#[multiversion(targets("x86_64+avx512f+avx512dq", "x86_64+avx2"))]
fn exp_minus(row: &mut [f32], scale: f32, shift: f32, floor: f32) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let mut add = |row: &mut [f32]| {
        for (lane, x) in lanes.iter_mut().zip(row) {
            *x = math::flush(math::exp(*x * scale - shift), floor);
            *lane += *x;
        }
    };
    let (chunks, rest) = row.as_chunks_mut::<LANES>();
    chunks.iter_mut().for_each(|chunk| add(chunk));
    add(rest);
    reduce::sum_of_lanes(lanes)
}

/// Multiplies `row` by `factor`. Results that aren't normal numbers become 0.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn multiply(row: &mut [f32], factor: f32) {
    let times = |x: &mut f32| *x = math::flush(*x * factor, f32::MIN_POSITIVE);
    // The row is processed in chunks that fill a whole vector register, so that the compiler turns
    // the loop over the elements of a chunk into operations on this register.
    let (chunks, rest) = row.as_chunks_mut::<LANES>();
    chunks
        .iter_mut()
        .for_each(|chunk| chunk.iter_mut().for_each(times));
    rest.iter_mut().for_each(times);
}

/// Returns the cross-entropy loss of the logits in `row`, where `target` is the index of the
/// correct class. Replaces the logits with the gradient of the loss, multiplied by `factor`.
///
/// If `x` denotes the logits and `max` is the largest of them, the loss is
/// `ln(sum_i e^(x_i - max)) - (x_target - max)`, and the new contents of `row` are
/// `(softmax(x) - one_hot(target)) * factor`. Exponentials that are less than [`NEGLIGIBLE`] times
/// the largest exponential become 0, and so do denormal results.
///
/// # Panics
///
/// Panics if `target` isn't an index of `row`.
pub fn cross_entropy_with_gradient(row: &mut [f32], target: usize, factor: f32) -> f32 {
    let (max, logit) = (reduce::max(row), row[target]);
    let sum = exp_minus(row, 1.0, max, NEGLIGIBLE);
    let p = row[target] / sum;
    multiply(row, factor / sum);
    row[target] = math::flush((p - 1.0) * factor, f32::MIN_POSITIVE);
    sum.ln() - (logit - max) // Subtracting in this order is precise for logits far from 0.
}

/// Adds `y` to `x`, element by element.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub fn add(x: &mut [f32], y: &[f32]) {
    for (x, &y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

/// Multiplies `y` and `z` element by element and adds the products to `x`: `x[i] += y[i] * z[i]`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub fn add_product(x: &mut [f32], y: &[f32], z: &[f32]) {
    for ((x, &y), &z) in x.iter_mut().zip(y).zip(z) {
        *x += y * z;
    }
}

/// Computes the LayerNorm of a row, `out = scale (x - mean) rstd + shift`, where `rstd` is the
/// reciprocal of the standard deviation.
///
/// # Panics
///
/// Panics if `scale`, `shift` or `out` is shorter than `x`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub fn layer_norm(
    x: &[f32],
    (scale, shift): (&[f32], &[f32]),
    (mean, rstd): (f32, f32),
    out: &mut [f32],
) {
    let (scale, shift, out) = (&scale[..x.len()], &shift[..x.len()], &mut out[..x.len()]);
    for i in 0..x.len() {
        out[i] = scale[i] * ((x[i] - mean) * rstd) + shift[i];
    }
}

/// Computes [`layer_norm`] and also writes the normalized row `(x - mean) rstd` to `x_hat`, because
/// the backward pass needs it.
///
/// # Panics
///
/// Panics if `scale`, `shift`, `x_hat` or `out` is shorter than `x`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub fn layer_norm_train(
    x: &[f32],
    (scale, shift): (&[f32], &[f32]),
    (mean, rstd): (f32, f32),
    x_hat: &mut [f32],
    out: &mut [f32],
) {
    let (scale, shift) = (&scale[..x.len()], &shift[..x.len()]);
    let (x_hat, out) = (&mut x_hat[..x.len()], &mut out[..x.len()]);
    for i in 0..x.len() {
        x_hat[i] = (x[i] - mean) * rstd;
        out[i] = scale[i] * x_hat[i] + shift[i];
    }
}

/// Computes the backward pass of LayerNorm for a row. Before the call, `d_x` must contain the
/// normalized row `x_hat` from the forward pass. After the call, it contains the gradient of the
/// input.
///
/// # Panics
///
/// Panics if `d_out` or `scale` is shorter than `d_x`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub fn layer_norm_backward(d_out: &[f32], scale: &[f32], rstd: f32, d_x: &mut [f32]) {
    let n = d_x.len() as f32;
    let (mut d_sum, mut d_dot) = ([0.0f32; LANES], [0.0f32; LANES]);
    let (d_out, scale) = (&d_out[..d_x.len()], &scale[..d_x.len()]);
    let mut add = |d_out: &[f32], scale: &[f32], x_hat: &[f32]| {
        for i in 0..x_hat.len() {
            let d_x_hat = d_out[i] * scale[i];
            d_sum[i] += d_x_hat;
            d_dot[i] += d_x_hat * x_hat[i];
        }
    };
    let ((d, d_rest), (s, s_rest), (x, x_rest)) = (
        d_out.as_chunks::<LANES>(),
        scale.as_chunks::<LANES>(),
        d_x.as_chunks::<LANES>(),
    );
    for ((d, s), x) in d.iter().zip(s).zip(x) {
        add(d, s, x);
    }
    add(d_rest, s_rest, x_rest);
    let mean = reduce::sum_of_lanes(d_sum) / n;
    let mean_dot = reduce::sum_of_lanes(d_dot) / n;
    for i in 0..d_x.len() {
        let d_x_hat = d_out[i] * scale[i];
        d_x[i] = rstd * (d_x_hat - mean - d_x[i] * mean_dot);
    }
}

/// Computes the backward pass of softmax for a row. `p` is the output of softmax, and `d` is the
/// gradient of this output. The function replaces `d` with the gradient of the input,
/// `p (d - dot) scale`, where `dot` must be the dot product of `d` and `p`. Results whose magnitude
/// is less than 2^-96 become 0.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub fn softmax_backward(p: &[f32], d: &mut [f32], dot: f32, scale: f32) {
    for (d, &p) in d.iter_mut().zip(p) {
        *d = math::flush(p * (*d - dot) * scale, TINY_GRADIENT);
    }
}

/// Applies a dropout mask: multiplies element `i` of `values` by `scale` if bit `first_bit + i` of
/// the mask `words` is 1, and by 0 otherwise. Bit `k` of the mask is bit `k % 64` of the element
/// `words[k / 64]`, counted from the lowest bit.
///
/// # Panics
///
/// Panics if `words` has too few bits.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq", "x86_64+avx2"))]
pub fn apply_mask(values: &mut [f32], words: &[u64], first_bit: usize, scale: f32) {
    let shift = first_bit % 64;
    let words = &words[first_bit / 64..];
    for (i, chunk) in values.chunks_mut(64).enumerate() {
        let mut bits = words[i] >> shift;
        if shift != 0 && i + 1 < words.len() {
            bits |= words[i + 1] << (64 - shift);
        }
        for (lane, value) in chunk.iter_mut().enumerate() {
            let keep = ((bits >> lane) & 1) as u32;
            // The factor is `scale` if the mask bit `keep` is 1, and 0 otherwise. Combining the
            // bits of `scale` with `keep` avoids a branch, so the compiler can vectorize the loop.
            *value *= f32::from_bits(keep.wrapping_neg() & scale.to_bits());
        }
    }
}
