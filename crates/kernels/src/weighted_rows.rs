//! The two loops of attention for a single query: dot products with all rows of a matrix, and the weighted sum of all rows.
//!
//! Both read the matrix once, in order, four rows at a time; the order of every sum depends on the sizes alone.

use multiversion::multiversion;

use crate::prefetch::{self, LINE};
use crate::reduce::dot_in_lanes;

/// `out[j] = dot(x, rows[j])`; `rows` is (out.len(), x.len()) row-major, and so is `next`, which is asked for meanwhile, as it will be read then.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn dots(x: &[f32], rows: &[f32], next: &[f32], out: &mut [f32]) {
    let (n, ahead) = (x.len(), prefetch::distance());
    let rows = rows.chunks_exact(n).zip(next.chunks_exact(n));
    for ((row, next), out) in rows.zip(out) {
        for (row, next) in row.chunks(LINE).zip(next.chunks(LINE)) {
            if ahead > 0 {
                prefetch::line(row.as_ptr(), ahead / 4);
            }
            prefetch::far_line(next.as_ptr(), 0);
        }
        *out = dot_in_lanes(x, row);
    }
}

/// `out = sum_j weights[j] rows[j]`; `rows` is (weights.len(), out.len()) row-major.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub(crate) fn weighted_sum(weights: &[f32], rows: &[f32], out: &mut [f32]) {
    let n = out.len();
    out.fill(0.0);
    let mut groups = rows.chunks_exact(4 * n);
    let (weights, last_weights) = weights.as_chunks::<4>();
    for (w, group) in weights.iter().zip(&mut groups) {
        let (a, group) = group.split_at(n);
        let (b, group) = group.split_at(n);
        let (c, d) = group.split_at(n);
        for i in 0..n {
            out[i] += (w[0] * a[i] + w[1] * b[i]) + (w[2] * c[i] + w[3] * d[i]);
        }
    }
    for (w, row) in last_weights.iter().zip(groups.remainder().chunks_exact(n)) {
        for (out, x) in out.iter_mut().zip(row) {
            *out += w * x;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_agree_with_f64_at_awkward_sizes() {
        for (count, n) in [(1, 1), (3, 5), (4, 16), (7, 17), (9, 64), (130, 33)] {
            let rows: Vec<f32> = (0..count * n)
                .map(|i| ((i * 7 % 29) as f32 - 14.0) / 29.0)
                .collect();
            let x: Vec<f32> = (0..n).map(|i| ((i * 5 % 11) as f32 - 5.0) / 7.0).collect();
            let mut weights = vec![0.0; count];
            dots(&x, &rows, &rows, &mut weights);
            let mut sum = vec![f64::NAN; n];
            for (j, &got) in weights.iter().enumerate() {
                let exact: f64 = (0..n)
                    .map(|i| f64::from(x[i]) * f64::from(rows[j * n + i]))
                    .sum();
                assert!(
                    (f64::from(got) - exact).abs() < 1e-5,
                    "dot {j} of {count} x {n}"
                );
            }
            for (i, sum) in sum.iter_mut().enumerate() {
                *sum = (0..count)
                    .map(|j| f64::from(weights[j]) * f64::from(rows[j * n + i]))
                    .sum();
            }
            let mut out = vec![f32::NAN; n];
            weighted_sum(&weights, &rows, &mut out);
            for (i, (&got, exact)) in out.iter().zip(sum).enumerate() {
                assert!(
                    (f64::from(got) - exact).abs() < 1e-4,
                    "sum {i} of {count} x {n}"
                );
            }
        }
    }
}
