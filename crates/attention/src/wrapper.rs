//! Several causal attention heads side by side, their outputs concatenated (book listing 3.4).
//!
//! [`MultiHeadAttention`](crate::MultiHeadAttention) does the same work in one module and adds an output projection.

use ndarray::{Array, ArrayRef, Axis, RemoveAxis, concatenate};
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

    /// (..., num_tokens, d_in) -> (..., num_tokens, num_heads * d_out), a sequence or a batch of them, as in evaluation.
    ///
    /// # Errors
    /// If there are more tokens than the context length, or not `d_in` features.
    ///
    /// # Panics
    /// If the input has one dimension.
    pub fn forward<D: RemoveAxis>(
        &self,
        x: &ArrayRef<f32, D>,
    ) -> Result<Array<f32, D>, AttentionError> {
        self.concatenated(|head| head.forward(x))
    }

    /// As [`forward`](Self::forward), in training: each head drops weights, in order.
    ///
    /// # Errors
    /// If there are more tokens than the context length, or not `d_in` features.
    ///
    /// # Panics
    /// If the input has one dimension.
    pub fn forward_train<D: RemoveAxis>(
        &self,
        x: &ArrayRef<f32, D>,
        rng: &mut TorchRng,
    ) -> Result<Array<f32, D>, AttentionError> {
        self.concatenated(|head| head.forward_train(x, rng))
    }

    fn concatenated<D: RemoveAxis>(
        &self,
        forward: impl FnMut(&CausalAttention) -> Result<Array<f32, D>, AttentionError>,
    ) -> Result<Array<f32, D>, AttentionError> {
        let outputs = self
            .heads
            .iter()
            .map(forward)
            .collect::<Result<Vec<_>, _>>()?;
        let views: Vec<_> = outputs.iter().map(|output| output.view()).collect();
        Ok(concatenate(Axis(views[0].ndim() - 1), &views)
            .expect("the heads have one shape, and there is at least one"))
    }
}

parameters!(MultiHeadAttentionWrapper { "heads." heads });
