//! Loops over the elements of one block of rows; the callers split the rows over threads.

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

/// sqrt(2 / pi)
const SQRT_2_OVER_PI: f32 = 0.797_884_6;
const CUBIC: f32 = 0.044_715;
/// 2^-96: such a gradient moves no weight, because AdamW adds 1e-8 to its divisor. Smaller numbers
/// would lead to denormal products, which are slow on many processors.
const TINY_GRADIENT: f32 = 1.262_177_4e-29;

/// tanh-form GELU, as `x sigmoid(2 u)` with `u = sqrt(2/pi) (x + 0.044715 x^3)`:
/// the same function as `0.5 x (1 + tanh u)`, since `1 + tanh u = 2 sigmoid(2 u)`.
#[multiversion(targets("x86_64+avx512f+avx512dq", "x86_64+avx2"))]
pub fn gelu(x: &[f32], out: &mut [f32]) {
    for (out, &x) in out.iter_mut().zip(x) {
        *out = x * gelu_sigmoid(x, x * x);
    }
}

/// `d *= gelu'(x)`, with `s = sigmoid(2 u)`: `gelu' = s + x s (1 - s) 2 u'`.
#[multiversion(targets("x86_64+avx512f+avx512dq", "x86_64+avx2"))]
pub fn gelu_backward(x: &[f32], d: &mut [f32]) {
    for (d, &x) in d.iter_mut().zip(x) {
        let square = x * x;
        let s = gelu_sigmoid(x, square);
        let twice_d_u = 2.0 * SQRT_2_OVER_PI + 6.0 * SQRT_2_OVER_PI * CUBIC * square;
        *d *= s + x * s * (1.0 - s) * twice_d_u;
    }
}

/// `sigmoid(2 u)` as `1 / (1 + 2^y)`, `y = -2 u log2(e)`.
#[inline(always)]
fn gelu_sigmoid(x: f32, square: f32) -> f32 {
    const LINEAR: f32 = -2.0 * LOG2_E * SQRT_2_OVER_PI;
    math::falling_sigmoid(x * (LINEAR + LINEAR * CUBIC * square))
}

/// `row = exp(scale * row - max)`, 0 below `floor`, divided by its sum; returns `max + ln(sum)`,
/// the log of the sum of exponentials. A row of minus infinities gives NaN, like PyTorch's softmax.
pub fn softmax(row: &mut [f32], scale: f32, floor: f32) -> f32 {
    softmax_of_first(row, row.len(), scale, floor)
}

/// [`softmax`] of the first `n` elements; the others become 0.
pub fn softmax_of_first(row: &mut [f32], n: usize, scale: f32, floor: f32) -> f32 {
    if n == 0 {
        row.fill(0.0);
        return f32::NEG_INFINITY;
    }
    let end = match scale {
        0.0 => n, // which minus infinity times is NaN
        _ => whole_registers(row, n),
    };
    row[n..end].fill(f32::NEG_INFINITY);
    let max = reduce::max(&row[..end]) * scale;
    let sum = exp_minus(&mut row[..end], scale, max, floor);
    row[n..].fill(0.0);
    multiply(&mut row[..end], 1.0 / sum);
    max + sum.ln()
}

/// `exp(scale * x - shift)` of the first `n` elements, 0 where that is below [`NEGLIGIBLE`]; the
/// others become 0.
pub fn exp_minus_of_first(row: &mut [f32], n: usize, scale: f32, shift: f32) {
    let end = whole_registers(row, n);
    exp_minus(&mut row[..end], scale, shift, NEGLIGIBLE);
    row[n..].fill(0.0);
}

/// The elements up to the end of the register that the `n`th is in: what does not fill one takes as
/// long, number by number.
fn whole_registers(row: &[f32], n: usize) -> usize {
    n.next_multiple_of(LANES).min(row.len())
}

/// `row = exp(scale * row - shift)`, 0 where that is below `floor`; returns the sum, in the order
/// of [`reduce::sum`].
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

/// `row *= factor`, 0 where that is not a normal number.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn multiply(row: &mut [f32], factor: f32) {
    let times = |x: &mut f32| *x = math::flush(*x * factor, f32::MIN_POSITIVE);
    let (chunks, rest) = row.as_chunks_mut::<LANES>(); // a register at a time
    chunks
        .iter_mut()
        .for_each(|chunk| chunk.iter_mut().for_each(times));
    rest.iter_mut().for_each(times);
}

/// Returns the cross-entropy of a row, `ln(sum e^(x - max)) - (x_target - max)`, and overwrites the
/// row with its gradient, `(softmax(x) - one_hot(target)) factor`. Exponentials below
/// [`NEGLIGIBLE`] of the largest, and denormal results, become 0.
pub fn cross_entropy_with_gradient(row: &mut [f32], target: usize, factor: f32) -> f32 {
    let (max, logit) = (reduce::max(row), row[target]);
    let sum = exp_minus(row, 1.0, max, NEGLIGIBLE);
    let p = row[target] / sum;
    multiply(row, factor / sum);
    row[target] = math::flush((p - 1.0) * factor, f32::MIN_POSITIVE);
    sum.ln() - (logit - max) // in this order it keeps the digits of logits far from 0
}

/// `x += y`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub fn add(x: &mut [f32], y: &[f32]) {
    for (x, &y) in x.iter_mut().zip(y) {
        *x += y;
    }
}

/// `x += y z`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub fn add_product(x: &mut [f32], y: &[f32], z: &[f32]) {
    for ((x, &y), &z) in x.iter_mut().zip(y).zip(z) {
        *x += y * z;
    }
}

/// One row of LayerNorm: `out = scale (x - mean) rstd + shift`.
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

/// [`layer_norm`] that also writes `x_hat = (x - mean) rstd`.
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

/// One row of LayerNorm's backward pass: `d_x` holds `x_hat` on entry and the gradient of the input
/// on return.
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

/// `d = p (d - sum(d p)) scale`: one row of softmax's backward pass, `p` its output; 0 where that
/// is below `TINY_GRADIENT`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub fn softmax_backward(p: &[f32], d: &mut [f32], dot: f32, scale: f32) {
    for (d, &p) in d.iter_mut().zip(p) {
        *d = math::flush(p * (*d - dot) * scale, TINY_GRADIENT);
    }
}

/// Multiplies element `i` by `scale` where bit `first_bit + i` of `words` is set, by 0 elsewhere.
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
            // 0 or the bits of `scale`, without a branch.
            *value *= f32::from_bits(keep.wrapping_neg() & scale.to_bits());
        }
    }
}
