//! Attention of one query over rows of keys and values, `softmax(scale K q)^T V`: a step of
//! decoding against a cache.
//!
//! It masks nothing: the caller hands in the keys that the query may see. Many queries at once are
//! a matrix product instead.

use multiversion::multiversion;
use multiversion::target::target_cfg_f;

use crate::decoding::gemv_kernel;
use crate::elementwise::math::add_product;
use crate::elementwise::{self, NEGLIGIBLE};
use crate::prefetch::{self, LINE, STREAMS};

/// Writes the context vector (head_dim) of `query` (head_dim) to `out`; `keys` and `values` are
/// (n_keys, head_dim) row-major.
///
/// `scores` (n_keys) is scratch space; on return it holds the attention weights.
///
/// # Panics
/// If the lengths don't fit, or `scale` is negative or NaN.
pub fn attend_query(
    query: &[f32],
    (keys, values): (&[f32], &[f32]),
    scale: f32,
    scores: &mut [f32],
    out: &mut [f32],
) {
    let (head_dim, n_keys) = (query.len(), scores.len());
    assert!(
        out.len() == head_dim && keys.len() == n_keys * head_dim && values.len() == keys.len(),
        "attend_query: query {head_dim}, output {}, {n_keys} scores, {} keys' and {} values' elements don't fit",
        out.len(),
        keys.len(),
        values.len()
    );
    assert!(
        scale >= 0.0,
        "attend_query: scale is {scale}, not at least 0"
    );
    if head_dim == 0 || n_keys == 0 {
        return out.fill(0.0);
    }
    dots(query, (keys, values), scores); // (n_keys)
    elementwise::softmax(scores, scale, NEGLIGIBLE);
    weighted_sum(scores, values, out);
}

/// `out[j] = dot(query, keys[j])`; values are prefetched meanwhile, unless the thread's prefetches
/// are busy with keys already.
fn dots(query: &[f32], (keys, values): (&[f32], &[f32]), out: &mut [f32]) {
    out.fill(0.0);
    if prefetch::side_by_side() {
        return gemv_kernel::block([query], keys, out, 1);
    }
    const ROWS: usize = 4;
    let part = ROWS * query.len();
    let parts = keys.chunks(part).zip(values.chunks(part));
    for ((keys, values), out) in parts.zip(out.chunks_mut(ROWS)) {
        for line in values.chunks(LINE) {
            prefetch::far_line(line.as_ptr(), 0);
        }
        gemv_kernel::block([query], keys, out, 1);
    }
}

/// `out = sum_j weights[j] rows[j]`; `rows` is (weights.len(), out.len()) row-major.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
fn weighted_sum(weights: &[f32], rows: &[f32], out: &mut [f32]) {
    let fused = cfg!(target_arch = "aarch64") || target_cfg_f!(target_feature = "fma");
    let n = out.len();
    let mut done = 0;
    while n - done >= 64 {
        columns::<64>(weights, &rows[done..], n, &mut out[done..], fused);
        done += 64;
    }
    while n - done >= 16 {
        columns::<16>(weights, &rows[done..], n, &mut out[done..], fused);
        done += 16;
    }
    while n > done {
        columns::<1>(weights, &rows[done..], n, &mut out[done..], fused);
        done += 1;
    }
}

/// The first C columns of [`weighted_sum`], whose sums stay in registers; `rows` begin `n` numbers
/// after each other.
#[inline(always)]
fn columns<const C: usize>(weights: &[f32], rows: &[f32], n: usize, out: &mut [f32], fused: bool) {
    let mut sums = [0.0f32; C];
    let part = weights.len() / STREAMS;
    for i in 0..part {
        for s in 0..STREAMS {
            let j = s * part + i;
            add(&mut sums, weights[j], &rows[j * n..], fused);
        }
    }
    for j in STREAMS * part..weights.len() {
        add(&mut sums, weights[j], &rows[j * n..], fused);
    }
    out[..C].copy_from_slice(&sums);
}

#[inline(always)]
fn add<const C: usize>(sums: &mut [f32; C], weight: f32, row: &[f32], fused: bool) {
    let row: &[f32; C] = row.first_chunk().expect("a row has C numbers from here");
    for i in 0..C {
        sums[i] = add_product(sums[i], weight, row[i], fused);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attention_agrees_with_f64_at_awkward_sizes() {
        for (n_keys, head_dim) in [
            (1, 1),
            (3, 5),
            (4, 16),
            (7, 17),
            (9, 64),
            (130, 33),
            (90, 80),
        ] {
            let numbers = |count: usize, step: usize| -> Vec<f32> {
                (0..count)
                    .map(|i| ((i * step % 29) as f32 - 14.0) / 29.0)
                    .collect()
            };
            let (query, keys) = (numbers(head_dim, 5), numbers(n_keys * head_dim, 7));
            let values = numbers(n_keys * head_dim, 11);
            let [mut weights, mut out] = [n_keys, head_dim].map(|n| vec![f32::NAN; n]);
            attend_query(&query, (&keys, &values), 0.5, &mut weights, &mut out);

            let exponentials: Vec<f64> = (keys.chunks(head_dim))
                .map(|key| {
                    let products = query.iter().zip(key);
                    let dot: f64 = products.map(|(&q, &k)| f64::from(q) * f64::from(k)).sum();
                    (0.5 * dot).exp()
                })
                .collect();
            let total: f64 = exponentials.iter().sum();
            for (j, exponential) in exponentials.iter().enumerate() {
                assert!(
                    (f64::from(weights[j]) - exponential / total).abs() < 1e-6,
                    "weight {j} of {n_keys} x {head_dim}: {}",
                    weights[j]
                );
            }
            for (i, &got) in out.iter().enumerate() {
                let weighed = exponentials.iter().zip(values.chunks(head_dim));
                let exact: f64 = weighed
                    .map(|(e, value)| e / total * f64::from(value[i]))
                    .sum();
                assert!(
                    (f64::from(got) - exact).abs() < 1e-6,
                    "feature {i} of {n_keys} x {head_dim}: {got} not {exact}"
                );
            }
        }
    }
}
