//! The book's `DummyGPTModel` (listing 4.1): the shape of a GPT, with blocks and a norm that do
//! nothing yet.

use ndarray::{Array3, ArrayRef2};
use tensor_ops::{Dropout, Embedding, Linear};
use torch_rng::TorchRng;

use crate::ids::embed;
use crate::{GptConfig, GptError};

/// Stands for [`TransformerBlock`](crate::TransformerBlock): returns its input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DummyTransformerBlock;

/// Stands for [`LayerNorm`](crate::LayerNorm): returns its input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DummyLayerNorm;

impl DummyTransformerBlock {
    /// The identity, any shape.
    pub fn forward(&self, x: Array3<f32>) -> Array3<f32> {
        x
    }
}

impl DummyLayerNorm {
    /// The identity, any shape.
    pub fn forward(&self, x: Array3<f32>) -> Array3<f32> {
        x
    }
}

/// The placeholder model: embeddings, dropout, dummies, and the output head.
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
    /// (vocab_size, emb_dim)
    pub tok_emb: Embedding,
    /// (context_length, emb_dim)
    pub pos_emb: Embedding,
    /// On the sum of the embeddings, in training only.
    pub drop_emb: Dropout,
    /// `n_layers` of them
    pub trf_blocks: Vec<DummyTransformerBlock>,
    /// Before the head.
    pub final_norm: DummyLayerNorm,
    /// emb_dim -> vocab_size, without bias
    pub out_head: Linear,
}

impl DummyGptModel {
    /// Draws token embeddings, position embeddings and the output head, in this order.
    ///
    /// # Errors
    /// If the configuration is not valid.
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

    /// Token ids (batch, num_tokens) -> logits (batch, num_tokens, vocab_size). With a generator
    /// the model is in training mode and drops, like the book's printed output; without one it is
    /// in evaluation mode.
    ///
    /// # Errors
    /// If the text is empty, a token is not in the vocabulary, or the text exceeds the context
    /// length.
    pub fn forward(
        &self,
        in_idx: &ArrayRef2<u32>,
        training: Option<&mut TorchRng>,
    ) -> Result<Array3<f32>, GptError> {
        let x = embed(in_idx, &self.tok_emb, &self.pos_emb)?; // tok_embeds + pos_embeds
        let mut x = self.drop_emb.forward(x, training); // (batch, num_tokens, emb_dim)
        for block in &self.trf_blocks {
            x = block.forward(x);
        }
        let x = self.final_norm.forward(x);
        Ok(self.out_head.forward(&x))
    }
}
