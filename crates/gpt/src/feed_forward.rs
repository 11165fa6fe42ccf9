//! The feed-forward network of a block, `Linear(4d, d)(GELU(Linear(d, 4d)(x)))`: fast, and
//! backward.
//!
//! Its struct, and listing 4.4 as the book has it, are in `plain.rs`.

use ndarray::{Array3, ArrayRef3, Ix3};
use tensor_ops::engine::Pooled;
use tensor_ops::{Dtype, Linear, parameters};

use crate::{FeedForward, GptConfig, GptError};

/// Kept by [`FeedForward::forward_train`] for [`FeedForward::backward`].
#[derive(Clone, Debug)]
#[must_use]
pub struct FeedForwardCache {
    /// (batch, num_tokens, emb_dim)
    x: Pooled<Ix3>,
    /// (batch, num_tokens, hidden_dim), before the activation
    hidden: Pooled<Ix3>,
    /// (batch, num_tokens, hidden_dim), after the activation
    activated: Pooled<Ix3>,
}

impl FeedForward {
    /// All zeros: a gradient to be accumulated into.
    ///
    /// # Errors
    /// If the configuration is not valid.
    pub fn zeros(cfg: GptConfig) -> Result<Self, GptError> {
        cfg.validate()?;
        Ok(Self {
            expand: Linear::zeros(cfg.emb_dim, cfg.feed_forward_dim(), true),
            activation: cfg.activation,
            contract: Linear::zeros(cfg.feed_forward_dim(), cfg.emb_dim, true),
        })
    }

    /// Sets the format of the operands of both layers' products.
    pub fn set_dtype(&mut self, dtype: Dtype) {
        self.expand.dtype = dtype;
        self.contract.dtype = dtype;
    }

    /// (batch, num_tokens, emb_dim) -> (batch, num_tokens, emb_dim), as
    /// [`forward_plain`](Self::forward_plain).
    ///
    /// # Panics
    /// If the last dimension is not `emb_dim`.
    pub fn forward(&self, x: &ArrayRef3<f32>) -> Array3<f32> {
        let hidden = Pooled::from(self.expand.forward(x)); // (batch, num_tokens, hidden_dim)
        let activated = Pooled::from(self.activation.forward(&hidden));
        self.contract.forward(&activated)
    }

    /// The training form of [`forward`](Self::forward): also returns the values that
    /// [`backward`](Self::backward) needs.
    ///
    /// # Panics
    /// If the last dimension is not `emb_dim`.
    pub fn forward_train(&self, x: Array3<f32>) -> (Array3<f32>, FeedForwardCache) {
        let hidden = self.expand.forward(&x);
        let activated = self.activation.forward(&hidden);
        let out = self.contract.forward(&activated);
        let cache = FeedForwardCache {
            x: x.into(),
            hidden: hidden.into(),
            activated: activated.into(),
        };
        (out, cache)
    }

    /// Adds the gradients of the two layers to `grads` and returns the gradient of the input.
    ///
    /// # Panics
    /// If `d_out` is not the shape of the forward pass's output.
    pub fn backward(
        &self,
        cache: FeedForwardCache,
        d_out: &ArrayRef3<f32>,
        grads: &mut FeedForward,
    ) -> Array3<f32> {
        // out = contract(activated)
        let d_activated = (self.contract).backward(&cache.activated, d_out, &mut grads.contract);
        // activated = activation(hidden)
        let d_hidden = Pooled::from(self.activation.backward(&cache.hidden, d_activated));
        // hidden = expand(x)
        (self.expand).backward(&cache.x, &d_hidden, &mut grads.expand)
    }
}

parameters!(FeedForward { "layers.0." expand, "layers.2." contract });
