//! Several causal attention heads side by side, their outputs concatenated (book listing 3.4).
//!
//! [`MultiHeadAttention`](crate::MultiHeadAttention) does the same work in one module and adds an output projection.

use ndarray::{Array3, ArrayRef3, Axis, concatenate};
use tensor_ops::parameters;
use torch_rng::TorchRng;

use crate::{AttentionConfig, AttentionError, CausalAttention};

/// The book's `MultiHeadAttentionWrapper`.
#[derive(Clone, Debug, PartialEq)]
pub struct MultiHeadAttentionWrapper {
    /// `num_heads` of them, each d_in -> d_out
    pub heads: Vec<CausalAttention>,
}

impl MultiHeadAttentionWrapper {
    /// Draws head after head.
    ///
    /// # Errors
    /// If a size is 0 or the dropout rate is not within [0, 1).
    pub fn new(config: AttentionConfig, rng: &mut TorchRng) -> Result<Self, AttentionError> {
        config.check()?;
        let heads = (0..config.num_heads)
            .map(|_| CausalAttention::new(config, rng))
            .collect::<Result<_, _>>()?;
        Ok(Self { heads })
    }

    /// (batch, num_tokens, d_in) -> (batch, num_tokens, num_heads * d_out), as in evaluation.
    ///
    /// # Errors
    /// If there are more tokens than the context length, or not `d_in` features.
    pub fn forward(&self, x: &ArrayRef3<f32>) -> Result<Array3<f32>, AttentionError> {
        self.concatenated(|head| head.forward(x))
    }

    /// As [`forward`](Self::forward), in training: each head drops weights, in order.
    ///
    /// # Errors
    /// If there are more tokens than the context length, or not `d_in` features.
    pub fn forward_train(
        &self,
        x: &ArrayRef3<f32>,
        rng: &mut TorchRng,
    ) -> Result<Array3<f32>, AttentionError> {
        self.concatenated(|head| head.forward_train(x, rng))
    }

    fn concatenated(
        &self,
        forward: impl FnMut(&CausalAttention) -> Result<Array3<f32>, AttentionError>,
    ) -> Result<Array3<f32>, AttentionError> {
        let outputs = self
            .heads
            .iter()
            .map(forward)
            .collect::<Result<Vec<_>, _>>()?;
        let views: Vec<_> = outputs.iter().map(|output| output.view()).collect();
        Ok(concatenate(Axis(2), &views)
            .expect("the heads have one shape, and there is at least one"))
    }
}

parameters!(MultiHeadAttentionWrapper { "heads." heads });
