//! The forward pass over the new tokens of several sequences, each with its own KV cache.
//!
//! The operations and their order are the same as in `GptModel::forward`. The rows of all sequences
//! are stacked in a single matrix, so that each matrix product reads the weights only once. For
//! example, three new tokens of one sequence and a single new token of another sequence form a
//! matrix with four rows. Attention is the only operation that treats each sequence separately.

use attention::KvCache;
use ndarray::{ArrayViewMut2, Axis, Ix2, s};
use tensor_ops::engine::{Pooled, awake, empty, for_each};

use crate::layers::BlockRef;
use crate::weights::WeightsRef;

/// The new tokens of a sequence, together with the KV caches and the logits that the forward pass
/// updates.
///
/// The tokens must be in the model's vocabulary, and they must fit in the context. The forward pass
/// doesn't check either condition.
pub(crate) struct Sequence<'s> {
    pub(crate) tokens: &'s [u32],
    /// Position of the first new token in the context, which equals the number of tokens that are
    /// already in the caches.
    pub(crate) past: usize,
    /// KV caches, one for each block.
    pub(crate) caches: &'s mut [KvCache],
    /// Array of shape (n, vocab_size) to which the forward pass writes the logits that follow each
    /// of the last `n` new tokens of this sequence. `None` if no logits are needed, for example
    /// because the rest of a prompt is still to be processed.
    pub(crate) logits: Option<ArrayViewMut2<'s, f32>>,
}

/// A matrix of shape (rows, features) that contains one row for each new token of each sequence.
type Rows = Pooled<Ix2>;

/// A function that can read and change the residual stream before the first block and after each
/// block. Its arguments are the index of a sequence, the number of blocks that have already
/// processed the new tokens of this sequence, and the residual stream of these tokens, of shape
/// (new tokens, emb_dim).
pub(crate) type Hook<'h> = dyn FnMut(usize, usize, ArrayViewMut2<f32>) + Send + 'h;

/// Runs the new tokens of all sequences through the model, appends their keys and values to the KV
/// caches, and writes the requested logits. Each sequence must have at least one new token.
pub(crate) fn take_in(
    weights: WeightsRef<'_>,
    sequences: &mut [Sequence<'_>],
    mut hook: Option<&mut Hook<'_>>,
) {
    // The whole forward pass runs inside the thread pool, because entering the pool is expensive.
    // This way, the pool is entered only once instead of once for each matrix product.
    awake(|| {
        let config = weights.config();
        let mut x = embed(weights, sequences, config.emb_dim);
        show(&mut hook, 0, sequences, &mut x);
        for i in 0..config.n_layers {
            let block = weights.block(i);
            let mut context = attend(&block, i, sequences, &x);
            if i + 1 == config.n_layers && hook.is_none() {
                // After the attention of the last block, the tokens no longer affect each other.
                // Therefore, compute the rest of the model only for those tokens whose logits were
                // requested.
                context = last_rows(sequences, &context);
                x = last_rows(sequences, &x);
                if x.is_empty() {
                    return; // No sequence needs logits, because all of them are incomplete prompts.
                }
            }
            finish(&block, config.feed_forward_dim(), &mut x, &context);
            show(&mut hook, i + 1, sequences, &mut x);
        }
        if hook.is_some() || config.n_layers == 0 {
            x = last_rows(sequences, &x);
        }
        logits(weights, sequences, &x, config.vocab_size);
    });
}

/// Calls `hook` for each sequence and passes the rows of `x` that belong to this sequence. Does
/// nothing if `hook` is `None`.
fn show(hook: &mut Option<&mut Hook<'_>>, blocks: usize, sequences: &[Sequence<'_>], x: &mut Rows) {
    let Some(hook) = hook else { return };
    let mut rest = x.view_mut();
    for (i, sequence) in sequences.iter().enumerate() {
        let (own, others) = rest.split_at(Axis(0), sequence.tokens.len());
        hook(i, blocks, own);
        rest = others;
    }
}

/// Allocates a matrix of shape (rows, features) without initializing its elements to 0. The caller
/// must write each element before reading it.
fn rows(rows: usize, features: usize) -> Rows {
    empty((rows, features)).into()
}

/// Returns the embeddings of all new tokens, of shape (rows, emb_dim). Each row is the sum of a
/// token embedding and a position embedding.
fn embed(weights: WeightsRef<'_>, sequences: &[Sequence<'_>], emb_dim: usize) -> Rows {
    let mut x = rows(sequences.iter().map(|of| of.tokens.len()).sum(), emb_dim);
    let mut rows = x.rows_mut().into_iter();
    for sequence in sequences {
        for ((position, &id), row) in (sequence.past..).zip(sequence.tokens).zip(&mut rows) {
            weights.embed(id, position, row);
        }
    }
    x
}

/// Applies the first layer normalization and the attention of block `i`, without the output
/// projection. Appends the new keys and values to the KV caches, and returns the context vectors,
/// of shape (rows, emb_dim).
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
    let caches = sequences.iter_mut();
    let caches = caches.map(|of| (&mut of.caches[i], of.tokens.len()));
    KvCache::attend_each(caches, [&queries, &keys, &values], context.view_mut());
    context
}

/// Returns a smaller matrix that contains only those rows of `all` from which logits are computed.
/// These are the rows of the last new tokens of each sequence whose logits were requested.
fn last_rows(sequences: &[Sequence<'_>], all: &Rows) -> Rows {
    let (mut end, mut last) = (0, Vec::new());
    for sequence in sequences {
        end += sequence.tokens.len();
        if let Some(logits) = &sequence.logits {
            last.extend(end - logits.nrows()..end);
        }
    }
    let mut chosen = rows(last.len(), all.ncols());
    for (mut to, row) in chosen.rows_mut().into_iter().zip(last) {
        to.assign(&all.row(row));
    }
    chosen
}

/// Computes the part of a block that follows the attention: first `x += out_proj(context)`, then `x
/// += ff(norm2(x))`.
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

/// Computes one row of logits from each row of `x` and writes the rows to the sequences that have
/// requested logits. `x` has the shape (rows, emb_dim). Its rows are in the same order as the
/// requested rows of logits.
fn logits(weights: WeightsRef<'_>, sequences: &mut [Sequence<'_>], x: &Rows, vocab_size: usize) {
    let wanted = sequences.iter_mut().filter_map(|of| of.logits.as_mut());
    let mut wanted: Vec<&mut ArrayViewMut2<f32>> = wanted.collect();
    if let [logits] = &mut wanted[..] {
        return weights.logits(x, logits.view_mut());
    }
    let mut all = rows(x.nrows(), vocab_size);
    weights.logits(x, all.view_mut());
    let mut rest = all.view();
    let tasks = wanted.into_iter().map(|logits| {
        let (own, others) = rest.split_at(Axis(0), logits.nrows());
        rest = others;
        (logits, own)
    });
    for_each(tasks.collect(), |(logits, own)| logits.assign(&own));
}
