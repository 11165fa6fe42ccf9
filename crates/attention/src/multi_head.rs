//! Multi-head attention with one projection each for all heads' queries, keys and values: fast, by
//! blocks of queries (`blockwise.rs`), and backward.
//!
//! Its struct, and listing 3.5 as the book has it, are in `plain.rs`.

use ndarray::{Array, Array3, Array4, ArrayRef, ArrayRef3, Dimension, Ix3};
use tensor_ops::engine::Pooled;
use tensor_ops::{Dropout, Dtype, Linear, parameters};
use torch_rng::TorchRng;

use crate::blockwise::{AttendCache, attend, attend_backward, attend_train};
use crate::{AttentionConfig, AttentionError, MultiHeadAttention};

/// Kept by [`MultiHeadAttention::forward_train`] for [`MultiHeadAttention::backward`].
#[derive(Clone, Debug)]
#[must_use]
pub struct MultiHeadAttentionCache {
    /// (batch, num_tokens, d_in)
    x: Pooled<Ix3>,
    /// (batch, num_tokens, d_out)
    queries: Pooled<Ix3>,
    /// (batch, num_tokens, d_out)
    keys: Pooled<Ix3>,
    /// (batch, num_tokens, d_out)
    values: Pooled<Ix3>,
    /// (batch, num_tokens, d_out): the heads' outputs, side by side
    context: Pooled<Ix3>,
    heads: AttendCache,
}

impl MultiHeadAttention {
    /// All zeros: a gradient to be accumulated into, or a place to load weights into.
    ///
    /// # Errors
    /// As [`new`](Self::new).
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

    /// Sets the format of the operands of the four layers' products. Scores, attention weights and
    /// contexts are computed in f32 in any case.
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

    /// Returns the configuration it was built from.
    pub fn config(&self) -> AttentionConfig {
        self.config
    }

    /// Checks that the four layers have the shapes of the [`config`](Self::config). The forward
    /// passes call this first, so that a replaced layer is either used or named in an error.
    ///
    /// # Errors
    /// [`AttentionError::Field`] names the first layer that doesn't fit.
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

    /// (..., num_tokens, d_in) -> (..., num_tokens, d_out), a sequence or a batch of them, as in
    /// evaluation: [`forward_plain`](Self::forward_plain), fast.
    ///
    /// # Errors
    /// If there are more tokens than the context length, not `d_in` features, or a layer was
    /// replaced by one of another shape.
    ///
    /// # Panics
    /// If the input has one dimension.
    pub fn forward<D: Dimension>(
        &self,
        x: &ArrayRef<f32, D>,
    ) -> Result<Array<f32, D>, AttentionError> {
        self.check()?;
        self.config.check_input(x.shape())?;
        let (leading, sequence) = x.shape().split_at(x.ndim() - 2);
        // (batch, num_tokens, d_in)
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

    /// The attention weights (batch, num_heads, num_tokens, num_tokens) of
    /// [`forward_plain`](Self::forward_plain) in evaluation: each row sums to 1 and is 0 above the
    /// diagonal.
    ///
    /// # Errors
    /// If there are more tokens than the context length, not `d_in` features, or a layer was
    /// replaced by one of another shape.
    pub fn attention_weights(&self, x: &ArrayRef3<f32>) -> Result<Array4<f32>, AttentionError> {
        Ok(self.forward_plain(x, None)?.1)
    }

    /// The training form of [`forward`](Self::forward): drops attention weights, and keeps what
    /// [`backward`](Self::backward) needs.
    ///
    /// # Errors
    /// If there are more tokens than the context length, not `d_in` features, or a layer was
    /// replaced by one of another shape.
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
        // Random draws are sequential: they overlap with the projections.
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

    /// Queries, keys and values (batch, num_tokens, d_out).
    fn project(&self, x: &ArrayRef3<f32>) -> [Pooled<Ix3>; 3] {
        [&self.w_query, &self.w_key, &self.w_value].map(|layer| layer.forward(x).into())
    }

    /// Adds the gradients of the four layers to `grads` and returns the gradient of the input
    /// (batch, num_tokens, d_in).
    ///
    /// # Panics
    /// If `d_out` is not the shape of the forward pass's output.
    pub fn backward(
        &self,
        cache: MultiHeadAttentionCache,
        d_out: &ArrayRef3<f32>,
        grads: &mut MultiHeadAttention,
    ) -> Array3<f32> {
        let MultiHeadAttentionCache { x, context, .. } = &cache;
        // out = out_proj(context)
        let d_context = (self.out_proj).backward(context, d_out, &mut grads.out_proj);
        let d_context = Pooled::from(d_context);
        // context = attend(queries, keys, values)
        let (q, k, v) = (&cache.queries, &cache.keys, &cache.values);
        let [d_q, d_k, d_v] = attend_backward(q, k, v, &cache.heads, &d_context).map(Pooled::from);
        // values = w_value(x), keys = w_key(x), queries = w_query(x)
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
