//! The model's forward pass over new tokens alone, against caches, in buffers that are kept from
//! call to call.
//!
//! The same operations as `GptModel::forward` in the same order; only where numbers are kept
//! differs.

use attention::{KvCache, KvCacheSize};
use gpt::GptConfig;
use ndarray::{Array2, ArrayViewMut1, Axis, s};

use crate::weights::{BlockWeights, DecoderWeights};

/// Weights, caches and buffers. Windows and token ids are the decoder's concern.
#[derive(Clone, Debug)]
pub(crate) struct Forward<'m> {
    pub(crate) weights: DecoderWeights<'m>,
    /// One a block.
    pub(crate) caches: Vec<KvCache>,
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
    /// (rows, emb_dim): a branch's output, added to its shortcut
    branch: Array2<f32>,
    /// (rows, hidden_dim)
    hidden: Array2<f32>,
}

impl<'m> Forward<'m> {
    /// Weights with empty caches of at most so many tokens.
    pub(crate) fn new(weights: DecoderWeights<'m>, capacity: usize) -> Self {
        let config = &weights.config;
        let size = KvCacheSize {
            num_heads: config.n_heads,
            head_dim: config.emb_dim / config.n_heads,
            capacity,
        };
        let blocks = weights.blocks.iter();
        Self {
            caches: blocks.map(|_| KvCache::new(size)).collect(),
            weights,
            buffers: Buffers::default(),
        }
    }

    /// Empties the caches.
    pub(crate) fn forget(&mut self) {
        self.caches.iter_mut().for_each(KvCache::clear);
    }

    /// The number of tokens that the caches hold.
    pub(crate) fn cached(&self) -> usize {
        self.caches.first().map_or(0, KvCache::len)
    }

    /// Runs new tokens through the blocks; the first has the position that the caches have reached.
    pub(crate) fn take_in(&mut self, tokens: &[u32]) {
        let (past, mut rows) = (self.cached(), tokens.len());
        self.buffers.make_room(rows, &self.weights.config);
        for (row, &id) in tokens.iter().enumerate() {
            let mut x = self.buffers.x.row_mut(row);
            self.weights.tok_emb.read_row(id as usize, x.view_mut());
            x += &self.weights.pos_emb.row(past + row);
        }
        let last = self.weights.blocks.len() - 1;
        let blocks = self.weights.blocks.iter().zip(&mut self.caches);
        for (place, (block, cache)) in blocks.enumerate() {
            self.buffers.attend(block, cache, rows);
            if place == last {
                self.buffers.keep_last(rows);
                rows = 1;
            }
            self.buffers.finish(block, rows);
        }
    }

    /// Writes the logits (vocab_size) of the last token that [`Self::take_in`] was given.
    pub(crate) fn last_logits(&self, logits: ArrayViewMut1<f32>) {
        let x = self.buffers.x.slice(s![..1, ..]);
        let normed = self.weights.final_norm.forward(&x);
        self.weights.logits(&normed, logits.insert_axis(Axis(0)));
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
    fn attend(&mut self, block: &BlockWeights, cache: &mut KvCache, rows: usize) {
        let used = s![..rows, ..];
        let (x, mut qkv) = (self.x.slice(used), self.qkv.slice_mut(used));
        let normed = block.norm1.forward(&x);
        block.qkv.forward(&normed, qkv.view_mut());
        let (queries, rest) = qkv.view().split_at(Axis(1), x.ncols());
        let (keys, values) = rest.split_at(Axis(1), x.ncols());
        cache.attend(&queries, &keys, &values, self.context.slice_mut(used));
    }

    /// Moves the last of so many rows to the front: in the last block no other is looked at any
    /// more.
    fn keep_last(&mut self, rows: usize) {
        for all in [&mut self.x, &mut self.context] {
            let last = all.row(rows - 1).to_owned();
            all.row_mut(0).assign(&last);
        }
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
