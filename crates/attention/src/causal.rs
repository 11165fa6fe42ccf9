//! Causal attention: self-attention in which no token sees a later one, with dropout on the weights, for batches (book listing 3.3).

use ndarray::{Array3, ArrayRef3, ArrayViewD, ArrayViewMutD};
use tensor_ops::{Dropout, Linear, Parameters, matmul_batched};
use torch_rng::TorchRng;

use crate::scores::{mask_future, scaled_softmax};
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
    /// If a size is 0 or the dropout rate is not within [0, 1).
    pub fn new(config: AttentionConfig, rng: &mut TorchRng) -> Result<Self, AttentionError> {
        config.check()?;
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

    /// (batch, num_tokens, d_in) -> (batch, num_tokens, d_out), as in evaluation: nothing is dropped.
    ///
    /// # Errors
    /// If there are more tokens than the context length, or not `d_in` features.
    pub fn forward(&self, x: &ArrayRef3<f32>) -> Result<Array3<f32>, AttentionError> {
        let attn_weights = self.attention_weights(x)?;
        Ok(matmul_batched(&attn_weights, &self.w_value.forward(x)))
    }

    /// As [`forward`](Self::forward), in training: drops attention weights, drawing for every element in row-major order, masked ones too.
    ///
    /// # Errors
    /// If there are more tokens than the context length, or not `d_in` features.
    pub fn forward_train(
        &self,
        x: &ArrayRef3<f32>,
        rng: &mut TorchRng,
    ) -> Result<Array3<f32>, AttentionError> {
        let attn_weights = self.attention_weights(x)?;
        let (attn_weights, _) = self.dropout.forward_train(attn_weights, rng);
        Ok(matmul_batched(&attn_weights, &self.w_value.forward(x)))
    }

    /// The attention weights (batch, num_tokens, num_tokens): each row sums to 1 and is 0 above the diagonal.
    ///
    /// # Errors
    /// If there are more tokens than the context length, or not `d_in` features.
    pub fn attention_weights(&self, x: &ArrayRef3<f32>) -> Result<Array3<f32>, AttentionError> {
        self.config.check_input(x.shape())?;
        let queries = self.w_query.forward(x); // (batch, num_tokens, d_out)
        let keys = self.w_key.forward(x);
        let scores = matmul_batched(&queries, &keys.view().permuted_axes([0, 2, 1])); // (batch, num_tokens, num_tokens)
        Ok(scaled_softmax(&mask_future(&scores), self.config.d_out))
    }
}

impl Parameters for CausalAttention {
    fn visit<'a>(&'a self, prefix: &str, visit: &mut dyn FnMut(String, ArrayViewD<'a, f32>)) {
        self.w_query.visit(&format!("{prefix}W_query."), visit);
        self.w_key.visit(&format!("{prefix}W_key."), visit);
        self.w_value.visit(&format!("{prefix}W_value."), visit);
    }

    fn visit_mut<'a>(
        &'a mut self,
        prefix: &str,
        visit: &mut dyn FnMut(String, ArrayViewMutD<'a, f32>),
    ) {
        self.w_query.visit_mut(&format!("{prefix}W_query."), visit);
        self.w_key.visit_mut(&format!("{prefix}W_key."), visit);
        self.w_value.visit_mut(&format!("{prefix}W_value."), visit);
    }
}
