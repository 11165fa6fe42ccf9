//! Causal attention: self-attention in which no token sees a later one, with dropout on the weights (book listing 3.3).

use ndarray::{Array, ArrayRef, Dimension};
use tensor_ops::{Dropout, Linear, matmul_batched, parameters};
use torch_rng::TorchRng;

use crate::scores::{dot_products, mask_future, scaled_softmax};
use crate::{AttentionConfig, AttentionError};

/// The book's `CausalAttention`, one head.
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
    /// If a size other than `num_heads` is 0 or the dropout rate is not within [0, 1).
    pub fn new(config: AttentionConfig, rng: &mut TorchRng) -> Result<Self, AttentionError> {
        let one_head = AttentionConfig {
            num_heads: 1,
            ..config
        };
        one_head.check()?;
        let AttentionConfig {
            d_in,
            d_out,
            qkv_bias,
            ..
        } = config;
        Ok(Self {
            w_query: Linear::new(d_in, d_out, qkv_bias, rng),
            w_key: Linear::new(d_in, d_out, qkv_bias, rng),
            w_value: Linear::new(d_in, d_out, qkv_bias, rng),
            dropout: Dropout { p: config.dropout },
            config,
        })
    }

    /// (..., num_tokens, d_in) -> (..., num_tokens, d_out), a sequence or a batch of them, as in evaluation: nothing is dropped.
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
        let attn_weights = self.attention_weights(x)?;
        Ok(matmul_batched(&attn_weights, &self.w_value.forward(x)))
    }

    /// As [`forward`](Self::forward), in training: drops attention weights, drawing for every element in row-major order, masked ones too.
    ///
    /// # Errors
    /// If there are more tokens than the context length, or not `d_in` features.
    ///
    /// # Panics
    /// If the input has one dimension.
    pub fn forward_train<D: Dimension>(
        &self,
        x: &ArrayRef<f32, D>,
        rng: &mut TorchRng,
    ) -> Result<Array<f32, D>, AttentionError> {
        let attn_weights = self.attention_weights(x)?;
        let (attn_weights, _) = self.dropout.forward_train(attn_weights, rng);
        Ok(matmul_batched(&attn_weights, &self.w_value.forward(x)))
    }

    /// The attention weights (..., num_tokens, num_tokens): each row sums to 1 and is 0 above the diagonal.
    ///
    /// # Errors
    /// If there are more tokens than the context length, or not `d_in` features.
    ///
    /// # Panics
    /// If the input has one dimension.
    pub fn attention_weights<D: Dimension>(
        &self,
        x: &ArrayRef<f32, D>,
    ) -> Result<Array<f32, D>, AttentionError> {
        self.config.check_input(x.shape())?;
        let queries = self.w_query.forward(x); // (..., num_tokens, d_out)
        let keys = self.w_key.forward(x);
        let attn_scores = dot_products(&queries, &keys); // (..., num_tokens, num_tokens)
        Ok(scaled_softmax(
            &mask_future(&attn_scores),
            self.config.d_out,
        ))
    }
}

parameters!(CausalAttention { "W_query." w_query, "W_key." w_key, "W_value." w_value });
