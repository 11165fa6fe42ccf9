//! The "bad minimal language model" of the course worksheet, a notebook with exercises that this
//! project also covers. The model consists of embeddings, one self-attention module without a
//! causal mask, and a prediction layer.
//!
//! The worksheet's model is bad on purpose: without a causal mask, each token can attend to the
//! tokens after it, which it is supposed to predict. This implementation corrects two mistakes in
//! the worksheet. First, the position embedding has `context_length` rows instead of `vocab_size`
//! rows. Second, a sequence may be shorter than the context length.

use attention::SelfAttentionV2;
use ndarray::{Array3, ArrayRef2};
use tensor_ops::{Embedding, Linear};
use torch_rng::TorchRng;

use crate::GptError;
use crate::config::check_sizes;
use crate::ids::embed;

/// The sizes of a [`BadLm`]. Each of them must be at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(deny_unknown_fields))]
pub struct BadLmConfig {
    /// Largest number of tokens that a sequence can have.
    pub context_length: usize,
    /// Number of tokens in the vocabulary. All token IDs must be less than this number.
    pub vocab_size: usize,
    /// Number of features in the embedding of a token.
    pub emb_dim: usize,
    /// Number of features in the context vector of a token.
    pub att_dim: usize,
}

/// A minimal language model without a causal mask, which corresponds to the class `BadLM` of the
/// course worksheet.
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
    /// Token embedding, of shape (vocab_size, emb_dim).
    pub token_embs: Embedding,
    /// Position embedding, of shape (context_length, emb_dim).
    pub pos_embs: Embedding,
    /// Self-attention from `emb_dim` features to `att_dim` features. Its projections have biases.
    pub att: SelfAttentionV2,
    /// Linear layer with bias, from `att_dim` features to `vocab_size` logits.
    pub prediction_layer: Linear,
}

impl BadLm {
    /// Creates a model with random weights. They are drawn in the same order as in the course
    /// worksheet, so a given seed results in the same weights as in the worksheet.
    ///
    /// # Errors
    ///
    /// Returns an error if a size is 0.
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

    /// Computes the logits for each token of the input. `x` contains token IDs and has the shape
    /// (batch, num_tokens). The result has the shape (batch, num_tokens, vocab_size).
    ///
    /// # Errors
    ///
    /// Returns an error if the input is empty, if a sequence is longer than the context length, or
    /// if a token ID isn't in the vocabulary.
    pub fn forward(&self, x: &ArrayRef2<u32>) -> Result<Array3<f32>, GptError> {
        // The embeddings have shape (batch, num_tokens, emb_dim).
        let embedding = embed(x, &self.token_embs, &self.pos_embs)?;
        // The context vectors have shape (batch, num_tokens, att_dim).
        let context_embedding = self.att.forward(&embedding)?;
        Ok(self.prediction_layer.forward(&context_embedding))
    }
}
