//! The optimized forward pass and the backward pass of [`FeedForward`], the feed-forward network of
//! a transformer block. The network computes `contract(activation(expand(x)))`.
//!
//! The definition of the struct and the forward pass from the book's listing 4.4 are in `plain.rs`.

use ndarray::{Array3, ArrayRef3, Ix3};
use tensor_ops::engine::Pooled;
use tensor_ops::{Dtype, Linear, parameters};

use crate::{FeedForward, GptConfig, GptError};

/// Intermediate results that [`FeedForward::forward_train`] stores for [`FeedForward::backward`].
#[derive(Clone, Debug)]
#[must_use]
pub struct FeedForwardCache {
    /// Input of the network, of shape (batch, num_tokens, emb_dim).
    x: Pooled<Ix3>,
    /// Input of the activation function, of shape (batch, num_tokens, hidden_dim).
    hidden: Pooled<Ix3>,
    /// Output of the activation function, of shape (batch, num_tokens, hidden_dim).
    activated: Pooled<Ix3>,
}

impl FeedForward {
    /// Creates a network whose weights are all 0. Use it to accumulate the gradients of another
    /// network.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration isn't valid.
    pub fn zeros(cfg: GptConfig) -> Result<Self, GptError> {
        cfg.validate()?;
        Ok(Self {
            expand: Linear::zeros(cfg.emb_dim, cfg.feed_forward_dim(), true),
            activation: cfg.activation,
            contract: Linear::zeros(cfg.feed_forward_dim(), cfg.emb_dim, true),
        })
    }

    /// Sets the number format to which the inputs and weights of both layers are rounded before
    /// they are multiplied. The forward pass supports only float32 and bfloat16.
    pub fn set_dtype(&mut self, dtype: Dtype) {
        self.expand.dtype = dtype;
        self.contract.dtype = dtype;
    }

    /// Applies the network to `x`. The input and the output have the shape
    /// (batch, num_tokens, emb_dim).
    ///
    /// [`forward_plain`](Self::forward_plain) computes the same output with the code of the book's
    /// listing 4.4, which is slower.
    ///
    /// # Panics
    ///
    /// Panics if the last dimension of `x` isn't `emb_dim`.
    pub fn forward(&self, x: &ArrayRef3<f32>) -> Array3<f32> {
        let hidden = Pooled::from(self.expand.forward(x)); // shape: (batch, num_tokens, hidden_dim)
        let activated = Pooled::from(self.activation.forward(&hidden));
        self.contract.forward(&activated)
    }

    /// Applies the network like [`forward`](Self::forward), and also returns the intermediate
    /// results that [`backward`](Self::backward) needs.
    ///
    /// # Panics
    ///
    /// Panics if the last dimension of `x` isn't `emb_dim`.
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

    /// Adds the gradients of the weights and biases of both layers to `grads`, and returns the
    /// gradient of the input.
    ///
    /// # Panics
    ///
    /// Panics if `d_out`, the gradient of the network's output, doesn't have the same shape as this
    /// output.
    pub fn backward(
        &self,
        cache: FeedForwardCache,
        d_out: &ArrayRef3<f32>,
        grads: &mut FeedForward,
    ) -> Array3<f32> {
        // Backpropagate through `out = contract(activated)`.
        let d_activated = (self.contract).backward(&cache.activated, d_out, &mut grads.contract);
        // Backpropagate through `activated = activation(hidden)`.
        let d_hidden = Pooled::from(self.activation.backward(&cache.hidden, d_activated));
        // Backpropagate through `hidden = expand(x)`.
        (self.expand).backward(&cache.x, &d_hidden, &mut grads.expand)
    }
}

parameters!(FeedForward { "layers.0." expand, "layers.2." contract });
