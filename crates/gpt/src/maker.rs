//! What a model's layers are made by: drawn from a generator, or all zeros for a gradient.

use attention::MultiHeadAttention;
use tensor_ops::{Embedding, LayerNorm, Linear};
use torch_rng::TorchRng;

use crate::{GptConfig, GptError};

/// With a generator it draws, in the order of the calls; without one it makes zeros.
pub(crate) struct Maker<'a>(pub(crate) Option<&'a mut TorchRng>);

impl Maker<'_> {
    pub(crate) fn linear(&mut self, in_features: usize, out_features: usize, bias: bool) -> Linear {
        match &mut self.0 {
            Some(rng) => Linear::new(in_features, out_features, bias, rng),
            None => Linear::zeros(in_features, out_features, bias),
        }
    }

    pub(crate) fn embedding(&mut self, rows: usize, emb_dim: usize) -> Embedding {
        match &mut self.0 {
            Some(rng) => Embedding::new(rows, emb_dim, rng),
            None => Embedding::zeros(rows, emb_dim),
        }
    }

    /// The attention of one of a model's blocks, counted from 0.
    pub(crate) fn attention(
        &mut self,
        config: &GptConfig,
        block: usize,
    ) -> Result<MultiHeadAttention, GptError> {
        let mut attention = match &mut self.0 {
            Some(rng) => MultiHeadAttention::new(config.attention(), rng),
            None => MultiHeadAttention::zeros(config.attention()),
        }?;
        attention.score_scale = config.score_scale(block);
        Ok(attention)
    }

    /// A norm draws nothing, but begins with a scale of 1.
    pub(crate) fn norm(&self, config: &GptConfig) -> LayerNorm {
        let norm = match self.0 {
            Some(_) => LayerNorm::new(config.emb_dim),
            None => LayerNorm::zeros(config.emb_dim),
        };
        LayerNorm {
            eps: config.norm_eps,
            ..norm
        }
    }
}
