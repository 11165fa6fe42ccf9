//! The forward pass over the new tokens of several texts, each against its own cache.
//!
//! It does the operations of `GptModel::forward` in the same order. The rows of all texts stand one
//! below the other, so that a product reads the weights once for all of them; only attention treats
//! each text separately.

use attention::KvCache;
use ndarray::{Array1, ArrayViewMut2, Axis, Ix2, s};
use tensor_ops::engine::{Pooled, awake, empty, for_each};

use crate::layers::BlockRef;
use crate::weights::WeightsRef;

/// New tokens of a text. Windows and the range of token IDs are the caller's concern.
pub(crate) struct Sequence<'s> {
    pub(crate) tokens: &'s [u32],
    /// One cache per block. The first new token has the position that the cache has reached.
    pub(crate) caches: &'s mut [KvCache],
    /// Receives the logits (vocab_size) of the last token; `None` if nobody needs them.
    pub(crate) logits: Option<&'s mut Array1<f32>>,
}

/// (rows, features)
type Rows = Pooled<Ix2>;

/// Runs the new tokens of all sequences, none of which is empty, through the model.
pub(crate) fn take_in(weights: WeightsRef<'_>, sequences: &mut [Sequence<'_>]) {
    // Inside the pool from here on: entering it once is much cheaper than once per matrix.
    awake(|| {
        let config = weights.config();
        let mut x = embed(weights, sequences, config.emb_dim);
        for i in 0..config.n_layers {
            let block = weights.block(i);
            let mut context = attend(&block, i, sequences, &x);
            if i + 1 == config.n_layers {
                // After the last attention, only the rows that give logits are needed.
                x = last_rows(sequences, &x);
                context = last_rows(sequences, &context);
            }
            finish(&block, config.feed_forward_dim(), &mut x, &context);
        }
        logits(weights, sequences, &x, config.vocab_size);
    });
}

/// Memory for rows that are written before they are read.
fn rows(rows: usize, features: usize) -> Rows {
    empty((rows, features)).into()
}

/// (rows, emb_dim)
fn embed(weights: WeightsRef<'_>, sequences: &[Sequence<'_>], emb_dim: usize) -> Rows {
    let mut x = rows(sequences.iter().map(|of| of.tokens.len()).sum(), emb_dim);
    let mut rows = x.rows_mut().into_iter();
    for sequence in sequences {
        let past = sequence.caches[0].len();
        for ((position, &id), row) in (past..).zip(sequence.tokens).zip(&mut rows) {
            weights.embed(id, position, row);
        }
    }
    x
}

/// The first half of a block without its last projection: `att(norm1(x))` (rows, emb_dim).
fn attend(block: &BlockRef<'_>, i: usize, sequences: &mut [Sequence<'_>], x: &Rows) -> Rows {
    let (n, emb_dim) = x.dim();
    let normed = Pooled::from(block.norm1.forward(&**x));
    let mut qkv = rows(n, 3 * emb_dim);
    let width = 3 * emb_dim / block.qkv.len();
    let parts = qkv.axis_chunks_iter_mut(Axis(1), width);
    for (projection, out) in block.qkv.iter().zip(parts) {
        projection.forward(&normed, out);
    }
    let [queries, keys, values] = [0, 1, 2].map(|part| {
        let columns = part * emb_dim..(part + 1) * emb_dim;
        qkv.slice(s![.., columns])
    });
    let mut context = rows(n, emb_dim);
    let mut first = 0;
    for sequence in sequences {
        let own = s![first..first + sequence.tokens.len(), ..];
        let [queries, keys, values] = [&queries, &keys, &values].map(|rows| rows.slice(own));
        let context = context.slice_mut(own);
        sequence.caches[i].attend(&queries, &keys, &values, context);
        first += sequence.tokens.len();
    }
    context
}

/// The last row of each sequence that gives logits.
fn last_rows(sequences: &[Sequence<'_>], all: &Rows) -> Rows {
    let mut end = 0;
    let ends = sequences.iter().map(|sequence| {
        end += sequence.tokens.len();
        (end, &sequence.logits)
    });
    let ends = ends.filter(|(_, logits)| logits.is_some());
    let last: Vec<usize> = ends.map(|(end, _)| end - 1).collect();
    let mut chosen = rows(last.len(), all.ncols());
    for (mut to, row) in chosen.rows_mut().into_iter().zip(last) {
        to.assign(&all.row(row));
    }
    chosen
}

/// The second half of a block: `x += out_proj(context)`, then `x += ff(norm2(x))`.
fn finish(block: &BlockRef<'_>, hidden_dim: usize, x: &mut Rows, context: &Rows) {
    let (n, emb_dim) = x.dim();
    let mut branch = rows(n, emb_dim);
    block.out_proj.forward(context, branch.view_mut());
    **x += &*branch;

    let normed = Pooled::from(block.norm2.forward(&**x));
    let mut hidden = rows(n, hidden_dim);
    block.expand.forward(&normed, hidden.view_mut()); // (rows, hidden_dim)
    let activated = Pooled::from(block.activation.forward(&*hidden));
    block.contract.forward(&activated, branch.view_mut());
    **x += &*branch;
}

/// Writes the logits of the rows `x` (rows, emb_dim), one for each sequence that wants them.
fn logits(weights: WeightsRef<'_>, sequences: &mut [Sequence<'_>], x: &Rows, vocab_size: usize) {
    let wanted = sequences.iter_mut().filter_map(|of| of.logits.as_mut());
    let mut wanted: Vec<ArrayViewMut2<f32>> = wanted
        .map(|logits| logits.view_mut().insert_axis(Axis(0)))
        .collect();
    if let [logits] = &mut wanted[..] {
        return weights.logits(x, logits.view_mut());
    }
    let mut all = rows(x.nrows(), vocab_size);
    weights.logits(x, all.view_mut());
    let rows = all.axis_chunks_iter(Axis(0), 1);
    for_each(
        wanted.into_iter().zip(rows).collect(),
        |(mut logits, row)| {
            logits.assign(&row);
        },
    );
}
