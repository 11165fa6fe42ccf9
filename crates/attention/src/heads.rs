//! Scaled dot-product attention of all heads under the causal mask: `softmax(Q K^T / sqrt(head_dim)) V`, forward and backward.
//!
//! Queries are taken 64 at a time, against only the keys that they may see, so neither the full (num_tokens, num_tokens) matrix nor its masked half is ever stored or computed.
//! The backward pass computes the weights again from the logarithm of each row's sum instead of keeping them.
//! Heads are independent: each is one task for the thread pool, and within a head all sums run in order, so the bits don't depend on the number of threads.

use ndarray::{Array3, ArrayRef3, ArrayView2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;
use tensor_ops::{
    Dropout, causal_softmax_from_log_sums, causal_softmax_rows, matmul_into_serial,
    softmax_backward_row,
};
use torch_rng::{KeepMask, TorchRng};

/// Queries a block.
const BLOCK: usize = 64;

/// What the backward pass needs of the forward pass.
#[derive(Clone, Debug)]
pub struct HeadCache {
    /// (batch, num_heads, num_tokens): the logarithm of the sum of exponentials of each row of scores
    log_sums: Array3<f32>,
    /// (batch, num_heads, num_tokens, num_tokens), `None` without dropout
    mask: Option<KeepMask>,
    dropout: Dropout,
}

/// Queries, keys and values (batch, num_tokens, d_out) -> context vectors (batch, num_tokens, d_out), head by head.
///
/// # Panics
/// If the shapes differ or `num_heads` does not divide `d_out`.
pub fn attend(
    q: &ArrayRef3<f32>,
    k: &ArrayRef3<f32>,
    v: &ArrayRef3<f32>,
    num_heads: usize,
) -> Array3<f32> {
    attend_with(q, k, v, num_heads, Dropout { p: 0.0 }, None).0
}

/// As [`attend`], in training: drops weights, drawing for all (batch, num_heads, num_tokens, num_tokens) of them in row-major order, masked ones too.
///
/// # Panics
/// If the shapes differ or `num_heads` does not divide `d_out`.
pub fn attend_train(
    q: &ArrayRef3<f32>,
    k: &ArrayRef3<f32>,
    v: &ArrayRef3<f32>,
    num_heads: usize,
    dropout: Dropout,
    rng: &mut TorchRng,
) -> (Array3<f32>, HeadCache) {
    let (batch, num_tokens, _) = q.dim();
    let mask = draw(dropout, (batch, num_heads, num_tokens), rng);
    attend_with(q, k, v, num_heads, dropout, mask)
}

/// Which attention weights (batch, num_heads, num_tokens, num_tokens) are kept; `None`, and no draw, without dropout.
pub(crate) fn draw(
    dropout: Dropout,
    (batch, num_heads, num_tokens): (usize, usize, usize),
    rng: &mut TorchRng,
) -> Option<KeepMask> {
    dropout.draw(batch * num_heads * num_tokens * num_tokens, rng)
}

/// As [`attend_train`], with a mask drawn before.
pub(crate) fn attend_with(
    q: &ArrayRef3<f32>,
    k: &ArrayRef3<f32>,
    v: &ArrayRef3<f32>,
    num_heads: usize,
    dropout: Dropout,
    mask: Option<KeepMask>,
) -> (Array3<f32>, HeadCache) {
    let (batch, num_tokens, d_out) = q.dim();
    let mut context = Array3::zeros((batch, num_tokens, d_out));
    let mut log_sums = Array3::zeros((batch, num_heads, num_tokens));
    let weights = Weights {
        num_tokens,
        dropout,
        mask: mask.as_ref(),
    };
    let (q, k, v) = (
        heads(q, num_heads),
        heads(k, num_heads),
        heads(v, num_heads),
    );
    heads_mut(&mut context, num_heads)
        .into_par_iter()
        .zip(q)
        .zip(k)
        .zip(v)
        .zip(rows_mut(&mut log_sums))
        .enumerate()
        .for_each(|(head, ((((mut context, q), k), v), log_sums))| {
            let mut scores = vec![0.0; BLOCK.min(num_tokens) * num_tokens];
            for first in (0..num_tokens).step_by(BLOCK) {
                let last = (first + BLOCK).min(num_tokens);
                let visible = s![..last, ..];
                let mut p = block_mut(&mut scores, last - first, last); // (queries, keys)
                matmul_into_serial(
                    &q.slice(s![first..last, ..]),
                    &k.slice(visible).t(),
                    0.0,
                    p.view_mut(),
                );
                causal_softmax_rows(p.view_mut(), scale(&q), first, &mut log_sums[first..last]);
                weights.drop(head, first, p.view_mut());
                let context = context.slice_mut(s![first..last, ..]);
                matmul_into_serial(&p, &v.slice(visible), 0.0, context);
            }
        });
    (
        context,
        HeadCache {
            log_sums,
            mask,
            dropout,
        },
    )
}

/// The gradients of queries, keys and values, from that of the context vectors (batch, num_tokens, d_out).
///
/// # Panics
/// If the shapes differ from those of the forward pass.
pub fn attend_backward(
    q: &ArrayRef3<f32>,
    k: &ArrayRef3<f32>,
    v: &ArrayRef3<f32>,
    cache: HeadCache,
    d_context: &ArrayRef3<f32>,
) -> (Array3<f32>, Array3<f32>, Array3<f32>) {
    let HeadCache {
        log_sums,
        mask,
        dropout,
    } = cache;
    let (_, num_heads, num_tokens) = log_sums.dim();
    let weights = Weights {
        num_tokens,
        dropout,
        mask: mask.as_ref(),
    };
    let mut d_q = Array3::zeros(q.raw_dim());
    let mut d_k = Array3::zeros(q.raw_dim());
    let mut d_v = Array3::zeros(q.raw_dim());
    let inputs: Vec<_> = heads(q, num_heads)
        .into_iter()
        .zip(heads(k, num_heads))
        .zip(heads(v, num_heads))
        .zip(heads(d_context, num_heads))
        .zip(
            log_sums
                .as_slice()
                .expect("made by the forward pass")
                .chunks(num_tokens),
        )
        .collect();
    heads_mut(&mut d_q, num_heads)
        .into_par_iter()
        .zip(heads_mut(&mut d_k, num_heads))
        .zip(heads_mut(&mut d_v, num_heads))
        .zip(inputs)
        .enumerate()
        .for_each(
            |(head, (((mut d_q, mut d_k), mut d_v), ((((q, k), v), d_context), log_sums)))| {
                let size = BLOCK.min(num_tokens) * num_tokens;
                let (mut scores, mut dropped, mut d_scores) =
                    (vec![0.0; size], vec![0.0; size], vec![0.0; size]);
                for first in (0..num_tokens).step_by(BLOCK) {
                    let last = (first + BLOCK).min(num_tokens);
                    let (rows, visible) = (s![first..last, ..], s![..last, ..]);
                    let (q, d_context) = (q.slice(rows), d_context.slice(rows));
                    let (k, v) = (k.slice(visible), v.slice(visible));
                    // p = softmax(scale q k^T), found again
                    let mut p = block_mut(&mut scores, last - first, last);
                    matmul_into_serial(&q, &k.t(), 0.0, p.view_mut());
                    causal_softmax_from_log_sums(
                        p.view_mut(),
                        scale(&q),
                        first,
                        &log_sums[first..last],
                    );
                    let mut kept = block_mut(&mut dropped, last - first, last);
                    kept.assign(&p);
                    weights.drop(head, first, kept.view_mut());
                    // context = drop(p) v
                    matmul_into_serial(&kept.t(), &d_context, 1.0, d_v.slice_mut(visible));
                    let mut d_p = block_mut(&mut d_scores, last - first, last);
                    matmul_into_serial(&d_context, &v.t(), 0.0, d_p.view_mut());
                    weights.drop(head, first, d_p.view_mut());
                    // p = softmax(scale s)
                    for (p, mut d_p) in p.rows().into_iter().zip(d_p.rows_mut()) {
                        let d_p = d_p.as_slice_mut().expect("rows of a block are contiguous");
                        softmax_backward_row(p.to_slice().expect("contiguous"), d_p, scale(&q));
                    }
                    // s = q k^T
                    matmul_into_serial(&d_p, &k, 0.0, d_q.slice_mut(rows));
                    matmul_into_serial(&d_p.t(), &q, 1.0, d_k.slice_mut(visible));
                }
            },
        );
    (d_q, d_k, d_v)
}

/// The dropout of the attention weights, which are never stored as a whole.
struct Weights<'a> {
    num_tokens: usize,
    dropout: Dropout,
    mask: Option<&'a KeepMask>,
}

impl Weights<'_> {
    /// Drops and scales weights (or their gradients) of queries `first..` of one head, in place.
    fn drop(&self, head: usize, first: usize, mut p: ArrayViewMut2<f32>) {
        let Some(mask) = self.mask else { return };
        for (i, mut row) in p.rows_mut().into_iter().enumerate() {
            let at = (head * self.num_tokens + first + i) * self.num_tokens;
            let row = row.as_slice_mut().expect("rows of a block are contiguous");
            self.dropout.apply(mask, at, row);
        }
    }
}

/// `1 / sqrt(head_dim)`
fn scale(q: &ArrayView2<f32>) -> f32 {
    1.0 / (q.ncols() as f32).sqrt()
}

/// (batch, num_tokens, d_out) as batch * num_heads views (num_tokens, head_dim).
fn heads(x: &ArrayRef3<f32>, num_heads: usize) -> Vec<ArrayView2<'_, f32>> {
    let head_dim = x.dim().2 / num_heads;
    x.outer_iter()
        .flat_map(|x| {
            (0..num_heads).map(move |h| x.slice_move(s![.., h * head_dim..(h + 1) * head_dim]))
        })
        .collect()
}

/// As [`heads`], to be written.
fn heads_mut(x: &mut Array3<f32>, num_heads: usize) -> Vec<ArrayViewMut2<'_, f32>> {
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

/// (batch, num_heads, num_tokens) as batch * num_heads slices.
fn rows_mut(x: &mut Array3<f32>) -> Vec<&mut [f32]> {
    let num_tokens = x.dim().2.max(1);
    x.as_slice_mut()
        .expect("fresh")
        .chunks_mut(num_tokens)
        .collect()
}

/// The first rows * columns elements of a buffer as a matrix.
fn block_mut(buffer: &mut [f32], rows: usize, columns: usize) -> ArrayViewMut2<'_, f32> {
    ArrayViewMut2::from_shape((rows, columns), &mut buffer[..rows * columns])
        .expect("rows * columns elements")
}
