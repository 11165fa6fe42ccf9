//! Causal attention for a single head, `softmax(Q K^T / sqrt(head_dim)) V`, with its backward pass.
//! To save memory, the queries are processed in blocks.
//!
//! # Blocks of queries
//!
//! The attention scores of a sequence form a matrix with one row for each query and one column for
//! each key. The causal mask hides almost half of these scores. The functions in this module never
//! store the whole matrix. Instead, they process blocks of 64 queries, and compute the scores of a
//! block only for the keys that at least one of its queries may attend to. For example, a sequence
//! of 150 tokens is divided into three blocks:
//!
//! | queries | keys | matrix of scores |
//! |---|---|---|
//! | 0 to 63 | 0 to 63 | 64 x 64 |
//! | 64 to 127 | 0 to 127 | 64 x 128 |
//! | 128 to 149 | 0 to 149 | 22 x 150 |
//!
//! The causal mask also hides some scores in the matrix of a block, because an early query of the
//! block may not attend to the keys of later tokens in the same block. Softmax assigns a weight of
//! 0 to these scores. They are all in the last columns of the matrix.
//!
//! # The backward pass
//!
//! The attention weights would need a lot of memory, so, as in FlashAttention, they aren't stored
//! for the backward pass. Instead, the forward pass stores a single number for each query, which is
//! called its log-sum-exp: the logarithm of the sum of the exponentials of the query's scaled
//! scores. The backward pass computes the scores again and obtains each attention weight as
//! `exp(scale * score - log_sum)`.
//!
//! Unlike in FlashAttention, the keys aren't divided into blocks. All scores of a query are
//! therefore available at the same time, so the query's softmax can be computed in a single step.
//!
//! # Threads
//!
//! All functions in this module run on the calling thread. The callers distribute the heads among
//! threads: `blockwise.rs` for forward and backward passes over whole sequences, and `kv_cache.rs`
//! for decoding.

use std::ops::Range;

use ndarray::{Array1, ArrayView2, ArrayViewMut2, s};
use tensor_ops::Dropout;
use tensor_ops::engine::{
    Pooled, causal_softmax_from_log_sums, causal_softmax_rows, empty, matmul_into_serial,
    softmax_backward_row,
};
use torch_rng::KeepMask;

/// Number of queries in a block.
const BLOCK: usize = 64;

/// The queries, keys and values of one head of one sequence.
///
/// While text is generated, only the last tokens of the sequence are new, and only the new tokens
/// have queries. The tokens before them are called past tokens. Their keys and values come from a
/// KV cache. Query `i` is the query of token `past + i`, so it attends to the keys of the tokens
/// from 0 to `past + i`.
pub(crate) struct Head<'a> {
    /// Number of past tokens, which have keys and values but no queries. It is 0 when a whole
    /// sequence is processed at once, as in training.
    pub(crate) past: usize,
    /// Queries of the new tokens, with the shape `(new, head_dim)`.
    pub(crate) queries: ArrayView2<'a, f32>,
    /// Keys of all tokens, with the shape `(past + new, head_dim)`.
    pub(crate) keys: ArrayView2<'a, f32>,
    /// Values of all tokens, with the shape `(past + new, head_dim)`.
    pub(crate) values: ArrayView2<'a, f32>,
}

/// Mutable views of the arrays to which the backward pass writes the gradients of the queries, keys
/// and values of one head.
pub(crate) struct HeadGradients<'a> {
    /// Gradient of the queries, with the shape `(num_tokens, head_dim)`.
    pub(crate) queries: ArrayViewMut2<'a, f32>,
    /// Gradient of the keys, with the shape `(num_tokens, head_dim)`.
    pub(crate) keys: ArrayViewMut2<'a, f32>,
    /// Gradient of the values, with the shape `(num_tokens, head_dim)`.
    pub(crate) values: ArrayViewMut2<'a, f32>,
}

/// Dropout for the attention weights of one head. The weights form a matrix of shape
/// `(num_tokens, num_tokens)`, but only one block of rows of this matrix is in memory at a time.
pub(crate) struct HeadDropout<'a> {
    pub(crate) dropout: Dropout,
    /// Dropout mask for the attention weights of all heads in the batch. Its elements are in the
    /// row-major order of an array of shape `(batch, num_heads, num_tokens, num_tokens)`.
    pub(crate) mask: &'a KeepMask,
    /// Index of this head among the `batch * num_heads` heads.
    pub(crate) head: usize,
    pub(crate) num_tokens: usize,
}

impl Head<'_> {
    /// Computes the context vectors of the new tokens and writes them to `context`, which has the
    /// shape `(new, head_dim)`.
    ///
    /// Also writes the log-sum-exp of each query's scaled scores to `log_sums`, which must have
    /// `new` elements.
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
            // `p` is the matrix of a block of queries. It has one row for each query in the block
            // and one column for each key that these queries may attend to. It first contains the
            // attention scores, which softmax then replaces with the attention weights.
            let mut p = matrix(&mut scores, rows.len(), block.keys.nrows());
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
            matmul_into_serial(&p, &block.values, 0.0, context);
        }
    }

    /// Computes the gradients of the queries, keys and values, and overwrites the contents of
    /// `grads` with them. `d_context` is the gradient of the context vectors, with the shape
    /// `(num_tokens, head_dim)`.
    ///
    /// `log_sums` must contain the values that [`forward`](Self::forward) wrote to it, and
    /// [`past`](Self::past) must be 0.
    pub(crate) fn backward(
        &self,
        dropout: Option<&HeadDropout>,
        log_sums: &[f32],
        d_context: ArrayView2<f32>,
        grads: &mut HeadGradients,
    ) {
        let largest = BLOCK.min(self.queries.nrows()) * self.keys.nrows();
        let [mut scores, mut dropped, mut d_scores] = [0; 3].map(|_| Pooled::from(empty(largest)));
        // The gradients of the keys and values are sums over all blocks of queries. The blocks are
        // processed in reverse order because only the last block needs all keys. The matrix
        // products for the last block overwrite the previous contents of the gradients (`beta` is
        // 0), and the products for the other blocks are added to them (`beta` is 1). Therefore, the
        // gradients don't have to be set to 0 first.
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
            // The attention weights, `p = softmax(scale * queries @ keys.T)`, are computed again.
            // Like all matrices of a block, `p` has one row for each query in the block and one
            // column for each key that the block's queries may attend to.
            let block = |buffer| matrix(buffer, queries.nrows(), keys.nrows());
            let mut p = block(&mut scores);
            matmul_into_serial(&queries, &keys.t(), 0.0, p.view_mut());
            causal_softmax_from_log_sums(p.view_mut(), self.scale(), past, log_sums);
            let mut kept = block(&mut dropped);
            kept.assign(&p);
            let mut d_p = block(&mut d_scores);
            // Backpropagate through `context = dropout(p) @ values`.
            matmul_into_serial(&d_context, &values.t(), 0.0, d_p.view_mut());
            if let Some(dropout) = dropout {
                dropout.apply(rows.start, kept.view_mut());
                dropout.apply(rows.start, d_p.view_mut());
            }
            let d_values = grads.values.slice_mut(visible);
            matmul_into_serial(&kept.t(), &d_context, beta, d_values);
            // Backpropagate through `p = softmax(scale * scores)`. The gradient of the scores
            // overwrites `d_p`.
            for (p, mut d_p) in p.rows().into_iter().zip(d_p.rows_mut()) {
                let d_p = d_p.as_slice_mut().expect("rows of a block are contiguous");
                softmax_backward_row(p.to_slice().expect("contiguous"), d_p, self.scale());
            }
            // Backpropagate through `scores = queries @ keys.T`.
            let d_queries = grads.queries.slice_mut(s![rows, ..]);
            matmul_into_serial(&d_p, &keys, 0.0, d_queries);
            matmul_into_serial(&d_p.t(), &queries, beta, grads.keys.slice_mut(visible));
            beta = 1.0;
        }
    }

    /// Divides the queries into blocks and returns, for each block, the range of the indices of its
    /// queries. The ranges are in ascending order.
    fn blocks(&self) -> impl DoubleEndedIterator<Item = Range<usize>> + use<> {
        let new = self.queries.nrows();
        (0..new)
            .step_by(BLOCK)
            .map(move |first| first..(first + BLOCK).min(new))
    }

    /// Returns a view of the rows of this head that are needed to process one block of queries: the
    /// queries with the indices `rows`, and the keys and values that the last of these queries may
    /// attend to.
    fn block(&self, rows: &Range<usize>) -> Head<'_> {
        let visible = s![..self.past + rows.end, ..];
        Head {
            past: self.past + rows.start,
            queries: self.queries.slice(s![rows.clone(), ..]),
            keys: self.keys.slice(visible),
            values: self.values.slice(visible),
        }
    }

    /// Returns the factor by which the scores are multiplied, `1 / sqrt(head_dim)`.
    fn scale(&self) -> f32 {
        1.0 / (self.queries.ncols() as f32).sqrt()
    }
}

impl HeadDropout<'_> {
    /// Applies dropout to a block of attention weights, or to a block of their gradients. Dropped
    /// elements become 0, and all other elements are multiplied by `1 / (1 - p)`. `first` is the
    /// index of the query to which the first row of the block corresponds.
    fn apply(&self, first: usize, mut p: ArrayViewMut2<f32>) {
        for (i, mut row) in p.rows_mut().into_iter().enumerate() {
            let at = (self.head * self.num_tokens + first + i) * self.num_tokens;
            let row = row.as_slice_mut().expect("rows of a block are contiguous");
            self.dropout.apply(self.mask, at, row);
        }
    }
}

/// Returns a view of the first `rows * columns` elements of a buffer as a matrix. The elements have
/// arbitrary values, so the caller must write to them before reading them.
fn matrix(buffer: &mut Array1<f32>, rows: usize, columns: usize) -> ArrayViewMut2<'_, f32> {
    let beginning = buffer.slice_mut(s![..rows * columns]);
    let matrix = beginning.into_shape_with_order((rows, columns));
    matrix.expect("rows * columns elements")
}
