//! Causal attention of one head by blocks of queries, as FlashAttention goes about it:
//! `softmax(Q K^T / sqrt(head_dim)) V`, forward and backward.
//!
//! Queries are taken 64 at a time, against only the keys that they may see, so neither the full
//! (queries, keys) matrix nor its masked half is ever stored or computed.
//! The backward pass computes the weights again from the logarithm of each row's sum instead of
//! keeping them.
//! It runs on the calling thread: heads are shared out among threads in `blockwise.rs` (training)
//! and `kv_cache.rs` (decoding).

use std::ops::Range;

use ndarray::{Array1, ArrayView2, ArrayViewMut2, s};
use tensor_ops::Dropout;
use tensor_ops::engine::{
    Pooled, causal_softmax_from_log_sums, causal_softmax_rows, empty, matmul_into_serial,
    softmax_backward_row,
};
use torch_rng::KeepMask;

/// Queries per block.
const BLOCK: usize = 64;

/// One head of one sequence: the queries of its new tokens, the keys and values of all its tokens.
pub(crate) struct Head<'a> {
    /// Tokens before the first query's.
    pub(crate) past: usize,
    /// (new, head_dim)
    pub(crate) queries: ArrayView2<'a, f32>,
    /// (past + new, head_dim)
    pub(crate) keys: ArrayView2<'a, f32>,
    /// (past + new, head_dim)
    pub(crate) values: ArrayView2<'a, f32>,
}

/// The gradients of a head's queries, keys and values, which its backward pass writes.
pub(crate) struct HeadGradients<'a> {
    /// (new, head_dim)
    pub(crate) queries: ArrayViewMut2<'a, f32>,
    /// (new, head_dim)
    pub(crate) keys: ArrayViewMut2<'a, f32>,
    /// (new, head_dim)
    pub(crate) values: ArrayViewMut2<'a, f32>,
}

/// The dropout of a head's attention weights (num_tokens, num_tokens), which are never stored as a
/// whole.
pub(crate) struct HeadDropout<'a> {
    pub(crate) dropout: Dropout,
    /// The mask of all heads' weights, one head after the other.
    pub(crate) mask: &'a KeepMask,
    /// Which of the heads this is.
    pub(crate) head: usize,
    pub(crate) num_tokens: usize,
}

impl Head<'_> {
    /// Writes the context vectors (new, head_dim), and the logarithm of each query's sum of
    /// exponentials to `log_sums` (new).
    pub(crate) fn forward(
        &self,
        dropout: Option<&HeadDropout>,
        log_sums: &mut [f32],
        mut context: ArrayViewMut2<f32>,
    ) {
        let largest = BLOCK.min(self.queries.nrows()) * self.keys.nrows();
        let mut scores = Pooled::from(empty(largest));
        for rows in self.blocks() {
            let block = self.block(&rows);
            let mut p = matrix(&mut scores, rows.len(), block.keys.nrows()); // (block, visible)
            matmul_into_serial(&block.queries, &block.keys.t(), 0.0, p.view_mut());
            causal_softmax_rows(
                p.view_mut(),
                self.scale(),
                block.past,
                &mut log_sums[rows.clone()],
            );
            if let Some(dropout) = dropout {
                dropout.apply(rows.start, p.view_mut());
            }
            let context = context.slice_mut(s![rows, ..]);
            matmul_into_serial(&p, &block.values, 0.0, context); // (block, head_dim)
        }
    }

    /// Writes the gradients, computed from the gradient of the context vectors (new, head_dim);
    /// there is no past.
    pub(crate) fn backward(
        &self,
        dropout: Option<&HeadDropout>,
        log_sums: &[f32],
        d_context: ArrayView2<f32>,
        grads: &mut HeadGradients,
    ) {
        let largest = BLOCK.min(self.queries.nrows()) * self.keys.nrows();
        let [mut scores, mut dropped, mut d_scores] = [0; 3].map(|_| Pooled::from(empty(largest)));
        // From the last block, which sees all keys, so that theirs and the values' gradients need
        // not be zero before.
        let mut beta = 0.0;
        for rows in self.blocks().rev() {
            let Head {
                past,
                queries,
                keys,
                values,
            } = self.block(&rows);
            let (visible, log_sums) = (s![..keys.nrows(), ..], &log_sums[rows.clone()]);
            let d_context = d_context.slice(s![rows.clone(), ..]);
            let block = |buffer| matrix(buffer, queries.nrows(), keys.nrows()); // (block, visible)
            // p = softmax(scale q k^T), found again
            let mut p = block(&mut scores);
            matmul_into_serial(&queries, &keys.t(), 0.0, p.view_mut());
            causal_softmax_from_log_sums(p.view_mut(), self.scale(), past, log_sums);
            let mut kept = block(&mut dropped);
            kept.assign(&p);
            let mut d_p = block(&mut d_scores);
            // context = drop(p) v
            matmul_into_serial(&d_context, &values.t(), 0.0, d_p.view_mut());
            if let Some(dropout) = dropout {
                dropout.apply(rows.start, kept.view_mut());
                dropout.apply(rows.start, d_p.view_mut());
            }
            let d_values = grads.values.slice_mut(visible);
            matmul_into_serial(&kept.t(), &d_context, beta, d_values);
            // p = softmax(scale s)
            for (p, mut d_p) in p.rows().into_iter().zip(d_p.rows_mut()) {
                let d_p = d_p.as_slice_mut().expect("rows of a block are contiguous");
                softmax_backward_row(p.to_slice().expect("contiguous"), d_p, self.scale());
            }
            // s = q k^T
            let d_queries = grads.queries.slice_mut(s![rows, ..]);
            matmul_into_serial(&d_p, &keys, 0.0, d_queries);
            matmul_into_serial(&d_p.t(), &queries, beta, grads.keys.slice_mut(visible));
            beta = 1.0;
        }
    }

    /// The queries of each block.
    fn blocks(&self) -> impl DoubleEndedIterator<Item = Range<usize>> + use<> {
        let new = self.queries.nrows();
        (0..new)
            .step_by(BLOCK)
            .map(move |first| first..(first + BLOCK).min(new))
    }

    /// Some of the queries, with the keys and values that the last of them may see.
    fn block(&self, rows: &Range<usize>) -> Head<'_> {
        let visible = s![..self.past + rows.end, ..];
        Head {
            past: self.past + rows.start,
            queries: self.queries.slice(s![rows.clone(), ..]),
            keys: self.keys.slice(visible),
            values: self.values.slice(visible),
        }
    }

    /// `1 / sqrt(head_dim)`
    fn scale(&self) -> f32 {
        1.0 / (self.queries.ncols() as f32).sqrt()
    }
}

impl HeadDropout<'_> {
    /// Drops and scales the weights (or their gradients) of the queries from `first` on, in place.
    fn apply(&self, first: usize, mut p: ArrayViewMut2<f32>) {
        for (i, mut row) in p.rows_mut().into_iter().enumerate() {
            let at = (self.head * self.num_tokens + first + i) * self.num_tokens;
            let row = row.as_slice_mut().expect("rows of a block are contiguous");
            self.dropout.apply(self.mask, at, row);
        }
    }
}

/// The beginning of a buffer as a matrix, to be written before it is read.
fn matrix(buffer: &mut Array1<f32>, rows: usize, columns: usize) -> ArrayViewMut2<'_, f32> {
    let beginning = buffer.slice_mut(s![..rows * columns]);
    let matrix = beginning.into_shape_with_order((rows, columns));
    matrix.expect("rows * columns elements")
}
