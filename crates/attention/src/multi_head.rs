//! Multi-head attention with one projection each for all heads' queries, keys and values (book listing 3.5).
//!
//! The listing's `forward` as the book writes it is in `plain.rs`; what stands here uses the fast form of `blockwise.rs`.

use ndarray::{Array, Array3, ArrayRef, ArrayRef3, Dimension};
use tensor_ops::{Dropout, Linear, parameters, recycle};
use torch_rng::TorchRng;

use crate::blockwise::{AttendCache, attend_backward, attend_train};
use crate::{AttentionConfig, AttentionError};

/// The book's `MultiHeadAttention`; also its gradient.
///
/// [`forward_plain`](Self::forward_plain) is the listing line by line; [`forward`](Self::forward) computes the same by blocks of queries.
#[derive(Clone, Debug, PartialEq)]
pub struct MultiHeadAttention {
    /// d_in -> d_out
    pub w_query: Linear,
    /// d_in -> d_out
    pub w_key: Linear,
    /// d_in -> d_out
    pub w_value: Linear,
    /// d_out -> d_out, with a bias: combines the heads' outputs
    pub out_proj: Linear,
    /// On the attention weights, in training only.
    pub dropout: Dropout,
    /// What scores are multiplied by beside `1 / sqrt(head_dim)`: 1 in the book.
    pub score_scale: f32,
    config: AttentionConfig,
}

/// What [`MultiHeadAttention::backward`] needs of the forward pass.
#[derive(Clone, Debug)]
pub struct MultiHeadAttentionCache {
    /// (batch, num_tokens, d_in)
    x: Array3<f32>,
    /// (batch, num_tokens, d_out)
    queries: Array3<f32>,
    /// (batch, num_tokens, d_out)
    keys: Array3<f32>,
    /// (batch, num_tokens, d_out)
    values: Array3<f32>,
    /// (batch, num_tokens, d_out): the heads' outputs, side by side
    context: Array3<f32>,
    heads: AttendCache,
}

impl MultiHeadAttention {
    /// Draws query, key, value and output layers, in this order.
    ///
    /// # Errors
    /// If a size is 0, `num_heads` does not divide `d_out`, or the dropout rate is not within [0, 1).
    pub fn new(config: AttentionConfig, rng: &mut TorchRng) -> Result<Self, AttentionError> {
        Self::build(config, |d_in, d_out, bias| {
            Linear::new(d_in, d_out, bias, rng)
        })
    }

    /// All zeros: a gradient to be accumulated into, or a place to load weights into.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn zeros(config: AttentionConfig) -> Result<Self, AttentionError> {
        Self::build(config, Linear::zeros)
    }

    /// `linear` makes the layers, in the book's order.
    fn build(
        config: AttentionConfig,
        mut linear: impl FnMut(usize, usize, bool) -> Linear,
    ) -> Result<Self, AttentionError> {
        config.check()?;
        let AttentionConfig {
            d_in,
            d_out,
            num_heads,
            qkv_bias,
            ..
        } = config;
        if !d_out.is_multiple_of(num_heads) {
            return Err(AttentionError::HeadsDontDivide { d_out, num_heads });
        }
        Ok(Self {
            w_query: linear(d_in, d_out, qkv_bias),
            w_key: linear(d_in, d_out, qkv_bias),
            w_value: linear(d_in, d_out, qkv_bias),
            out_proj: linear(d_out, d_out, true),
            dropout: Dropout { p: config.dropout },
            score_scale: 1.0,
            config,
        })
    }

    /// What it was built from.
    pub fn config(&self) -> &AttentionConfig {
        &self.config
    }

    /// Makes `queries . keys / sqrt(head_dim)` the scores: multiplies the queries, or the gradient of them, by `score_scale`.
    pub fn scale_queries<D: Dimension>(&self, queries: &mut ArrayRef<f32, D>) {
        if self.score_scale != 1.0 {
            queries.map_inplace(|x| *x *= self.score_scale);
        }
    }

    /// (..., num_tokens, d_in) -> (..., num_tokens, d_out), a sequence or a batch of them, as in evaluation: nothing is dropped. [`forward_plain`](Self::forward_plain), fast.
    ///
    /// # Errors
    /// If there are more tokens than the context length, or not `d_in` features.
    ///
    /// # Panics
    /// If the input has one dimension.
    pub fn forward<D: Dimension>(
        &self,
        x: &ArrayRef<f32, D>,
    ) -> Result<Array<f32, D>, AttentionError> {
        self.config.check_input(x.shape())?;
        let (leading, sequence) = x.shape().split_at(x.ndim() - 2);
        let batch = (leading.iter().product(), sequence[0], sequence[1]); // (batch, num_tokens, d_in)
        let batch = x.to_shape(batch).expect("as many elements");
        let (out, _) = self.pass(batch.into_owned(), None)?;
        let mut shape = x.raw_dim();
        shape[x.ndim() - 1] = self.config.d_out;
        let out = out.into_shape_with_order(shape);
        Ok(out.expect("as many sequences and tokens as the input"))
    }

    /// As [`forward`](Self::forward), in training: drops attention weights, and keeps what [`backward`](Self::backward) needs.
    ///
    /// # Errors
    /// If there are more tokens than the context length, or not `d_in` features.
    pub fn forward_train(
        &self,
        x: Array3<f32>,
        rng: &mut TorchRng,
    ) -> Result<(Array3<f32>, MultiHeadAttentionCache), AttentionError> {
        self.pass(x, Some(rng))
    }

    /// The one body of [`forward`](Self::forward), without a generator, and of [`forward_train`](Self::forward_train), with one.
    ///
    /// # Errors
    /// If there are more tokens than the context length, or not `d_in` features.
    pub fn pass(
        &self,
        x: Array3<f32>,
        rng: Option<&mut TorchRng>,
    ) -> Result<(Array3<f32>, MultiHeadAttentionCache), AttentionError> {
        self.config.check_input(x.shape())?;
        let (batch, num_tokens, _) = x.dim();
        let num_heads = self.config.num_heads;
        // Random draws are sequential: they overlap with the projections.
        let ((queries, keys, values), mask) = rayon::join(
            || {
                let mut queries = self.w_query.forward(&x); // (batch, num_tokens, d_out)
                self.scale_queries(&mut queries);
                (queries, self.w_key.forward(&x), self.w_value.forward(&x))
            },
            || {
                let n_weights = batch * num_heads * num_tokens * num_tokens;
                rng.and_then(|rng| self.dropout.draw(n_weights, rng))
            },
        );
        let dropout = (self.dropout, mask);
        let (context, heads) = attend_train(&queries, &keys, &values, num_heads, dropout);
        let out = self.out_proj.forward(&context);
        let cache = MultiHeadAttentionCache {
            x,
            queries,
            keys,
            values,
            context,
            heads,
        };
        Ok((out, cache))
    }

    /// Adds the gradients of the four layers to `grads` and returns the gradient of the input (batch, num_tokens, d_in).
    ///
    /// # Panics
    /// If `d_out` is not the shape of the forward pass's output.
    pub fn backward(
        &self,
        cache: MultiHeadAttentionCache,
        d_out: &ArrayRef3<f32>,
        grads: &mut MultiHeadAttention,
    ) -> Array3<f32> {
        let MultiHeadAttentionCache {
            x,
            queries,
            keys,
            values,
            context,
            heads,
        } = cache;
        // out = out_proj(context)
        let d_context = self.out_proj.backward(&context, d_out, &mut grads.out_proj);
        // context = attend(queries, keys, values)
        let [mut d_q, d_k, d_v] = attend_backward(&queries, &keys, &values, heads, &d_context);
        // values = w_value(x), keys = w_key(x), queries = score_scale * w_query(x)
        self.scale_queries(&mut d_q);
        let mut d_x = self.w_value.backward(&x, &d_v, &mut grads.w_value);
        self.w_key
            .backward_adding_to(&x, &d_k, &mut grads.w_key, &mut d_x);
        self.w_query
            .backward_adding_to(&x, &d_q, &mut grads.w_query, &mut d_x);
        recycle([x, queries, keys, values, context, d_context, d_q, d_k, d_v]);
        d_x
    }
}

parameters!(MultiHeadAttention {
    "W_query." w_query, "W_key." w_key, "W_value." w_value, "out_proj." out_proj
});
