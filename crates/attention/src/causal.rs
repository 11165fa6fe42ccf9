//! Causal attention: self-attention in which no token sees a later one, with dropout on the weights
//! (book listing 3.3).

use ndarray::{Array, ArrayRef, Dimension};
use tensor_ops::{Dropout, Linear, matmul_batched, parameters};
use torch_rng::TorchRng;

use crate::scores::{dot_products, mask_future, scaled_softmax};
use crate::{AttentionConfig, AttentionError};

/// Context vectors, and the attention weights that made them.
type ContextAndWeights<D> = (Array<f32, D>, Array<f32, D>);

/// The book's `CausalAttention`, one head.
///
/// ```
/// use attention::{AttentionConfig, CausalAttention, torch_rng::TorchRng};
/// use ndarray::array;
///
/// let config = AttentionConfig::default(); // 3 features to 2
/// let ca = CausalAttention::new(config, &mut TorchRng::manual_seed(123))?;
/// let context_vecs = ca.forward(&array![[0.43, 0.15, 0.89], [0.55, 0.87, 0.66]])?;
/// assert!((context_vecs[[0, 0]] + 0.4519).abs() < 6e-5); // section 3.5.3 prints -0.4519, 0.2216
/// assert!((context_vecs[[0, 1]] - 0.2216).abs() < 6e-5);
/// # Ok::<(), attention::AttentionError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct CausalAttention {
    /// d_in -> d_out
    pub w_query: Linear,
    /// d_in -> d_out
    pub w_key: Linear,
    /// d_in -> d_out
    pub w_value: Linear,
    /// On the attention weights, in training only.
    pub dropout: Dropout,
    config: AttentionConfig,
}

impl CausalAttention {
    /// Draws query, key and value layers, in this order.
    ///
    /// # Errors
    /// If a size other than `num_heads` is 0 or the dropout rate is not from 0 to 1.
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

    /// The listing's `forward`: (..., num_tokens, d_in) -> (..., num_tokens, d_out), a sequence or
    /// a batch of them, and the attention weights (..., num_tokens, num_tokens), after dropout.
    ///
    /// With a generator it is in training and drops weights, drawing for every element in row-major
    /// order, masked ones too; without it is in evaluation.
    ///
    /// # Errors
    /// If there are more tokens than the context length, or not `d_in` features.
    ///
    /// # Panics
    /// If the input has one dimension.
    pub fn forward_plain<D: Dimension>(
        &self,
        x: &ArrayRef<f32, D>,
        training: Option<&mut TorchRng>,
    ) -> Result<ContextAndWeights<D>, AttentionError> {
        self.config.check_input(x.shape())?;
        let keys = self.w_key.forward(x); // (..., num_tokens, d_out)
        let queries = self.w_query.forward(x);
        let values = self.w_value.forward(x);

        let attn_scores = dot_products(&queries, &keys); // (..., num_tokens, num_tokens)
        let attn_scores = mask_future(&attn_scores);
        let attn_weights = scaled_softmax(&attn_scores, self.config.d_out);
        let attn_weights = self.dropout.forward(attn_weights, training);

        let context_vec = matmul_batched(&attn_weights, &values); // (..., num_tokens, d_out)
        Ok((context_vec, attn_weights))
    }

    /// The context vectors of [`forward_plain`](Self::forward_plain), as in evaluation.
    ///
    /// # Errors
    /// As there.
    pub fn forward<D: Dimension>(
        &self,
        x: &ArrayRef<f32, D>,
    ) -> Result<Array<f32, D>, AttentionError> {
        Ok(self.forward_plain(x, None)?.0)
    }

    /// The attention weights of [`forward_plain`](Self::forward_plain), as in evaluation: each row
    /// sums to 1 and is 0 above the diagonal.
    ///
    /// # Errors
    /// As there.
    pub fn attention_weights<D: Dimension>(
        &self,
        x: &ArrayRef<f32, D>,
    ) -> Result<Array<f32, D>, AttentionError> {
        Ok(self.forward_plain(x, None)?.1)
    }
}

parameters!(CausalAttention { "W_query." w_query, "W_key." w_key, "W_value." w_value });
