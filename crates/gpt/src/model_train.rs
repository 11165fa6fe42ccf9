//! The GPT model in training: forward with dropout, backward, and both at once, where the logits
//! are never all in memory.

use ndarray::{Array2, Array3, ArrayRef2, ArrayRef3, ArrayView2, ArrayViewMut2, Axis, Ix3, s};
use tensor_ops::engine::{Pooled, awake, empty};
use tensor_ops::{
    DropoutCache, LayerNormCache, counted_targets, cross_entropy_train, matmul_in, matmul_into_in,
};
use torch_rng::TorchRng;

use crate::model::{LOGIT_ROWS, counted, rows};
use crate::{GptConfig, GptError, GptModel, TransformerBlockCache};

/// Kept by [`GptModel::forward_train`] for [`GptModel::backward`].
#[derive(Clone, Debug)]
#[must_use]
pub struct GptCache {
    hidden: HiddenCache,
    /// (batch, num_tokens, emb_dim): the input of the head
    normed: Pooled<Ix3>,
}

/// Kept by [`GptModel::forward_hidden_train`] for [`GptModel::backward_hidden`].
#[derive(Clone, Debug)]
#[must_use]
pub struct HiddenCache {
    ids: Array2<u32>,
    drop_emb: DropoutCache,
    blocks: Vec<TransformerBlockCache>,
    final_norm: LayerNormCache,
}

impl GptModel {
    /// The training form of [`forward`](Self::forward): drops (embeddings, then block by block
    /// attention weights, attention shortcut, feed-forward shortcut), and keeps what
    /// [`backward`](Self::backward) needs.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_train(
        &self,
        in_idx: &ArrayRef2<u32>,
        rng: &mut TorchRng,
    ) -> Result<(Array3<f32>, GptCache), GptError> {
        let (normed, hidden) = self.forward_hidden_train(in_idx, rng)?;
        let normed = Pooled::from(normed);
        Ok((self.logits(&normed), GptCache { hidden, normed }))
    }

    /// The training form of [`forward_hidden`](Self::forward_hidden), for a head or a loss of your
    /// own: returns the hidden states (batch, num_tokens, emb_dim) and what
    /// [`backward_hidden`](Self::backward_hidden) needs. It drops as
    /// [`forward_train`](Self::forward_train) does.
    ///
    /// ```
    /// use gpt::tensor_ops::{Linear, cross_entropy_train};
    /// use gpt::{GptConfig, GptModel, torch_rng::TorchRng};
    /// use ndarray::{Array3, array, s};
    ///
    /// let cfg = GptConfig {
    ///     vocab_size: 50, context_length: 8, emb_dim: 8,
    ///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
    /// };
    /// let mut rng = TorchRng::manual_seed(123);
    /// let model = GptModel::new(cfg, &mut rng)?;
    /// let head = Linear::new(8, 2, true, &mut rng); // two classes
    /// let (mut grads, mut head_grads) = (GptModel::zeros(cfg)?, Linear::zeros(8, 2, true));
    ///
    /// // The last token of each text decides its class.
    /// let texts = array![[1, 2, 3], [4, 5, 6]];
    /// let (hidden, cache) = model.forward_hidden_train(&texts, &mut rng)?;
    /// let last = hidden.slice(s![.., -1, ..]); // (batch, emb_dim)
    /// let (loss, d_logits) = cross_entropy_train(head.forward(&last), &[0, 1], 1.0);
    /// let mut d_hidden = Array3::zeros(hidden.dim());
    /// let d_last = head.backward(&last, &d_logits, &mut head_grads);
    /// d_hidden.slice_mut(s![.., -1, ..]).assign(&d_last);
    /// model.backward_hidden(cache, &d_hidden, &mut grads);
    /// # assert!(loss > 0.0 && grads.tok_emb.weight.row(3).iter().any(|&d| d != 0.0));
    /// # Ok::<(), gpt::GptError>(())
    /// ```
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_hidden_train(
        &self,
        in_idx: &ArrayRef2<u32>,
        rng: &mut TorchRng,
    ) -> Result<(Array3<f32>, HiddenCache), GptError> {
        let x = self.embed(in_idx)?;
        let (mut x, drop_emb) = self.drop_emb.forward_train(x, rng);
        let mut blocks = Vec::with_capacity(self.trf_blocks.len());
        for block in &self.trf_blocks {
            let (out, cache) = block.forward_train(x, rng)?;
            blocks.push(cache);
            x = out;
        }
        let (normed, final_norm) = self.final_norm.forward_train(&Pooled::from(x));
        let cache = HiddenCache {
            ids: in_idx.to_owned(),
            drop_emb,
            blocks,
            final_norm,
        };
        Ok((normed, cache))
    }

    /// Leaves `rng` as [`forward_train`](Self::forward_train) of these ids does, for a process
    /// whose neighbour computes that batch; only their shape matters.
    pub fn skip_draws(&self, in_idx: &ArrayRef2<u32>, rng: &mut TorchRng) {
        let (batch, num_tokens) = in_idx.dim();
        let GptConfig {
            emb_dim, n_heads, ..
        } = self.config();
        let features = batch * num_tokens * emb_dim;
        self.drop_emb.skip(features, rng);
        for block in &self.trf_blocks {
            let weights = batch * n_heads * num_tokens * num_tokens;
            block.att.dropout.skip(weights, rng);
            block.drop_shortcut.skip(features, rng);
            block.drop_shortcut.skip(features, rng);
        }
    }

    /// Adds the gradients of all weights to `grads`; `d_logits` is (batch, num_tokens, vocab_size).
    ///
    /// # Panics
    /// If `d_logits` is not the shape of the forward pass's logits, or `grads` has another
    /// configuration.
    pub fn backward(&self, cache: GptCache, d_logits: &ArrayRef3<f32>, grads: &mut GptModel) {
        self.check_gradients("GptModel::backward", grads);
        let ((batch, num_tokens), vocab_size) = (cache.hidden.ids.dim(), self.config().vocab_size);
        let logits = (batch, num_tokens, vocab_size);
        assert!(
            d_logits.dim() == logits,
            "GptModel::backward: d_logits has shape {:?}, but the forward pass's logits {logits:?}",
            d_logits.dim()
        );
        let d_logits = d_logits.as_standard_layout();
        let mut d_normed = Pooled::from(empty(cache.normed.raw_dim()));
        // logits = normed head^T
        let d_x = rows_mut(&mut d_normed);
        self.head_backward(rows(&cache.normed), rows(&d_logits), d_x, grads);
        self.backward_below_head(cache.hidden, &d_normed, grads);
    }

    /// One training step's forward and backward pass: the mean cross-entropy of predicting
    /// `targets` (batch, num_tokens) from `in_idx`; adds its gradients, times `weight`, to `grads`.
    ///
    /// The same as [`forward_train`](Self::forward_train), cross-entropy and
    /// [`backward`](Self::backward), with the logits made, used and overwritten
    /// 1024 rows at a time. [`BatchParts`](crate::BatchParts) does the same faster for small
    /// models.
    /// `weight` is 1, or 1 / n when gradients of n batches are accumulated. Targets that are
    /// [`IGNORE_INDEX`](tensor_ops::IGNORE_INDEX), such as those of padding, don't count.
    ///
    /// # Errors
    /// As [`loss`](Self::loss).
    ///
    /// # Panics
    /// If `grads` has another configuration.
    pub fn loss_and_grads(
        &self,
        in_idx: &ArrayRef2<u32>,
        targets: &ArrayRef2<u32>,
        weight: f32,
        rng: &mut TorchRng,
        grads: &mut GptModel,
    ) -> Result<f32, GptError> {
        self.check_gradients("GptModel::loss_and_grads", grads);
        self.check_batch(in_idx, targets)?;
        counted(targets)?;
        // Inside the pool from here on: entering it once is much cheaper than once an operation.
        awake(|| self.loss_and_grads_in_pool(in_idx, targets, weight, rng, grads))
    }

    /// Returns a loss of 0 if no target counts.
    pub(crate) fn loss_and_grads_in_pool(
        &self,
        in_idx: &ArrayRef2<u32>,
        targets: &ArrayRef2<u32>,
        weight: f32,
        rng: &mut TorchRng,
        grads: &mut GptModel,
    ) -> Result<f32, GptError> {
        let (normed, cache) = self.forward_hidden_train(in_idx, rng)?;
        let normed = Pooled::from(normed);
        let targets: Vec<u32> = targets.iter().copied().collect();
        let mut d_normed = Pooled::from(empty(normed.raw_dim()));
        let (normed, mut d_normed_rows) = (rows(&normed), rows_mut(&mut d_normed));
        let n = counted_targets(&targets);
        let mut total = 0.0f64;
        for first in (0..targets.len()).step_by(LOGIT_ROWS) {
            let last = (first + LOGIT_ROWS).min(targets.len());
            let x = normed.slice(s![first..last, ..]);
            let counted = counted_targets(&targets[first..last]);
            if counted == 0 {
                d_normed_rows.slice_mut(s![first..last, ..]).fill(0.0);
                continue;
            }
            let share = counted as f32 / n as f32;
            let logits = matmul_in(self.head_dtype(), &x, &self.head_weight().t());
            let (loss, d_logits) =
                cross_entropy_train(logits, &targets[first..last], share * weight);
            let d_logits = Pooled::from(d_logits);
            total += f64::from(loss) * counted as f64;
            let d_x = d_normed_rows.slice_mut(s![first..last, ..]);
            self.head_backward(x, d_logits.view(), d_x, grads);
        }
        self.backward_below_head(cache, &d_normed, grads);
        Ok((total / n.max(1) as f64) as f32)
    }

    /// `logits = x W^T`: adds to the gradient of W (tied or not), and writes the gradient of `x`.
    fn head_backward(
        &self,
        x: ArrayView2<f32>,
        d_logits: ArrayView2<f32>,
        d_x: ArrayViewMut2<f32>,
        grads: &mut GptModel,
    ) {
        let d_weight = match &mut grads.out_head {
            Some(out_head) => &mut out_head.weight,
            None => &mut grads.tok_emb.weight,
        };
        let dtype = self.head_dtype();
        matmul_into_in(dtype, &d_logits.t(), &x, 1.0, d_weight.view_mut());
        matmul_into_in(dtype, &d_logits, self.head_weight(), 0.0, d_x);
    }

    /// Adds the gradients of all weights but the head's to `grads`; `d_hidden` (batch, num_tokens,
    /// emb_dim) is the gradient of the result of
    /// [`forward_hidden_train`](Self::forward_hidden_train).
    ///
    /// # Panics
    /// If `d_hidden` is not the shape of the forward pass's result, or `grads` has another
    /// configuration.
    pub fn backward_hidden(
        &self,
        cache: HiddenCache,
        d_hidden: &ArrayRef3<f32>,
        grads: &mut GptModel,
    ) {
        self.check_gradients("GptModel::backward_hidden", grads);
        self.backward_below_head(cache, d_hidden, grads);
    }

    fn backward_below_head(
        &self,
        cache: HiddenCache,
        d_normed: &ArrayRef3<f32>,
        grads: &mut GptModel,
    ) {
        // normed = final_norm(x)
        let mut d_x = self
            .final_norm
            .backward(cache.final_norm, d_normed, &mut grads.final_norm);
        // x = trf_blocks(x)
        let blocks = self.trf_blocks.iter().zip(cache.blocks);
        for ((block, cache), grads) in blocks.zip(&mut grads.trf_blocks).rev() {
            d_x = block.backward(cache, d_x, grads);
        }
        // x = drop(tok_emb[ids] + pos_emb[0..num_tokens])
        let d_x = Pooled::from(self.drop_emb.backward(cache.drop_emb, d_x));
        self.tok_emb.backward(&cache.ids, &d_x, &mut grads.tok_emb);
        let positions = (..cache.ids.ncols()).into();
        let mut d_pos = grads.pos_emb.weight.slice_axis_mut(Axis(0), positions);
        for d_x in d_x.outer_iter() {
            d_pos += &d_x;
        }
    }
}

/// The mutable form of [`rows`].
fn rows_mut(x: &mut Array3<f32>) -> ArrayViewMut2<'_, f32> {
    let (batch, num_tokens, features) = x.dim();
    x.view_mut()
        .into_shape_with_order((batch * num_tokens, features))
        .expect("row-major")
}
