//! Attention of one query over rows of keys and values, `softmax(scale K q)^T V`: a step of decoding against a cache.
//!
//! It masks nothing: the caller hands in the keys that the query may see. Many queries at once are a matrix product instead.

use crate::elementwise::NEGLIGIBLE;
use crate::{elementwise, weighted_rows};

/// Writes the context vector (head_dim) of `query` (head_dim) to `out`; `keys` and `values` are (n_keys, head_dim) row-major.
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
    weighted_rows::dots(query, keys, values, scores); // (n_keys)
    elementwise::softmax(scores, scale, NEGLIGIBLE);
    weighted_rows::weighted_sum(scores, values, out);
}
