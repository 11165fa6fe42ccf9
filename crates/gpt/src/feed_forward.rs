//! The feed-forward network of a block, `Linear(4d, d)(GELU(Linear(d, 4d)(x)))` (book listing 4.4); other models have another activation.

use ndarray::{Array3, ArrayRef3};
use tensor_ops::{Linear, parameters, recycle};
use torch_rng::TorchRng;

use crate::Activation;
use crate::maker::Maker;

/// The book's `FeedForward`; also its gradient.
///
/// Its parameters are named `layers.0` and `layers.2`, as the book keeps them in an `nn.Sequential` with GELU between.
#[derive(Clone, Debug, PartialEq)]
pub struct FeedForward {
    /// emb_dim -> hidden_dim, which is 4 emb_dim in the book
    pub expand: Linear,
    /// hidden_dim -> emb_dim
    pub contract: Linear,
    /// Between them: GELU in the book.
    pub activation: Activation,
}

/// What [`FeedForward::backward`] needs of the forward pass.
#[derive(Clone, Debug)]
pub struct FeedForwardCache {
    /// (batch, num_tokens, emb_dim)
    x: Array3<f32>,
    /// (batch, num_tokens, hidden_dim), before the activation
    hidden: Array3<f32>,
    /// (batch, num_tokens, hidden_dim), after the activation
    activated: Array3<f32>,
}

impl FeedForward {
    /// Draws the two layers, in order, with 4 emb_dim features between them.
    pub fn new(emb_dim: usize, rng: &mut TorchRng) -> Self {
        Self::build(emb_dim, 4 * emb_dim, &mut Maker(Some(rng)))
    }

    /// All zeros: a gradient to be accumulated into.
    pub fn zeros(emb_dim: usize, hidden_dim: usize) -> Self {
        Self::build(emb_dim, hidden_dim, &mut Maker(None))
    }

    pub(crate) fn build(emb_dim: usize, hidden_dim: usize, maker: &mut Maker) -> Self {
        Self {
            expand: maker.linear(emb_dim, hidden_dim, true),
            contract: maker.linear(hidden_dim, emb_dim, true),
            activation: Activation::default(),
        }
    }

    /// (batch, num_tokens, emb_dim) -> (batch, num_tokens, emb_dim)
    ///
    /// # Panics
    /// If the last dimension is not `emb_dim`.
    pub fn forward(&self, x: &ArrayRef3<f32>) -> Array3<f32> {
        let hidden = self.expand.forward(x); // (batch, num_tokens, hidden_dim)
        self.contract.forward(&self.activation.forward(&hidden))
    }

    /// As [`forward`](Self::forward), keeping what [`backward`](Self::backward) needs.
    ///
    /// # Panics
    /// If the last dimension is not `emb_dim`.
    pub fn forward_train(&self, x: Array3<f32>) -> (Array3<f32>, FeedForwardCache) {
        let hidden = self.expand.forward(&x);
        let activated = self.activation.forward(&hidden);
        let out = self.contract.forward(&activated);
        (
            out,
            FeedForwardCache {
                x,
                hidden,
                activated,
            },
        )
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
        let FeedForwardCache {
            x,
            hidden,
            activated,
        } = cache;
        // out = contract(activated)
        let d_activated = self
            .contract
            .backward(&activated, d_out, &mut grads.contract);
        // activated = activation(hidden)
        let d_hidden = self.activation.backward(&hidden, d_activated);
        // hidden = expand(x)
        let d_x = self.expand.backward(&x, &d_hidden, &mut grads.expand);
        recycle([x, hidden, activated, d_hidden]);
        d_x
    }
}

parameters!(FeedForward { "layers.0." expand, "layers.2." contract });
