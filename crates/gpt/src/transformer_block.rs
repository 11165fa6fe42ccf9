//! One transformer block: `x + att(norm1(x))`, then `x + ff(norm2(x))`, each branch dropped before it is added (book listing 4.6).

use attention::{MultiHeadAttention, MultiHeadAttentionCache};
use ndarray::{Array3, ArrayRef3};
use tensor_ops::{
    Dropout, DropoutCache, LayerNorm, LayerNormCache, add_assign, parameters, recycle,
};
use torch_rng::TorchRng;

use crate::maker::Maker;
use crate::{FeedForward, FeedForwardCache, GptConfig, GptError};

/// The book's `TransformerBlock`; also its gradient.
#[derive(Clone, Debug, PartialEq)]
pub struct TransformerBlock {
    /// Masked multi-head attention.
    pub att: MultiHeadAttention,
    /// The feed-forward network.
    pub ff: FeedForward,
    /// Before `att`.
    pub norm1: LayerNorm,
    /// Before `ff`.
    pub norm2: LayerNorm,
    /// On both branches, in training only.
    pub drop_shortcut: Dropout,
}

/// What [`TransformerBlock::backward`] needs of the forward pass.
#[derive(Clone, Debug)]
pub struct TransformerBlockCache {
    norm1: LayerNormCache,
    att: MultiHeadAttentionCache,
    drop1: DropoutCache,
    norm2: LayerNormCache,
    ff: FeedForwardCache,
    drop2: DropoutCache,
}

impl TransformerBlock {
    /// A model's first block: draws attention, then the feed-forward network; the norms draw nothing.
    ///
    /// # Errors
    /// If the configuration is not valid.
    pub fn new(config: &GptConfig, rng: &mut TorchRng) -> Result<Self, GptError> {
        config.validate()?;
        Self::build(config, 0, &mut Maker(Some(rng)))
    }

    /// All zeros: a gradient to be accumulated into.
    ///
    /// # Errors
    /// If the configuration is not valid.
    pub fn zeros(config: &GptConfig) -> Result<Self, GptError> {
        config.validate()?;
        Self::build(config, 0, &mut Maker(None))
    }

    /// One of a model's blocks, counted from 0, of a configuration that has been validated.
    pub(crate) fn build(
        config: &GptConfig,
        block: usize,
        maker: &mut Maker,
    ) -> Result<Self, GptError> {
        Ok(Self {
            att: maker.attention(config, block)?,
            ff: FeedForward {
                activation: config.activation,
                ..FeedForward::build(config.emb_dim, config.feed_forward_dim(), maker)
            },
            norm1: maker.norm(config),
            norm2: maker.norm(config),
            drop_shortcut: Dropout {
                p: config.drop_rates.shortcut,
            },
        })
    }

    /// (batch, num_tokens, emb_dim) -> (batch, num_tokens, emb_dim), as in evaluation.
    ///
    /// # Errors
    /// If there are more tokens than the context length, or not `emb_dim` features.
    pub fn forward(&self, x: &ArrayRef3<f32>) -> Result<Array3<f32>, GptError> {
        Ok(self.pass(x.to_owned(), None)?.0)
    }

    /// As [`forward`](Self::forward), in training: drops, and keeps what [`backward`](Self::backward) needs.
    ///
    /// # Errors
    /// If there are more tokens than the context length, or not `emb_dim` features.
    pub fn forward_train(
        &self,
        x: Array3<f32>,
        rng: &mut TorchRng,
    ) -> Result<(Array3<f32>, TransformerBlockCache), GptError> {
        self.pass(x, Some(rng))
    }

    /// Listing 4.6: with a generator as in training, without one as in evaluation.
    pub(crate) fn pass(
        &self,
        x: Array3<f32>, // (batch, num_tokens, emb_dim)
        mut rng: Option<&mut TorchRng>,
    ) -> Result<(Array3<f32>, TransformerBlockCache), GptError> {
        let draw =
            |n, rng: Option<&mut TorchRng>| rng.and_then(|rng| self.drop_shortcut.draw(n, rng));
        let shortcut = x;
        let (x, norm1) = self.norm1.forward_train(&shortcut);
        let (x, att) = self.att.pass(x, rng.as_deref_mut())?;
        let mask = draw(x.len(), rng.as_deref_mut());
        let (mut x, drop1) = self.drop_shortcut.forward_with(x, mask);
        add_assign(&mut x, &shortcut);
        recycle([shortcut]);
        let shortcut = x;
        let (x, norm2) = self.norm2.forward_train(&shortcut);
        // Random draws are sequential: they overlap with the products.
        let ((x, ff), mask) =
            rayon::join(|| self.ff.forward_train(x), || draw(shortcut.len(), rng));
        let (mut x, drop2) = self.drop_shortcut.forward_with(x, mask);
        add_assign(&mut x, &shortcut);
        recycle([shortcut]);
        Ok((
            x,
            TransformerBlockCache {
                norm1,
                att,
                drop1,
                norm2,
                ff,
                drop2,
            },
        ))
    }

    /// Adds the gradients of the block's weights to `grads` and returns the gradient of the input.
    ///
    /// # Panics
    /// If `d_out` is not the shape of the forward pass's output.
    pub fn backward(
        &self,
        cache: TransformerBlockCache,
        d_out: Array3<f32>,
        grads: &mut TransformerBlock,
    ) -> Array3<f32> {
        // x = drop(ff(norm2(shortcut))) + shortcut
        let d_branch = self.drop_shortcut.backward_of(cache.drop2, &d_out);
        let d_x = self.ff.backward(cache.ff, &d_branch, &mut grads.ff);
        let mut d_shortcut = self.norm2.backward(cache.norm2, &d_x, &mut grads.norm2);
        add_assign(&mut d_shortcut, &d_out);
        recycle([d_branch, d_x, d_out]);
        // x = drop(att(norm1(shortcut))) + shortcut
        let d_branch = self.drop_shortcut.backward_of(cache.drop1, &d_shortcut);
        let d_normed = self.att.backward(cache.att, &d_branch, &mut grads.att);
        let mut d_x = self
            .norm1
            .backward(cache.norm1, &d_normed, &mut grads.norm1);
        add_assign(&mut d_x, &d_shortcut);
        recycle([d_branch, d_normed, d_shortcut]);
        d_x
    }
}

parameters!(TransformerBlock { "att." att, "ff." ff, "norm1." norm1, "norm2." norm2 });
