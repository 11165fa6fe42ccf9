//! The model's forward pass over new tokens alone, against caches, in buffers that are kept from
//! call to call.
//!
//! The same operations as `GptModel::forward` in the same order; only where numbers are kept
//! differs.

use attention::{KvCache, KvCacheSize};
use gpt::GptConfig;
use ndarray::{Array2, ArrayViewMut2, Axis, s};

use crate::weights::{BlockWeights, DecoderWeights};

/// Weights, caches and buffers; it knows nothing of windows or of what tokens were.
#[derive(Clone, Debug)]
pub(crate) struct Forward<'m> {
    pub(crate) weights: DecoderWeights<'m>,
    /// One a block.
    caches: Vec<KvCache>,
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
    pub(crate) fn new(weights: DecoderWeights<'m>, capacity: usize) -> Self {
        Self {
            weights,
            caches: Vec::new(),
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
        let config = &self.weights.config;
        let size = KvCacheSize {
            batch,
            num_heads: config.n_heads,
            head_dim: config.emb_dim / config.n_heads,
            capacity: self.capacity,
        };
        let blocks = self.weights.blocks.iter();
        self.caches = blocks.map(|_| KvCache::new(size)).collect();
    }

    /// Empties the cache of one sequence.
    pub(crate) fn forget(&mut self, row: usize) {
        for cache in &mut self.caches {
            cache.truncate(row, 0);
        }
    }

    /// The number of tokens of a sequence that the caches hold.
    pub(crate) fn cached(&self, row: usize) -> usize {
        self.caches.first().map_or(0, |cache| cache.len(row))
    }

    /// Runs the new tokens of each sequence through the blocks; each sequence's first has the
    /// position that its cache has reached.
    pub(crate) fn take_in(&mut self, tokens: &[&[u32]]) {
        let new: Vec<usize> = tokens.iter().map(|tokens| tokens.len()).collect();
        let mut rows = new.iter().sum();
        self.buffers.make_room(rows, &self.weights.config);
        let mut row = 0;
        for (sequence, tokens) in tokens.iter().enumerate() {
            let past = self.cached(sequence);
            for (i, &id) in tokens.iter().enumerate() {
                let mut x = self.buffers.x.row_mut(row);
                self.weights.tok_emb.read_row(id as usize, x.view_mut());
                x += &self.weights.pos_emb.row(past + i);
                row += 1;
            }
        }
        let last = self.weights.blocks.len() - 1;
        let blocks = self.weights.blocks.iter().zip(&mut self.caches);
        for (place, (block, cache)) in blocks.enumerate() {
            self.buffers.attend(block, cache, &new, rows);
            if place == last {
                rows = self.buffers.keep_last(&new);
            }
            self.buffers.finish(block, rows);
        }
    }

    /// The logits of the last new token of each sequence that [`Self::take_in`] was given, into the
    /// rows of the sequences that have one.
    pub(crate) fn last_logits(&self, new: &[usize], mut logits: ArrayViewMut2<f32>) {
        let sequences = (0..new.len()).filter(|&sequence| new[sequence] > 0);
        let sequences: Vec<usize> = sequences.collect();
        let x = self.buffers.x.slice(s![..sequences.len(), ..]);
        let normed = self.weights.final_norm.forward(&x);
        if sequences.len() == logits.nrows() {
            return self.weights.logits(&normed, logits);
        }
        let mut out = Array2::zeros((sequences.len(), logits.ncols()));
        self.weights.logits(&normed, out.view_mut());
        for (&sequence, out) in sequences.iter().zip(out.rows()) {
            logits.row_mut(sequence).assign(&out);
        }
    }
}

impl Buffers {
    fn make_room(&mut self, rows: usize, config: &GptConfig) {
        if self.x.nrows() >= rows {
            return;
        }
        let (emb_dim, hidden_dim) = (config.emb_dim, config.feed_forward_dim());
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
    fn attend(&mut self, block: &BlockWeights, cache: &mut KvCache, new: &[usize], rows: usize) {
        let used = s![..rows, ..];
        let (x, mut qkv) = (self.x.slice(used), self.qkv.slice_mut(used));
        let normed = block.norm1.forward(&x);
        block.qkv.forward(&normed, qkv.view_mut());
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
    fn finish(&mut self, block: &BlockWeights, rows: usize) {
        let used = s![..rows, ..];
        let mut x = self.x.slice_mut(used);
        let mut branch = self.branch.slice_mut(used);
        let mut hidden = self.hidden.slice_mut(used);

        let context = self.context.slice(used);
        block.out_proj.forward(&context, branch.view_mut());
        x += &branch;

        let normed = block.norm2.forward(&x);
        block.expand.forward(&normed, hidden.view_mut()); // (rows, hidden_dim)
        let activated = block.activation.forward(&hidden);
        block.contract.forward(&activated, branch.view_mut());
        x += &branch;
    }
}
