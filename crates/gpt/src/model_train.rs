//! The parts of the GPT model that are needed only for training: the forward pass with dropout, the
//! backward pass, and a method that performs both passes without storing the logits of a whole
//! batch.

use ndarray::{Array2, Array3, ArrayRef2, ArrayRef3, ArrayView2, ArrayViewMut2, Axis, Ix3, s};
use tensor_ops::engine::{Pooled, awake, empty};
use tensor_ops::{
    DropoutCache, LayerNormCache, counted_targets, cross_entropy_train, matmul_in, matmul_into_in,
};
use torch_rng::TorchRng;

use crate::model::{LOGIT_ROWS, counted, rows};
use crate::{GptConfig, GptError, GptModel, TransformerBlockCache};

/// Intermediate results that [`GptModel::forward_train`] stores for [`GptModel::backward`].
#[derive(Clone, Debug)]
#[must_use]
pub struct GptCache {
    hidden: HiddenCache,
    /// Input of the output head, of shape (batch, num_tokens, emb_dim).
    normed: Pooled<Ix3>,
}

/// Intermediate results that [`GptModel::forward_hidden_train`] stores for
/// [`GptModel::backward_hidden`].
#[derive(Clone, Debug)]
#[must_use]
pub struct HiddenCache {
    ids: Array2<u32>,
    drop_emb: DropoutCache,
    blocks: Vec<TransformerBlockCache>,
    final_norm: LayerNormCache,
}

impl GptModel {
    /// Computes the logits like [`forward`](Self::forward), but with dropout, and also returns the
    /// intermediate results that [`backward`](Self::backward) needs.
    ///
    /// Random numbers are drawn in the same order as in the book: first for the dropout of the
    /// embeddings, and then, in each block, for the dropout of the attention weights, of the output
    /// of attention, and of the output of the feed-forward network.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`forward`](Self::forward).
    pub fn forward_train(
        &self,
        in_idx: &ArrayRef2<u32>,
        rng: &mut TorchRng,
    ) -> Result<(Array3<f32>, GptCache), GptError> {
        let (normed, hidden) = self.forward_hidden_train(in_idx, rng)?;
        let normed = Pooled::from(normed);
        Ok((self.logits(&normed), GptCache { hidden, normed }))
    }

    /// Computes the final hidden states like [`forward_hidden`](Self::forward_hidden), but with
    /// dropout, and also returns the intermediate results that
    /// [`backward_hidden`](Self::backward_hidden) needs.
    ///
    /// Use this method to train a model with a custom head or a custom loss. The hidden states have
    /// the shape (batch, num_tokens, emb_dim). Random numbers are drawn in the same order as in
    /// [`forward_train`](Self::forward_train).
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
    /// let head = Linear::new(8, 2, true, &mut rng); // a head for two classes
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
    ///
    /// Returns the same errors as [`forward`](Self::forward).
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

    /// Draws as many random numbers from `rng` as [`forward_train`](Self::forward_train) would draw
    /// for the input `in_idx`, but computes nothing else.
    ///
    /// If several processes each compute some of the batches of a training step, each process calls
    /// this method for the batches that it doesn't compute, so that the generators of all processes
    /// stay in the same state. The method uses only the shape of `in_idx`, not the token IDs.
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

    /// Adds the gradients of all weights to `grads`.
    ///
    /// `d_logits` is the gradient of the logits that were returned by
    /// [`forward_train`](Self::forward_train). It has the shape (batch, num_tokens, vocab_size).
    ///
    /// # Panics
    ///
    /// Panics if `d_logits` doesn't have the same shape as the logits, if the parameters of `grads`
    /// and the model have different names or shapes, or if [`check`](Self::check) rejects `grads`.
    pub fn backward(&self, cache: GptCache, d_logits: &ArrayRef3<f32>, grads: &mut GptModel) {
        self.check_gradients("GptModel::backward", grads);
        let ((batch, num_tokens), vocab_size) = (cache.hidden.ids.dim(), self.config().vocab_size);
        let logits = (batch, num_tokens, vocab_size);
        assert!(
            d_logits.dim() == logits,
            "GptModel::backward: d_logits has shape {:?}, but the logits have shape {logits:?}",
            d_logits.dim()
        );
        let d_logits = d_logits.as_standard_layout();
        let mut d_normed = Pooled::from(empty(cache.normed.raw_dim()));
        // Backpropagate through `logits = normed head^T`.
        let d_x = rows_mut(&mut d_normed);
        self.head_backward(rows(&cache.normed), rows(&d_logits), d_x, grads);
        self.backward_below_head(cache.hidden, &d_normed, grads);
    }

    /// Computes the loss of a batch, which is the mean cross-entropy of predicting `targets` from
    /// `in_idx`. Adds the gradients of the loss, multiplied by `weight`, to `grads`, and returns
    /// the loss, which isn't multiplied by `weight`.
    ///
    /// This method performs both the forward and the backward pass of a training step. `in_idx` and
    /// `targets` have the shape (batch, num_tokens). `weight` is typically 1, or 1 / n if the
    /// gradients of n batches are accumulated. Targets that are equal to
    /// [`IGNORE_INDEX`](tensor_ops::IGNORE_INDEX), for example those for padding tokens, don't
    /// contribute to the mean.
    ///
    /// Except for rounding errors, the gradients are the same as if you called
    /// [`forward_train`](Self::forward_train), a cross-entropy function and
    /// [`backward`](Self::backward). However, this method needs less memory, because at most 1,024
    /// rows of logits and of their gradients are in memory at a time. For small models,
    /// [`BatchParts`](crate::BatchParts) computes the same gradients in less time.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`loss`](Self::loss).
    ///
    /// # Panics
    ///
    /// Panics if the parameters of `grads` and the model have different names or shapes, or if
    /// [`check`](Self::check) rejects `grads`.
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
        // Rayon's thread pool is entered only once for the whole training step, because entering it
        // separately for each operation would take much longer.
        awake(|| self.loss_and_grads_in_pool(in_idx, targets, weight, rng, grads))
    }

    /// Performs the computation of [`loss_and_grads`](Self::loss_and_grads), without checking the
    /// arguments and without entering a thread pool. The caller must do both. If all targets are
    /// equal to `IGNORE_INDEX`, the loss is 0.
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

    /// Performs the backward pass of the output head, `logits = x W^T`. The gradient of `W` is
    /// added to the gradient of the output head or, if the output head is tied, to the gradient of
    /// the token embedding. The gradient of `x` overwrites `d_x`.
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

    /// Adds the gradients of all weights, except the weights of the output head, to `grads`.
    ///
    /// `d_hidden` is the gradient of the hidden states that were returned by
    /// [`forward_hidden_train`](Self::forward_hidden_train). It has the shape
    /// (batch, num_tokens, emb_dim).
    ///
    /// # Panics
    ///
    /// Panics if the shapes of `d_hidden` and the hidden states differ, if the parameters of
    /// `grads` and the model have different names or shapes, or if [`check`](Self::check) rejects
    /// `grads`.
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
        // Backpropagate through `normed = final_norm(x)`.
        let mut d_x = self
            .final_norm
            .backward(cache.final_norm, d_normed, &mut grads.final_norm);
        // Backpropagate through `x = trf_blocks(x)`.
        let blocks = self.trf_blocks.iter().zip(cache.blocks);
        for ((block, cache), grads) in blocks.zip(&mut grads.trf_blocks).rev() {
            d_x = block.backward(cache, d_x, grads);
        }
        // Backpropagate through `x = drop_emb(tok_emb[ids] + pos_emb[0..num_tokens])`.
        let d_x = Pooled::from(self.drop_emb.backward(cache.drop_emb, d_x));
        self.tok_emb.backward(&cache.ids, &d_x, &mut grads.tok_emb);
        let positions = (..cache.ids.ncols()).into();
        let mut d_pos = grads.pos_emb.weight.slice_axis_mut(Axis(0), positions);
        for d_x in d_x.outer_iter() {
            d_pos += &d_x;
        }
    }
}

/// Returns a mutable view of an array in which the first two dimensions are merged, like [`rows`].
fn rows_mut(x: &mut Array3<f32>) -> ArrayViewMut2<'_, f32> {
    let (batch, num_tokens, features) = x.dim();
    x.view_mut()
        .into_shape_with_order((batch * num_tokens, features))
        .expect("the array is row-major")
}
