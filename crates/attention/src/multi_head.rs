//! The fast implementation of [`MultiHeadAttention`]. It consists of a forward pass that processes
//! the queries in blocks (see `blockwise.rs`) and of the backward pass.
//!
//! The definition of the struct and the code of the book's listing 3.5 are in `plain.rs`.

use ndarray::{Array, Array3, Array4, ArrayRef, ArrayRef3, Dimension, Ix3};
use tensor_ops::engine::Pooled;
use tensor_ops::{Dropout, Dtype, Linear, parameters};
use torch_rng::TorchRng;

use crate::blockwise::{AttendCache, attend, attend_backward, attend_train};
use crate::{AttentionConfig, AttentionError, MultiHeadAttention};

/// Intermediate results that [`MultiHeadAttention::forward_train`] stores for
/// [`MultiHeadAttention::backward`].
#[derive(Clone, Debug)]
#[must_use]
pub struct MultiHeadAttentionCache {
    /// Input, with the shape `(batch, num_tokens, d_in)`.
    x: Pooled<Ix3>,
    /// Queries, with the shape `(batch, num_tokens, d_out)`.
    queries: Pooled<Ix3>,
    /// Keys, with the shape `(batch, num_tokens, d_out)`.
    keys: Pooled<Ix3>,
    /// Values, with the shape `(batch, num_tokens, d_out)`.
    values: Pooled<Ix3>,
    /// Context vectors of all heads, with the shape `(batch, num_tokens, d_out)`. The last
    /// dimension contains the outputs of all heads, one head after the other.
    context: Pooled<Ix3>,
    heads: AttendCache,
}

impl MultiHeadAttention {
    /// Creates a module whose weights are all 0. Use it to accumulate gradients, or to load weights
    /// from a file into it.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`new`](Self::new).
    pub fn zeros(config: AttentionConfig) -> Result<Self, AttentionError> {
        config.check_heads()?;
        let (d_in, d_out, qkv_bias) = (config.d_in, config.d_out, config.qkv_bias);
        Ok(Self {
            w_query: Linear::zeros(d_in, d_out, qkv_bias),
            w_key: Linear::zeros(d_in, d_out, qkv_bias),
            w_value: Linear::zeros(d_in, d_out, qkv_bias),
            out_proj: Linear::zeros(d_out, d_out, true),
            dropout: Dropout { p: config.dropout },
            config,
        })
    }

    /// Sets the number format to which the inputs and weights of the four layers are rounded before
    /// they are multiplied. The attention scores, attention weights and context vectors are always
    /// computed in `f32`.
    pub fn set_dtype(&mut self, dtype: Dtype) {
        for layer in [
            &mut self.w_query,
            &mut self.w_key,
            &mut self.w_value,
            &mut self.out_proj,
        ] {
            layer.dtype = dtype;
        }
    }

    /// Returns the configuration with which the module was created.
    pub fn config(&self) -> AttentionConfig {
        self.config
    }

    /// Checks that the shapes of the four layers match [`config`](Self::config) and that their
    /// number format is supported. Each forward pass calls this method first, because a caller may
    /// have replaced a layer.
    ///
    /// # Errors
    ///
    /// Returns [`AttentionError::Field`], which contains the name of the first invalid layer.
    pub fn check(&self) -> Result<(), AttentionError> {
        let AttentionConfig {
            d_in,
            d_out,
            qkv_bias,
            ..
        } = self.config;
        for (name, layer, d_in, bias) in [
            ("w_query", &self.w_query, d_in, qkv_bias),
            ("w_key", &self.w_key, d_in, qkv_bias),
            ("w_value", &self.w_value, d_in, qkv_bias),
            ("out_proj", &self.out_proj, d_out, true),
        ] {
            if let Some(problem) = layer.mismatch(d_in, d_out, bias) {
                return Err(AttentionError::Field { name, problem });
            }
        }
        Ok(())
    }

    /// Computes the output in evaluation mode, that is, without dropout. Except for rounding
    /// errors, the output is the same as that of [`forward_plain`](Self::forward_plain). This
    /// method is faster because it processes the queries in blocks.
    ///
    /// The input is a sequence or a batch of sequences, of shape `(..., num_tokens, d_in)`, and the
    /// output has the shape `(..., num_tokens, d_out)`.
    ///
    /// # Errors
    ///
    /// Returns [`AttentionError::Features`] if the last dimension of `x` isn't `d_in`,
    /// [`AttentionError::TooLong`] if a sequence has more tokens than the context length, and
    /// [`AttentionError::Field`] if a layer has been replaced by one that [`check`](Self::check)
    /// rejects.
    ///
    /// # Panics
    ///
    /// Panics if `x` has fewer than two dimensions.
    pub fn forward<D: Dimension>(
        &self,
        x: &ArrayRef<f32, D>,
    ) -> Result<Array<f32, D>, AttentionError> {
        self.check()?;
        self.config.check_input(x.shape())?;
        let (leading, sequence) = x.shape().split_at(x.ndim() - 2);
        // All dimensions before the last two are merged into a single one, so that the input has
        // the shape (batch, num_tokens, d_in).
        let batch = (leading.iter().product(), sequence[0], sequence[1]);
        let batch = x.to_shape(batch).expect("as many elements");
        let [queries, keys, values] = self.project(&batch);
        let context = attend(&queries, &keys, &values, self.config.num_heads);
        let context = Pooled::from(context);
        let mut shape = x.raw_dim();
        shape[x.ndim() - 1] = self.config.d_out;
        let out = self.out_proj.forward(&context).into_shape_with_order(shape);
        Ok(out.expect("as many sequences and tokens as the input"))
    }

    /// Computes the attention weights in evaluation mode, that is, without dropout.
    ///
    /// The input has the shape `(batch, num_tokens, d_in)`, and the weights have the shape
    /// `(batch, num_heads, num_tokens, num_tokens)`. Each row of weights sums to 1, and the weights
    /// above the diagonal are 0.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`forward_plain`](Self::forward_plain).
    pub fn attention_weights(&self, x: &ArrayRef3<f32>) -> Result<Array4<f32>, AttentionError> {
        Ok(self.forward_plain(x, None)?.1)
    }

    /// Computes the output in training mode, in which some attention weights are dropped, and
    /// returns it together with a cache for [`backward`](Self::backward).
    ///
    /// The input has the shape `(batch, num_tokens, d_in)`, and the output has the shape
    /// `(batch, num_tokens, d_out)`. If [`forward_plain`](Self::forward_plain) is called with a
    /// generator in the same state, it drops the same attention weights.
    ///
    /// # Errors
    ///
    /// Returns [`AttentionError::Features`] if the last dimension of `x` isn't `d_in`,
    /// [`AttentionError::TooLong`] if a sequence has more tokens than the context length, and
    /// [`AttentionError::Field`] if a layer has been replaced by one that [`check`](Self::check)
    /// rejects.
    pub fn forward_train(
        &self,
        x: Array3<f32>,
        rng: &mut TorchRng,
    ) -> Result<(Array3<f32>, MultiHeadAttentionCache), AttentionError> {
        self.check()?;
        self.config.check_input(x.shape())?;
        let (batch, num_tokens, _) = x.dim();
        let num_heads = self.config.num_heads;
        let n_weights = batch * num_heads * num_tokens * num_tokens;
        // Random numbers must be drawn one after the other, so a single thread draws the dropout
        // mask. Meanwhile, the other threads compute the projections.
        let ([queries, keys, values], mask) =
            rayon::join(|| self.project(&x), || self.dropout.draw(n_weights, rng));
        let dropout = (self.dropout, mask);
        let (context, heads) = attend_train(&queries, &keys, &values, num_heads, dropout);
        let out = self.out_proj.forward(&context);
        let cache = MultiHeadAttentionCache {
            x: x.into(),
            queries,
            keys,
            values,
            context: context.into(),
            heads,
        };
        Ok((out, cache))
    }

    /// Returns the queries, keys and values of all heads, each with the shape
    /// `(batch, num_tokens, d_out)`.
    fn project(&self, x: &ArrayRef3<f32>) -> [Pooled<Ix3>; 3] {
        [&self.w_query, &self.w_key, &self.w_value].map(|layer| layer.forward(x).into())
    }

    /// Adds the gradients of the weights of all four layers to `grads`, and returns the gradient of
    /// the input, which has the shape `(batch, num_tokens, d_in)`.
    ///
    /// The argument `d_out` is the gradient of the output (not the number of output features with
    /// the same name). It has the same shape as the output, `(batch, num_tokens, d_out)`.
    ///
    /// # Panics
    ///
    /// Panics if `d_out` doesn't have the same shape as the output, or if the layers in `grads`
    /// don't have the same shapes as the layers of this module.
    pub fn backward(
        &self,
        cache: MultiHeadAttentionCache,
        d_out: &ArrayRef3<f32>,
        grads: &mut MultiHeadAttention,
    ) -> Array3<f32> {
        let MultiHeadAttentionCache { x, context, .. } = &cache;
        // Backpropagate through `out = out_proj(context)`.
        let d_context = (self.out_proj).backward(context, d_out, &mut grads.out_proj);
        let d_context = Pooled::from(d_context);
        // Backpropagate through `context = attend(queries, keys, values)`.
        let (q, k, v) = (&cache.queries, &cache.keys, &cache.values);
        let [d_q, d_k, d_v] = attend_backward(q, k, v, &cache.heads, &d_context).map(Pooled::from);
        // Backpropagate through the three projections of `x`. The gradient of `x` is the sum of
        // three gradients, one from each projection.
        let mut d_x = self.w_value.backward(x, &d_v, &mut grads.w_value);
        self.w_key
            .backward_adding_to(x, &d_k, &mut grads.w_key, &mut d_x);
        self.w_query
            .backward_adding_to(x, &d_q, &mut grads.w_query, &mut d_x);
        d_x
    }
}

parameters!(MultiHeadAttention {
    "W_query." w_query, "W_key." w_key, "W_value." w_value, "out_proj." out_proj
});
