//! The course worksheet's "bad minimal language model": embeddings, one unmasked self-attention, a
//! prediction layer.
//!
//! It is bad on purpose: every token sees the future.
//! Two faults of the worksheet are mended: the position embedding has `context_length` rows, not
//! `vocab_size`, and a sequence shorter than the context works.

use attention::SelfAttentionV2;
use ndarray::{Array3, ArrayRef2};
use tensor_ops::{Embedding, Linear};
use torch_rng::TorchRng;

use crate::GptError;
use crate::config::check_sizes;
use crate::ids::embed;

/// The sizes of a [`BadLm`], each at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct BadLmConfig {
    /// The most tokens a sequence may have.
    pub context_length: usize,
    /// Token ids are below this.
    pub vocab_size: usize,
    /// Features of a token.
    pub emb_dim: usize,
    /// Features of its context vector.
    pub att_dim: usize,
}

/// The worksheet's `BadLM`.
///
/// ```
/// use gpt::{BadLm, BadLmConfig, torch_rng::TorchRng};
/// let config = BadLmConfig { context_length: 4, vocab_size: 10, emb_dim: 6, att_dim: 3 };
/// let model = BadLm::new(config, &mut TorchRng::manual_seed(123))?;
/// assert_eq!(model.forward(&ndarray::array![[1, 2, 3]])?.dim(), (1, 3, 10));
/// # Ok::<(), gpt::GptError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct BadLm {
    /// (vocab_size, emb_dim)
    pub token_embs: Embedding,
    /// (context_length, emb_dim)
    pub pos_embs: Embedding,
    /// emb_dim -> att_dim, with biases
    pub att: SelfAttentionV2,
    /// att_dim -> vocab_size
    pub prediction_layer: Linear,
}

impl BadLm {
    /// Draws its parts in the worksheet's order.
    ///
    /// # Errors
    /// If a size is 0.
    pub fn new(config: BadLmConfig, rng: &mut TorchRng) -> Result<Self, GptError> {
        let BadLmConfig {
            context_length,
            vocab_size,
            emb_dim,
            att_dim,
        } = config;
        check_sizes(&[
            ("context_length", context_length),
            ("vocab_size", vocab_size),
            ("emb_dim", emb_dim),
            ("att_dim", att_dim),
        ])?;
        Ok(Self {
            token_embs: Embedding::new(vocab_size, emb_dim, rng),
            pos_embs: Embedding::new(context_length, emb_dim, rng),
            att: SelfAttentionV2::new(emb_dim, att_dim, true, rng),
            prediction_layer: Linear::new(att_dim, vocab_size, true, rng),
        })
    }

    /// Token ids (batch, num_tokens) -> logits (batch, num_tokens, vocab_size)
    ///
    /// # Errors
    /// If the text is empty, a token is not in the vocabulary, or the text exceeds the context
    /// length.
    pub fn forward(&self, x: &ArrayRef2<u32>) -> Result<Array3<f32>, GptError> {
        let embedding = embed(x, &self.token_embs, &self.pos_embs)?; // (batch, num_tokens, emb_dim)
        let context_embedding = self.att.forward(&embedding)?; // (batch, num_tokens, att_dim)
        Ok(self.prediction_layer.forward(&context_embedding))
    }
}
