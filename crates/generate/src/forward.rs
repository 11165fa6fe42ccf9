//! The model's forward pass over new tokens alone, against caches, in buffers that are kept from
//! call to call.
//!
//! The same operations as `GptModel::forward` in the same order; only where numbers are kept
//! differs.

use attention::{KvCache, KvCacheSize};
use gpt::{GptModel, TransformerBlock};
use ndarray::{Array2, ArrayViewMut2, Axis, s};
use tensor_ops::LayerNorm;

use crate::precision::{BlockWeights, DecoderWeights};

/// Weights, caches and buffers; it knows nothing of windows or of what tokens were.
#[derive(Clone, Debug)]
pub(crate) struct Forward<'m> {
    pub(crate) weights: DecoderWeights<'m>,
    blocks: &'m [TransformerBlock],
    final_norm: &'m LayerNorm,
    /// One a block.
    pub(crate) caches: Vec<KvCache>,
    num_heads: usize,
    capacity: usize,
    buffers: Buffers,
}

/// Room for the rows of a call; they grow to the largest call so far.
#[derive(Clone, Debug, Default)]
struct Buffers {
    /// (rows, emb_dim): between blocks
    x: Array2<f32>,
    /// (rows, 3 emb_dim): queries, keys and values, side by side
    qkv: Array2<f32>,
    /// (rows, emb_dim): the heads' outputs, side by side
    context: Array2<f32>,
    /// (rows, emb_dim): what a branch adds to its shortcut
    branch: Array2<f32>,
    /// (rows, hidden_dim)
    hidden: Array2<f32>,
}

impl<'m> Forward<'m> {
    pub(crate) fn new(model: &'m GptModel, weights: DecoderWeights<'m>, capacity: usize) -> Self {
        Self {
            weights,
            blocks: &model.trf_blocks,
            final_norm: &model.final_norm,
            caches: Vec::new(),
            num_heads: model.config().n_heads,
            capacity,
            buffers: Buffers::default(),
        }
    }

    /// Empty caches for this many sequences.
    pub(crate) fn clear(&mut self, batch: usize) {
        if self.caches.first().map(KvCache::batch) == Some(batch) {
            (0..batch).for_each(|row| self.forget(row));
            return;
        }
        let size = KvCacheSize {
            batch,
            num_heads: self.num_heads,
            head_dim: self.final_norm.scale.len() / self.num_heads,
            capacity: self.capacity,
        };
        self.caches = self.blocks.iter().map(|_| KvCache::new(size)).collect();
    }

    /// Empties the cache of one sequence.
    pub(crate) fn forget(&mut self, row: usize) {
        for cache in &mut self.caches {
            cache.truncate(row, 0);
        }
    }

    /// How many tokens of a sequence the caches hold.
    pub(crate) fn cached(&self, row: usize) -> usize {
        self.caches.first().map_or(0, |cache| cache.len(row))
    }

    /// Runs the new tokens of each sequence through the blocks; each sequence's first has the
    /// position that its cache has reached.
    pub(crate) fn take_in(&mut self, model: &GptModel, tokens: &[&[u32]]) {
        let new: Vec<usize> = tokens.iter().map(|tokens| tokens.len()).collect();
        let mut rows = new.iter().sum();
        self.buffers.make_room(rows, model);
        let mut row = 0;
        for (sequence, tokens) in tokens.iter().enumerate() {
            let past = self.cached(sequence);
            for (i, &id) in tokens.iter().enumerate() {
                let mut x = self.buffers.x.row_mut(row);
                x.assign(&model.tok_emb.weight.row(id as usize));
                x += &model.pos_emb.weight.row(past + i);
                row += 1;
            }
        }
        let blocks = self.blocks.iter().zip(&self.weights.blocks);
        for (place, ((block, weights), cache)) in blocks.zip(&mut self.caches).enumerate() {
            self.buffers.attend(block, weights, cache, &new, rows);
            if place + 1 == self.blocks.len() {
                rows = self.buffers.keep_last(&new);
            }
            self.buffers.finish(block, weights, rows);
        }
    }

    /// The logits of the last new token of each sequence that [`Self::take_in`] was given, into the
    /// rows of the sequences that have one.
    pub(crate) fn last_logits(&self, new: &[usize], mut logits: ArrayViewMut2<f32>) {
        let sequences = (0..new.len()).filter(|&sequence| new[sequence] > 0);
        let sequences: Vec<usize> = sequences.collect();
        let x = self.buffers.x.slice(s![..sequences.len(), ..]);
        let normed = self.final_norm.forward(&x);
        if sequences.len() == logits.nrows() {
            return self.weights.head.forward(&normed, logits);
        }
        let mut out = Array2::zeros((sequences.len(), logits.ncols()));
        self.weights.head.forward(&normed, out.view_mut());
        for (&sequence, out) in sequences.iter().zip(out.rows()) {
            logits.row_mut(sequence).assign(&out);
        }
    }
}

impl Buffers {
    fn make_room(&mut self, rows: usize, model: &GptModel) {
        if self.x.nrows() >= rows {
            return;
        }
        let emb_dim = model.config().emb_dim;
        let hidden_dim = model.trf_blocks.first();
        let hidden_dim = hidden_dim.map_or(0, |block| block.ff.expand.out_features());
        let room = |width| Array2::zeros((rows, width));
        *self = Self {
            x: room(emb_dim),
            qkv: room(3 * emb_dim),
            context: room(emb_dim),
            branch: room(emb_dim),
            hidden: room(hidden_dim),
        };
    }

    /// The first half of a block, `att(norm1(x))` without its projection, of the first `rows` rows.
    fn attend(
        &mut self,
        block: &TransformerBlock,
        weights: &BlockWeights,
        cache: &mut KvCache,
        new: &[usize],
        rows: usize,
    ) {
        let used = s![..rows, ..];
        let (x, mut qkv) = (self.x.slice(used), self.qkv.slice_mut(used));
        let normed = block.norm1.forward(&x);
        weights.qkv.forward(&normed, qkv.view_mut());
        let (queries, rest) = qkv.view().split_at(Axis(1), x.ncols());
        let (keys, values) = rest.split_at(Axis(1), x.ncols());
        cache.attend(new, &queries, &keys, &values, self.context.slice_mut(used));
    }

    /// The rows of the last new token of each sequence, moved to the front: how many they are.
    ///
    /// In the last block no other row is looked at any more.
    fn keep_last(&mut self, new: &[usize]) -> usize {
        let (mut kept, mut end) = (0, 0);
        for &new in new.iter().filter(|&&new| new > 0) {
            end += new;
            for rows in [&mut self.x, &mut self.context] {
                let last = rows.row(end - 1).to_owned();
                rows.row_mut(kept).assign(&last);
            }
            kept += 1;
        }
        kept
    }

    /// The second half, `x += out_proj(context)`, then `x += ff(norm2(x))`.
    fn finish(&mut self, block: &TransformerBlock, weights: &BlockWeights, rows: usize) {
        let used = s![..rows, ..];
        let mut x = self.x.slice_mut(used);
        let mut branch = self.branch.slice_mut(used);
        let mut hidden = self.hidden.slice_mut(used);

        weights
            .out_proj
            .forward(&self.context.slice(used), branch.view_mut());
        x += &branch;

        let normed = block.norm2.forward(&x);
        weights.expand.forward(&normed, hidden.view_mut()); // (rows, hidden_dim)
        let activated = block.ff.activation.forward(&hidden);
        weights.contract.forward(&activated, branch.view_mut());
        x += &branch;
    }
}
