//! Reductions of slices to their sum, maximum or dot product.
//!
//! A reduction accumulates its result in 16 lanes. It combines each element `i` of the slice with
//! lane `i % 16`, and finally combines the lanes pairwise. The order of these operations depends
//! only on the length of the slice, so the result has the same bits with every instruction set.

use multiversion::multiversion;

/// Number of lanes in which a reduction accumulates its result. It is the number of `f32` values in
/// the widest vector register.
pub(crate) const LANES: usize = 16;

/// Reduces the elements of `$x` in 16 lanes. Each lane starts at `$start`, and the closure `$step`
/// combines a lane with one element at a time. At the end, [`fold`] combines the lanes with the
/// closure `$join`.
macro_rules! lanes {
    ($x:expr, $start:expr, $step:expr, $join:expr) => {{
        let mut lanes = [$start; LANES];
        let (chunks, rest) = $x.as_chunks::<LANES>();
        for chunk in chunks {
            for (lane, &value) in lanes.iter_mut().zip(chunk) {
                *lane = $step(*lane, value);
            }
        }
        for (lane, &value) in lanes.iter_mut().zip(rest) {
            *lane = $step(*lane, value);
        }
        fold(lanes, $join)
    }};
}

/// Returns the sum of the elements of `x`.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub fn sum(x: &[f32]) -> f32 {
    lanes!(x, 0.0f32, |a: f32, b: f32| a + b, |a: f32, b: f32| a + b)
}

/// Returns the sum of the squared differences between the elements of `x` and `mean`. LayerNorm
/// divides this sum by the number of elements to compute the variance.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub fn sum_of_squared_deviations(x: &[f32], mean: f32) -> f32 {
    lanes!(
        x,
        0.0f32,
        |a: f32, b: f32| a + (b - mean) * (b - mean),
        |a: f32, b: f32| a + b
    )
}

/// Returns `sum_i e^(x_i - shift)`.
#[multiversion(targets("x86_64+avx512f+avx512dq", "x86_64+avx2"))]
pub fn sum_of_exp(x: &[f32], shift: f32) -> f32 {
    lanes!(
        x,
        0.0f32,
        |a: f32, b: f32| a + super::math::exp(b - shift),
        |a: f32, b: f32| a + b
    )
}

/// Returns the largest element of `x`. The result is NaN if any element is NaN, and minus infinity
/// if `x` is empty.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub fn max(x: &[f32]) -> f32 {
    let larger = |a: f32, b: f32| if b > a || b.is_nan() { b } else { a };
    lanes!(x, f32::NEG_INFINITY, larger, larger)
}

/// Returns the dot product of two slices, which must have the same length.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub fn dot(x: &[f32], y: &[f32]) -> f32 {
    let mut lanes = [0.0f32; LANES];
    let (x_chunks, x_rest) = x.as_chunks();
    let (y_chunks, y_rest) = y.as_chunks();
    for (a, b) in x_chunks.iter().zip(y_chunks) {
        add_products(&mut lanes, a, b);
    }
    if !x_rest.is_empty() {
        add_products(&mut lanes, &padded(x_rest), &padded(y_rest));
    }
    sum_of_lanes(lanes)
}

#[inline(always)]
fn add_products(lanes: &mut [f32; LANES], a: &[f32; LANES], b: &[f32; LANES]) {
    for i in 0..LANES {
        lanes[i] += a[i] * b[i];
    }
}

/// Returns `rest`, padded with zeros to [`LANES`] elements. With the padding, the last step of a
/// dot product updates all lanes. If it updated only some of the lanes, the compiler would keep the
/// lanes in memory instead of in registers.
#[inline(always)]
fn padded(rest: &[f32]) -> [f32; LANES] {
    let mut chunk = [0.0; LANES];
    chunk[..rest.len()].copy_from_slice(rest);
    chunk
}

/// Returns the sum of the lanes, which [`fold`] adds pairwise. The number of lanes must be a power
/// of two.
#[inline(always)]
pub(crate) fn sum_of_lanes<const N: usize>(lanes: [f32; N]) -> f32 {
    fold(lanes, |a, b| a + b)
}

/// Combines the lanes of a reduction to a single value: combines each lane in the first half with
/// the corresponding lane in the second half, and repeats this with the results until only one lane
/// is left. For example, `join` adds two lanes if the reduction is a sum.
#[inline(always)]
fn fold<const N: usize>(mut lanes: [f32; N], join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut width = N / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] = join(lanes[i], lanes[i + width]);
        }
        width /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lane_sums_agree_with_f64_at_every_length() {
        for n in 0..100 {
            let x: Vec<f32> = (0..n).map(|i| ((i * 37 % 19) as f32 - 9.0) / 7.0).collect();
            let exact: f64 = x.iter().map(|&v| f64::from(v)).sum();
            assert!((f64::from(sum(&x)) - exact).abs() < 1e-5, "sum of {n}");
            let exact: f64 = x.iter().map(|&v| f64::from(v) * f64::from(v)).sum();
            assert!((f64::from(dot(&x, &x)) - exact).abs() < 1e-5, "dot of {n}");
            assert!((f64::from(sum_of_squared_deviations(&x, 0.0)) - exact).abs() < 1e-5);
            assert_eq!(max(&x), x.iter().copied().fold(f32::NEG_INFINITY, f32::max));
        }
    }

    #[test]
    fn max_carries_nan() {
        for at in 0..40 {
            let mut x = vec![1.0; 40];
            x[at] = f32::NAN;
            assert!(max(&x).is_nan(), "NaN at {at}");
        }
    }
}
