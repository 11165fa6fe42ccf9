//! Causal self-attention with dropout (book listing 3.3). In causal self-attention, no token
//! attends to a later token.

use ndarray::{Array, ArrayRef, Dimension};
use tensor_ops::{Dropout, Linear, matmul_batched, parameters};
use torch_rng::TorchRng;

use crate::scores::{dot_products, mask_future, scaled_softmax};
use crate::{AttentionConfig, AttentionError};

/// Context vectors, and the attention weights from which they were computed.
type ContextAndWeights<D> = (Array<f32, D>, Array<f32, D>);

/// A causal self-attention module with a single head. It corresponds to the class `CausalAttention`
/// of the book (listing 3.3).
///
/// ```
/// use attention::{AttentionConfig, CausalAttention, torch_rng::TorchRng};
/// use ndarray::array;
///
/// let config = AttentionConfig::default(); // d_in is 3, and d_out is 2
/// let ca = CausalAttention::new(config, &mut TorchRng::manual_seed(123))?;
/// let context_vecs = ca.forward(&array![[0.43, 0.15, 0.89], [0.55, 0.87, 0.66]])?;
/// assert!((context_vecs[[0, 0]] + 0.4519).abs() < 6e-5); // section 3.5.3 prints -0.4519, 0.2216
/// assert!((context_vecs[[0, 1]] - 0.2216).abs() < 6e-5);
/// # Ok::<(), attention::AttentionError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CausalAttention {
    /// Layer that computes the queries, with `d_in` inputs and `d_out` outputs.
    pub w_query: Linear,
    /// Layer that computes the keys, with `d_in` inputs and `d_out` outputs.
    pub w_key: Linear,
    /// Layer that computes the values, with `d_in` inputs and `d_out` outputs.
    pub w_value: Linear,
    /// Dropout for the attention weights. It is applied only in training mode.
    pub dropout: Dropout,
    config: AttentionConfig,
}

impl CausalAttention {
    /// Creates a module with random weights. As in the book, random numbers are drawn first for the
    /// query layer, then for the key layer, and then for the value layer.
    ///
    /// The module always has one head, regardless of `config.num_heads`.
    ///
    /// # Errors
    ///
    /// Returns [`AttentionError::Zero`] if `d_in`, `d_out` or the context length is 0, and
    /// [`AttentionError::Dropout`] if the dropout probability isn't in [0, 1].
    pub fn new(config: AttentionConfig, rng: &mut TorchRng) -> Result<Self, AttentionError> {
        let one_head = 1;
        config.check(one_head)?;
        let (d_in, d_out, qkv_bias) = (config.d_in, config.d_out, config.qkv_bias);
        Ok(Self {
            w_query: Linear::new(d_in, d_out, qkv_bias, rng),
            w_key: Linear::new(d_in, d_out, qkv_bias, rng),
            w_value: Linear::new(d_in, d_out, qkv_bias, rng),
            dropout: Dropout { p: config.dropout },
            config,
        })
    }

    /// Computes the context vectors and the attention weights with the code of the book's listing
    /// 3.3.
    ///
    /// The input is a sequence or a batch of sequences, of shape `(..., num_tokens, d_in)`. The
    /// context vectors have the shape `(..., num_tokens, d_out)`. The attention weights have the
    /// shape `(..., num_tokens, num_tokens)` and are returned as they are after dropout.
    ///
    /// If `training` contains a random number generator, the module is in training mode and drops
    /// some of the attention weights. As in PyTorch, one random number is drawn for each attention
    /// weight in row-major order, even for weights that the causal mask has already set to 0. If
    /// `training` is `None`, the module is in evaluation mode, and no weights are dropped.
    ///
    /// # Errors
    ///
    /// Returns [`AttentionError::Features`] if the last dimension of `x` isn't `d_in`, and
    /// [`AttentionError::TooLong`] if a sequence has more tokens than the context length.
    ///
    /// # Panics
    ///
    /// Panics if `x` has fewer than two dimensions, or if a layer has been replaced by one with an
    /// incompatible shape.
    pub fn forward_plain<D: Dimension>(
        &self,
        x: &ArrayRef<f32, D>,
        training: Option<&mut TorchRng>,
    ) -> Result<ContextAndWeights<D>, AttentionError> {
        self.config.check_input(x.shape())?;
        let keys = self.w_key.forward(x); // shape: (..., num_tokens, d_out)
        let queries = self.w_query.forward(x);
        let values = self.w_value.forward(x);

        let attn_scores = dot_products(&queries, &keys); // shape: (..., num_tokens, num_tokens)
        let attn_scores = mask_future(&attn_scores);
        let attn_weights = scaled_softmax(&attn_scores, self.config.d_out);
        let attn_weights = self.dropout.forward(attn_weights, training);

        let context_vec = matmul_batched(&attn_weights, &values); // shape: (..., num_tokens, d_out)
        Ok((context_vec, attn_weights))
    }

    /// Computes the context vectors in evaluation mode, that is, without dropout.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`forward_plain`](Self::forward_plain).
    pub fn forward<D: Dimension>(
        &self,
        x: &ArrayRef<f32, D>,
    ) -> Result<Array<f32, D>, AttentionError> {
        Ok(self.forward_plain(x, None)?.0)
    }

    /// Computes the attention weights in evaluation mode, that is, without dropout.
    ///
    /// The weights have the shape `(..., num_tokens, num_tokens)`, with one row for each query and
    /// one column for each key. Each row sums to 1. Because of the causal mask, all weights above
    /// the diagonal are 0.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`forward_plain`](Self::forward_plain).
    pub fn attention_weights<D: Dimension>(
        &self,
        x: &ArrayRef<f32, D>,
    ) -> Result<Array<f32, D>, AttentionError> {
        Ok(self.forward_plain(x, None)?.1)
    }
}

parameters!(CausalAttention { "W_query." w_query, "W_key." w_key, "W_value." w_value });
