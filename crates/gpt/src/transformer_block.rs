//! The optimized forward pass and the backward pass of a transformer block.
//!
//! A block first computes `h = x + drop(att(norm1(x)))` and then returns `h + drop(ff(norm2(h)))`.
//! The definition of the struct [`TransformerBlock`] and the forward pass from the book's listing
//! 4.6 are in `plain.rs`.

use attention::{MultiHeadAttention, MultiHeadAttentionCache};
use ndarray::{Array3, ArrayRef3};
use tensor_ops::engine::Pooled;
use tensor_ops::{Dropout, DropoutCache, Dtype, LayerNormCache, add_assign, parameters};
use torch_rng::TorchRng;

use crate::{FeedForward, FeedForwardCache, GptConfig, GptError, TransformerBlock};

/// Intermediate results that [`TransformerBlock::forward_train`] stores for
/// [`TransformerBlock::backward`].
#[derive(Clone, Debug)]
#[must_use]
pub struct TransformerBlockCache {
    norm1: LayerNormCache,
    att: MultiHeadAttentionCache,
    drop1: DropoutCache,
    norm2: LayerNormCache,
    ff: FeedForwardCache,
    drop2: DropoutCache,
}

impl TransformerBlock {
    /// Creates a block whose weights are all 0. Use it to accumulate the gradients of another
    /// block.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration isn't valid.
    pub fn zeros(cfg: GptConfig) -> Result<Self, GptError> {
        cfg.validate()?;
        Ok(Self {
            att: MultiHeadAttention::zeros(cfg.attention())?,
            ff: FeedForward::zeros(cfg)?,
            norm1: cfg.zero_norm(),
            norm2: cfg.zero_norm(),
            drop_shortcut: Dropout {
                p: cfg.drop_rates.shortcut,
            },
        })
    }

    /// Sets the number format to which the operands of matrix products in all linear layers of the
    /// block are rounded. The forward pass supports only float32 and bfloat16.
    /// [`GptModel::set_dtype`](crate::GptModel::set_dtype) describes the effect on precision and
    /// speed.
    pub fn set_dtype(&mut self, dtype: Dtype) {
        self.att.set_dtype(dtype);
        self.ff.set_dtype(dtype);
    }

    /// Applies the block to `x` without dropout. The input and the output have the shape
    /// (batch, num_tokens, emb_dim).
    ///
    /// [`forward_plain`](Self::forward_plain) computes the same output with the code of the book's
    /// listing 4.6, which is slower.
    ///
    /// # Errors
    ///
    /// Returns an error if a sequence has more tokens than the context length, or if a layer of the
    /// attention module has been replaced by one that is incompatible with the module's
    /// configuration.
    ///
    /// # Panics
    ///
    /// Panics if the last dimension of `x` isn't `emb_dim`.
    pub fn forward(&self, x: &ArrayRef3<f32>) -> Result<Array3<f32>, GptError> {
        let normed = Pooled::from(self.norm1.forward(x));
        let mut with_att = Pooled::from(self.att.forward(&normed)?);
        add_assign(&mut with_att, x);
        let normed = Pooled::from(self.norm2.forward(&with_att));
        let mut out = self.ff.forward(&normed);
        add_assign(&mut out, &with_att);
        Ok(out)
    }

    /// Applies the block to `x` with dropout, and also returns the intermediate results that
    /// [`backward`](Self::backward) needs. The input and the output have the shape
    /// (batch, num_tokens, emb_dim).
    ///
    /// # Errors
    ///
    /// Returns an error if a sequence has more tokens than the context length, or if a layer of the
    /// attention module has been replaced by one that is incompatible with the module's
    /// configuration.
    ///
    /// # Panics
    ///
    /// Panics if the last dimension of `x` isn't `emb_dim`.
    pub fn forward_train(
        &self,
        x: Array3<f32>,
        rng: &mut TorchRng,
    ) -> Result<(Array3<f32>, TransformerBlockCache), GptError> {
        let shortcut = Pooled::from(x);
        let (x, norm1) = self.norm1.forward_train(&shortcut);
        let (x, att) = self.att.forward_train(x, rng)?;
        let (mut x, drop1) = self.drop_shortcut.forward_train(x, rng);
        add_assign(&mut x, &shortcut);
        let shortcut = Pooled::from(x);
        let (x, norm2) = self.norm2.forward_train(&shortcut);
        // The random numbers of a dropout mask must be drawn one after the other, so a single
        // thread draws the mask. Meanwhile, the other threads compute the feed-forward network, to
        // whose output the mask is then applied.
        let ((x, ff), mask) = rayon::join(
            || self.ff.forward_train(x),
            || self.drop_shortcut.draw(shortcut.len(), rng),
        );
        let (mut x, drop2) = self.drop_shortcut.forward_with(x, mask);
        add_assign(&mut x, &shortcut);
        let cache = TransformerBlockCache {
            norm1,
            att,
            drop1,
            norm2,
            ff,
            drop2,
        };
        Ok((x, cache))
    }

    /// Adds the gradients of the block's weights to `grads`, and returns the gradient of the
    /// block's input.
    ///
    /// # Panics
    ///
    /// Panics if `d_out` doesn't have the same shape as the block's output.
    pub fn backward(
        &self,
        cache: TransformerBlockCache,
        d_out: Array3<f32>,
        grads: &mut TransformerBlock,
    ) -> Array3<f32> {
        let d_out = Pooled::from(d_out);
        // Backpropagate through `x = drop(ff(norm2(shortcut))) + shortcut`.
        let d_branch = Pooled::from(self.drop_shortcut.backward_of(cache.drop2, &d_out));
        let d_x = Pooled::from(self.ff.backward(cache.ff, &d_branch, &mut grads.ff));
        let d_shortcut = self.norm2.backward(cache.norm2, &d_x, &mut grads.norm2);
        let mut d_shortcut = Pooled::from(d_shortcut);
        add_assign(&mut d_shortcut, &d_out);
        // Backpropagate through `x = drop(att(norm1(shortcut))) + shortcut`.
        let d_branch = Pooled::from(self.drop_shortcut.backward_of(cache.drop1, &d_shortcut));
        let d_normed = Pooled::from(self.att.backward(cache.att, &d_branch, &mut grads.att));
        let mut d_x = self
            .norm1
            .backward(cache.norm1, &d_normed, &mut grads.norm1);
        add_assign(&mut d_x, &d_shortcut);
        d_x
    }
}

parameters!(TransformerBlock { "att." att, "ff." ff, "norm1." norm1, "norm2." norm2 });
