//! The book's `DummyGPTModel` (listing 4.1). It has the structure of a GPT model, but its
//! transformer blocks and its layer normalization are placeholders that return their input
//! unchanged.

use ndarray::{Array3, ArrayRef2};
use tensor_ops::{Dropout, Embedding, Linear};
use torch_rng::TorchRng;

use crate::ids::embed;
use crate::{GptConfig, GptError};

/// A placeholder for [`TransformerBlock`](crate::TransformerBlock) that returns its input
/// unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DummyTransformerBlock;

/// A placeholder for [`LayerNorm`](crate::LayerNorm) that returns its input unchanged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DummyLayerNorm;

impl DummyTransformerBlock {
    /// Returns `x` unchanged.
    pub fn forward(&self, x: Array3<f32>) -> Array3<f32> {
        x
    }
}

impl DummyLayerNorm {
    /// Returns `x` unchanged.
    pub fn forward(&self, x: Array3<f32>) -> Array3<f32> {
        x
    }
}

/// A model with the structure of a GPT model, in which some modules are placeholders. It consists
/// of embeddings, dropout, placeholders for the transformer blocks and for the final layer
/// normalization, and an output head.
///
/// ```
/// use gpt::{DummyGptModel, GptConfig, torch_rng::TorchRng};
/// let config = GptConfig { vocab_size: 50, emb_dim: 12, ..GptConfig::GPT2_124M };
/// let model = DummyGptModel::new(config, &mut TorchRng::manual_seed(123))?;
/// let logits = model.forward(&ndarray::array![[1, 2, 3, 4]], None)?;
/// assert_eq!(logits.dim(), (1, 4, 50));
/// # Ok::<(), gpt::GptError>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct DummyGptModel {
    /// Token embedding, of shape (vocab_size, emb_dim).
    pub tok_emb: Embedding,
    /// Position embedding, of shape (context_length, emb_dim).
    pub pos_emb: Embedding,
    /// Dropout for the sum of the embeddings. It is applied only during training.
    pub drop_emb: Dropout,
    /// The `n_layers` placeholders for the transformer blocks.
    pub trf_blocks: Vec<DummyTransformerBlock>,
    /// Placeholder for the layer normalization before the output head.
    pub final_norm: DummyLayerNorm,
    /// Output head without bias, from `emb_dim` features to `vocab_size` logits.
    pub out_head: Linear,
}

impl DummyGptModel {
    /// Creates a model with random weights. They are drawn in this order: the weights of the token
    /// embedding, those of the position embedding, and those of the output head.
    ///
    /// # Errors
    ///
    /// Returns an error if the configuration isn't valid.
    pub fn new(config: GptConfig, rng: &mut TorchRng) -> Result<Self, GptError> {
        config.validate()?;
        let GptConfig {
            vocab_size,
            context_length,
            emb_dim,
            ..
        } = config;
        Ok(Self {
            tok_emb: Embedding::new(vocab_size, emb_dim, rng),
            pos_emb: Embedding::new(context_length, emb_dim, rng),
            drop_emb: Dropout {
                p: config.drop_rates.emb,
            },
            trf_blocks: vec![DummyTransformerBlock; config.n_layers],
            final_norm: DummyLayerNorm,
            out_head: Linear::new(emb_dim, vocab_size, false, rng),
        })
    }

    /// Computes the logits for each token of the input. `in_idx` contains token IDs and has the
    /// shape (batch, num_tokens). The result has the shape (batch, num_tokens, vocab_size).
    ///
    /// If `training` contains a random number generator, dropout is applied. The output that the
    /// book prints was computed in this way. If `training` is `None`, the model is in evaluation
    /// mode, and dropout isn't applied.
    ///
    /// # Errors
    ///
    /// Returns an error if the input is empty, if a sequence is longer than the context length, or
    /// if a token ID isn't in the vocabulary.
    pub fn forward(
        &self,
        in_idx: &ArrayRef2<u32>,
        training: Option<&mut TorchRng>,
    ) -> Result<Array3<f32>, GptError> {
        let x = embed(in_idx, &self.tok_emb, &self.pos_emb)?; // tok_embeds + pos_embeds
        let mut x = self.drop_emb.forward(x, training); // shape: (batch, num_tokens, emb_dim)
        for block in &self.trf_blocks {
            x = block.forward(x);
        }
        let x = self.final_norm.forward(x);
        Ok(self.out_head.forward(&x))
    }
}
