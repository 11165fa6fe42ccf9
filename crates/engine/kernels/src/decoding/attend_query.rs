//! Attention of a single query over cached keys and values, `softmax(scale K q)^T V`. A decoder
//! computes it for each head and each new token.
//!
//! The cache consists of pages, each of which contains the keys and values of [`PAGE`] tokens. No
//! mask is needed, because the caller passes only the keys that the query may attend to. All sums
//! are computed in the same order as in the dense matrix product ([`gemm`](crate::gemm)), which
//! computes the attention of all tokens of a prompt together. The result for a token therefore has
//! the same bits whether the token is decoded alone or as part of a prompt.

use multiversion::multiversion;
use multiversion::target::target_cfg_f;

use crate::elementwise::math::add_product;
use crate::elementwise::{self, NEGLIGIBLE};
use crate::prefetch::{self, LINE};
use crate::product::kernel::DEPTH;

/// Number of tokens in a page of the key-value cache. Like the dense matrix product,
/// [`attend_query`] adds up the weighted values in blocks of 384 tokens, so that both produce the
/// same bits. Because 384 is a multiple of the page size, each page is completely within one of
/// these blocks.
pub const PAGE: usize = 64;

/// Computes the context vector of `query`, which is the sum of the cached values multiplied by
/// their attention weights, and writes it to `out`. Both `query` and `out` must have head_dim
/// elements.
///
/// Each page contains the keys of its tokens as a matrix of the shape (head_dim, PAGE), followed by
/// their values as a matrix of the shape (PAGE, head_dim). The query attends to the first `n_keys`
/// tokens of `pages`. Its dot products with their keys are multiplied by `scale` before the
/// softmax. The function overwrites `scores` and resizes it if necessary. When it returns, the
/// first `n_keys` elements of `scores` are the attention weights.
///
/// # Panics
///
/// Panics if a page doesn't have `2 * PAGE * query.len()` elements, if `query` and `out` have
/// different lengths, if the pages contain fewer than `n_keys` tokens, or if `scale` is negative or
/// NaN.
pub fn attend_query<'p>(
    query: &[f32],
    pages: impl Iterator<Item = &'p [f32]> + Clone,
    n_keys: usize,
    scale: f32,
    scores: &mut Vec<f32>,
    out: &mut [f32],
) {
    let head_dim = query.len();
    assert!(
        scale >= 0.0,
        "attend_query: the scale must be at least 0, got {scale}"
    );
    scores.resize(n_keys.next_multiple_of(PAGE), 0.0);
    let (scores_of_pages, _) = scores.as_chunks_mut::<PAGE>();
    let mut seen = 0;
    for (page, scores) in pages.clone().zip(scores_of_pages) {
        assert!(
            page.len() == 2 * PAGE * head_dim && out.len() == head_dim,
            "attend_query: the query has {head_dim} numbers, so the output must have {head_dim} and each page {} numbers, but the output has {} and a page has {}",
            2 * PAGE * head_dim,
            out.len(),
            page.len()
        );
        let (keys, values) = page.split_at(PAGE * head_dim);
        if !prefetch::side_by_side() {
            for line in values.chunks(LINE) {
                prefetch::far_line(line.as_ptr(), 0);
            }
        }
        dots(query, keys, scores);
        seen += PAGE;
    }
    assert!(
        seen >= n_keys,
        "attend_query: {n_keys} keys are required, but the pages have room for only {seen}"
    );
    elementwise::softmax_of_first(scores, n_keys, scale, NEGLIGIBLE);

    out.fill(0.0);
    let mut sums = vec![0.0; head_dim];
    let weights = scores[..n_keys].chunks(PAGE);
    for (i, (page, weights)) in pages.zip(weights).enumerate() {
        if i > 0 && (i * PAGE).is_multiple_of(DEPTH) {
            elementwise::add(out, &sums);
            sums.fill(0.0);
        }
        add_weighted(weights, &page[PAGE * head_dim..], &mut sums);
    }
    elementwise::add(out, &sums);
}

/// Computes the dot product of the query and each key of a page,
/// `scores[j] = sum_d query[d] keys[d][j]`.
#[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
fn dots(query: &[f32], keys: &[f32], scores: &mut [f32; PAGE]) {
    let fused = cfg!(target_arch = "aarch64") || target_cfg_f!(target_feature = "fma");
    let (keys, _) = keys.as_chunks::<PAGE>();
    scores.fill(0.0);
    for (query, keys) in query.chunks(DEPTH).zip(keys.chunks(DEPTH)) {
        let mut sums = [0.0; PAGE];
        for (&q, keys) in query.iter().zip(keys) {
            add(&mut sums, q, keys, fused);
        }
        for (score, sum) in scores.iter_mut().zip(sums) {
            *score += sum;
        }
    }
}

/// Multiplies each row of a matrix by its weight and adds the result to `sums`:
/// `sums[c] += sum_j weights[j] rows[j][c]`. `rows` contains the matrix in row-major order, with
/// `sums.len()` columns and at least `weights.len()` rows.
#[multiversion(targets("x86_64+avx512f+fma", "x86_64+avx2+fma"))]
fn add_weighted(weights: &[f32], rows: &[f32], sums: &mut [f32]) {
    let fused = cfg!(target_arch = "aarch64") || target_cfg_f!(target_feature = "fma");
    let n = sums.len();
    let mut done = 0;
    while n - done >= 64 {
        columns::<64>(weights, &rows[done..], n, &mut sums[done..], fused);
        done += 64;
    }
    while n - done >= 16 {
        columns::<16>(weights, &rows[done..], n, &mut sums[done..], fused);
        done += 16;
    }
    while n > done {
        columns::<1>(weights, &rows[done..], n, &mut sums[done..], fused);
        done += 1;
    }
}

/// Computes only the first `C` sums of [`add_weighted`], so that these sums stay in registers. `n`
/// is the distance between the beginnings of neighboring rows, in values.
#[inline(always)]
fn columns<const C: usize>(weights: &[f32], rows: &[f32], n: usize, sums: &mut [f32], fused: bool) {
    let mut local_sums: [f32; C] = *sums.first_chunk().expect("there are C sums");
    for (&weight, row) in weights.iter().zip(rows.chunks(n)) {
        let row = row.first_chunk().expect("a row has C numbers from here");
        add(&mut local_sums, weight, row, fused);
    }
    sums[..C].copy_from_slice(&local_sums);
}

#[inline(always)]
fn add<const C: usize>(sums: &mut [f32; C], factor: f32, row: &[f32; C], fused: bool) {
    for i in 0..C {
        sums[i] = add_product(sums[i], factor, row[i], fused);
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{ArrayView2, s};

    use super::*;
    use crate::product::gemm;

    /// Checks that `attend_query` produces the same bits as matrix products, both for the context
    /// vector and for the attention weights.
    #[test]
    fn a_query_has_the_bits_that_products_give_it_at_awkward_sizes() {
        for (n_keys, head_dim) in [
            (1_usize, 1_usize),
            (3, 5),
            (63, 16),
            (64, 17),
            (65, 64),
            (130, 33),
            (400, 80),
            (900, 400),
        ] {
            let numbers = |count: usize, step: usize| -> Vec<f32> {
                (0..count)
                    .map(|i| ((i * step % 2903) as f32 - 1451.0) / 2903.0)
                    .collect()
            };
            let query = numbers(head_dim, 5);
            let pages: Vec<_> = (0..n_keys.div_ceil(PAGE))
                .map(|page| numbers(2 * PAGE * head_dim, 7 + page))
                .collect();
            let (mut scores, mut out) = (vec![f32::NAN; 3], vec![f32::NAN; head_dim]);
            let slices = pages.iter().map(|page| &page[..]);
            attend_query(&query, slices, n_keys, 0.5, &mut scores, &mut out);

            fn matrix(shape: (usize, usize), numbers: &[f32]) -> ArrayView2<'_, f32> {
                ArrayView2::from_shape(shape, numbers).expect("as many")
            }
            let part = |page: &[f32], part: usize| {
                page[part * PAGE * head_dim..][..PAGE * head_dim].to_vec()
            };
            let (mut weights, mut values) = (Vec::new(), Vec::new());
            for page in &pages {
                let keys = part(page, 0);
                let keys = matrix((head_dim, PAGE), &keys);
                weights.extend(gemm::product(
                    &matrix((1, head_dim), &query),
                    &keys,
                    None,
                    crate::Dtype::Float32,
                ));
                values.extend(part(page, 1));
            }
            elementwise::softmax_of_first(&mut weights, n_keys, 0.5, NEGLIGIBLE);
            let keys = weights.len();
            let values = matrix((keys, head_dim), &values);
            let weights = matrix((1, keys), &weights);
            let expected = gemm::product(&weights, &values, None, crate::Dtype::Float32);
            assert_eq!(out, expected.row(0).to_vec(), "{n_keys} x {head_dim}");
            assert_eq!(scores, weights.row(0).to_vec(), "{n_keys} x {head_dim}");
            let sum = weights.slice(s![0, ..n_keys]).sum();
            assert!((sum - 1.0).abs() < 1e-5, "{n_keys} x {head_dim}: {sum}");
        }
    }
}
