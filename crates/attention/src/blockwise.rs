//! Causal scaled dot-product attention for all heads of all sequences in a batch, with its backward
//! pass. This implementation computes the same results as the book's code in `plain.rs`, but
//! faster.
//!
//! The functions in this module split arrays of shape `(batch, num_tokens, d_out)` into heads,
//! distribute the heads among threads, and call `head.rs` for each head. The module documentation
//! of `head.rs` explains the algorithm. Each sum within a head is always computed in the same
//! order, so the results are bitwise identical for any number of threads.

use ndarray::{Array3, ArrayRef3, ArrayView2, ArrayViewMut2, Axis, s};
use tensor_ops::Dropout;
use tensor_ops::engine::{empty, for_each};
use torch_rng::KeepMask;

use crate::head::{Head, HeadDropout, HeadGradients};

/// Intermediate results that [`attend_train`] stores for [`attend_backward`].
#[derive(Clone, Debug)]
pub(crate) struct AttendCache {
    /// Log-sum-exp of the scaled attention scores of each query, as an array of shape
    /// `(batch, num_heads, num_tokens)`. The backward pass needs it to compute the attention
    /// weights again, because the forward pass doesn't store them. `head.rs` explains the method.
    log_sums: Array3<f32>,
    /// Dropout mask of the attention weights, in the row-major order of an array of shape
    /// `(batch, num_heads, num_tokens, num_tokens)`. It is `None` if dropout is disabled.
    mask: Option<KeepMask>,
    dropout: Dropout,
}

/// Computes causal attention for each head, and returns the context vectors.
///
/// The queries `q`, the keys `k`, the values `v` and the context vectors all have the shape
/// `(batch, num_tokens, d_out)`. The last dimension contains the features of all heads, one head
/// after the other. Head `h` uses the features `h * head_dim..(h + 1) * head_dim`, where `head_dim`
/// is `d_out / num_heads`.
///
/// The PyTorch equivalent is `torch.nn.functional.scaled_dot_product_attention` with
/// `is_causal=True`. To save memory, the queries are processed in blocks, and the attention weights
/// aren't stored.
///
/// # Panics
///
/// Panics if the shapes of `q`, `k` and `v` differ, or if `d_out` isn't divisible by `num_heads`.
pub fn attend(
    q: &ArrayRef3<f32>,
    k: &ArrayRef3<f32>,
    v: &ArrayRef3<f32>,
    num_heads: usize,
) -> Array3<f32> {
    attend_train(q, k, v, num_heads, (Dropout { p: 0.0 }, None)).0
}

/// Computes causal attention like [`attend`], but applies dropout to the attention weights and also
/// returns the cache that [`attend_backward`] needs. If `mask` is `None`, no attention weights are
/// dropped.
///
/// The dropout mask contains one element for each attention weight, in the row-major order of an
/// array of shape `(batch, num_heads, num_tokens, num_tokens)`.
pub(crate) fn attend_train(
    q: &ArrayRef3<f32>,
    k: &ArrayRef3<f32>,
    v: &ArrayRef3<f32>,
    num_heads: usize,
    (dropout, mask): (Dropout, Option<KeepMask>),
) -> (Array3<f32>, AttendCache) {
    check(q, k, v, num_heads);
    let (batch, num_tokens, d_out) = q.dim();
    let mut context = empty((batch, num_tokens, d_out));
    let mut log_sums = Array3::zeros((batch, num_heads, num_tokens));
    let contexts = split_heads_mut(&mut context, num_heads);
    let rows: Vec<_> = (log_sums.as_slice_mut().expect("row-major"))
        .chunks_mut(num_tokens.max(1)) // one chunk for each head
        .collect();
    let heads = heads(q, k, v, num_heads).into_iter().enumerate();
    let tasks = heads.zip(contexts).zip(rows).collect();
    for_each(tasks, |(((i, head), context), log_sums)| {
        let dropout = mask.as_ref().map(|mask| HeadDropout {
            dropout,
            mask,
            head: i,
            num_tokens,
        });
        head.forward(dropout.as_ref(), log_sums, context);
    });
    let cache = AttendCache {
        log_sums,
        mask,
        dropout,
    };
    (context, cache)
}

/// Returns the gradients of the queries, keys and values, given `d_context`, the gradient of the
/// context vectors. All four arrays have the shape `(batch, num_tokens, d_out)`.
///
/// `q`, `k` and `v` must be the same arrays that were passed to the call of [`attend_train`] that
/// returned `cache`.
pub(crate) fn attend_backward(
    q: &ArrayRef3<f32>,
    k: &ArrayRef3<f32>,
    v: &ArrayRef3<f32>,
    cache: &AttendCache,
    d_context: &ArrayRef3<f32>,
) -> [Array3<f32>; 3] {
    let (_, num_heads, num_tokens) = cache.log_sums.dim();
    let log_sums = cache.log_sums.as_slice().expect("row-major");
    let mut grads = [0; 3].map(|_| empty(q.raw_dim()));
    let [d_q, d_k, d_v] = grads.each_mut().map(|d| split_heads_mut(d, num_heads));
    let heads = heads(q, k, v, num_heads).into_iter().enumerate();
    let tasks = heads.zip(d_q).zip(d_k).zip(d_v).collect();
    for_each(tasks, |((((i, head), queries), keys), values)| {
        let dropout = cache.mask.as_ref().map(|mask| HeadDropout {
            dropout: cache.dropout,
            mask,
            head: i,
            num_tokens,
        });
        let log_sums = &log_sums[i * num_tokens..(i + 1) * num_tokens];
        let d_context = head_of(d_context, i, num_heads);
        let mut grads = HeadGradients {
            queries,
            keys,
            values,
        };
        head.backward(dropout.as_ref(), log_sums, d_context, &mut grads);
    });
    grads
}

/// Splits the queries, keys and values into `batch * num_heads` heads, which are views of these
/// arrays. The arrays have the shape `(batch, num_tokens, d_out)`. The result starts with all heads
/// of the first sequence, followed by all heads of the second sequence, and so on.
fn heads<'a>(
    q: &'a ArrayRef3<f32>,
    k: &'a ArrayRef3<f32>,
    v: &'a ArrayRef3<f32>,
    num_heads: usize,
) -> Vec<Head<'a>> {
    let head = |i| Head {
        past: 0,
        queries: head_of(q, i, num_heads),
        keys: head_of(k, i, num_heads),
        values: head_of(v, i, num_heads),
    };
    (0..q.dim().0 * num_heads).map(head).collect()
}

/// Returns a view of head `i` of the array `x`, which has the shape `(batch, num_tokens, d_out)`.
/// The heads are numbered from 0 to `batch * num_heads - 1`, starting with the heads of the first
/// sequence. The view has the shape `(num_tokens, head_dim)`.
fn head_of(x: &ArrayRef3<f32>, i: usize, num_heads: usize) -> ArrayView2<'_, f32> {
    let (sequence, head, head_dim) = (i / num_heads, i % num_heads, x.dim().2 / num_heads);
    x.slice(s![sequence, .., head * head_dim..(head + 1) * head_dim])
}

/// Splits `x`, an array of shape `(batch, num_tokens, d_out)`, into mutable views of its
/// `batch * num_heads` heads. Each view has the shape `(num_tokens, head_dim)`.
fn split_heads_mut(x: &mut Array3<f32>, num_heads: usize) -> Vec<ArrayViewMut2<'_, f32>> {
    let head_dim = x.dim().2 / num_heads;
    let mut views = Vec::with_capacity(x.dim().0 * num_heads);
    for mut rest in x.axis_iter_mut(Axis(0)) {
        for _ in 0..num_heads {
            let (head, others) = rest.split_at(Axis(1), head_dim);
            views.push(head);
            rest = others;
        }
    }
    views
}

fn check(q: &ArrayRef3<f32>, k: &ArrayRef3<f32>, v: &ArrayRef3<f32>, num_heads: usize) {
    let (q, k, v) = (q.dim(), k.dim(), v.dim());
    assert!(
        q == k && q == v,
        "attend: queries {q:?}, keys {k:?} and values {v:?} have different shapes"
    );
    assert!(
        num_heads > 0 && q.2.is_multiple_of(num_heads),
        "attend: d_out must be divisible by num_heads, but num_heads is {num_heads} and d_out is {}",
        q.2
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use test_support::test_array;

    /// Checks the context vectors and the gradients of a sequence of 150 tokens. Attention divides
    /// its queries into three blocks and adds up the gradients of the keys and values over these
    /// blocks, so the test also covers this sum.
    #[test]
    fn gradients_of_several_blocks_of_queries_equal_those_of_the_plain_formula() {
        let [q, k, v, d]: [Array3<f32>; 4] =
            [1, 2, 3, 4].map(|seed| test_array((1, 150, 4), 1.0, seed));
        let dropout = (Dropout { p: 0.0 }, None);
        let (out, cache) = attend_train(&q, &k, &v, 1, dropout);
        let [d_q, d_k, d_v] = attend_backward(&q, &k, &v, &cache, &d);
        let exact = plain::attention(&q, &k, &v, &d);
        test_support::assert_close_named("context", &out, &exact.out, 1e-5);
        test_support::assert_close_named("d_q", &d_q, &exact.d_q, 1e-4);
        test_support::assert_close_named("d_k", &d_k, &exact.d_k, 1e-4);
        test_support::assert_close_named("d_v", &d_v, &exact.d_v, 1e-4);
    }

    #[test]
    #[should_panic(expected = "num_heads is 3 and d_out is 4")]
    fn heads_that_do_not_divide_the_features_are_refused() {
        let x = Array3::zeros((1, 2, 4));
        attend(&x, &x, &x, 3);
    }

    /// A straightforward implementation of causal attention and its gradients, with which the tests
    /// compare the results of [`attend_train`] and [`attend_backward`]. It computes all scores as a
    /// single matrix, in `f64`.
    mod plain {
        use ndarray::{Array2, Array3, ArrayRef3, Axis, s};

        pub(super) struct Exact {
            pub(super) out: Array3<f64>,
            pub(super) d_q: Array3<f64>,
            pub(super) d_k: Array3<f64>,
            pub(super) d_v: Array3<f64>,
        }

        pub(super) fn attention(
            q: &ArrayRef3<f32>,
            k: &ArrayRef3<f32>,
            v: &ArrayRef3<f32>,
            d: &ArrayRef3<f32>,
        ) -> Exact {
            let [q, k, v, d] = [q, k, v, d].map(|x| x.slice(s![0, .., ..]).mapv(f64::from));
            let scale = 1.0 / (q.ncols() as f64).sqrt();
            let mut p: Array2<f64> = q.dot(&k.t()) * scale;
            for ((i, j), p) in p.indexed_iter_mut() {
                *p = if j <= i { p.exp() } else { 0.0 };
            }
            for mut row in p.rows_mut() {
                let sum = row.sum();
                row /= sum;
            }
            let d_p = d.dot(&v.t());
            let dots = (&d_p * &p).sum_axis(Axis(1)).insert_axis(Axis(1));
            let d_s = &p * (&d_p - &dots) * scale;
            let batched = |x: Array2<f64>| x.insert_axis(Axis(0));
            Exact {
                out: batched(p.dot(&v)),
                d_q: batched(d_s.dot(&k)),
                d_k: batched(d_s.t().dot(&q)),
                d_v: batched(p.t().dot(&d)),
            }
        }
    }
}
