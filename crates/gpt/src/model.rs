//! The GPT model: token and position embeddings, transformer blocks, a last norm, an output head (book listing 4.7).

use ndarray::{Array3, Array4, ArrayRef2, ArrayRef3};
use tensor_ops::{
    Dropout, DropoutCache, Embedding, LayerNorm, LayerNormCache, Linear, awake, matmul, parameters,
    recycle,
};
use torch_rng::TorchRng;

use crate::embed::embed;
use crate::maker::Maker;
use crate::{GptConfig, GptError, TransformerBlock, TransformerBlockCache};

/// The book's `GPTModel`; also its gradient, and the optimizer's moments of it.
#[derive(Clone, Debug, PartialEq)]
pub struct GptModel {
    /// (vocab_size, emb_dim)
    pub tok_emb: Embedding,
    /// (context_length, emb_dim)
    pub pos_emb: Embedding,
    /// On the sum of the embeddings, in training only.
    pub drop_emb: Dropout,
    /// `n_layers` of them
    pub trf_blocks: Vec<TransformerBlock>,
    /// Before the head.
    pub final_norm: LayerNorm,
    /// emb_dim -> vocab_size, without bias; `None` if the head is tied to `tok_emb`
    pub out_head: Option<Linear>,
    config: GptConfig,
}

/// What [`GptModel::backward`] needs of the forward pass.
#[derive(Clone, Debug)]
pub struct GptCache {
    pub(crate) ids: ndarray::Array2<u32>,
    pub(crate) drop_emb: DropoutCache,
    pub(crate) blocks: Vec<TransformerBlockCache>,
    pub(crate) final_norm: LayerNormCache,
    /// (batch, num_tokens, emb_dim): what the head was given
    pub(crate) normed: Array3<f32>,
}

impl GptModel {
    /// Draws token embeddings, position embeddings, block after block, and the output head, as the book's constructor does.
    ///
    /// # Errors
    /// If the configuration is not valid.
    pub fn new(config: GptConfig, rng: &mut TorchRng) -> Result<Self, GptError> {
        Self::build(config, Maker(Some(rng)))
    }

    /// All zeros: a gradient to be accumulated into, or a place to load weights into.
    ///
    /// # Errors
    /// If the configuration is not valid.
    pub fn zeros(config: GptConfig) -> Result<Self, GptError> {
        Self::build(config, Maker(None))
    }

    fn build(config: GptConfig, mut maker: Maker) -> Result<Self, GptError> {
        config.validate()?;
        let GptConfig {
            vocab_size,
            context_length,
            emb_dim,
            ..
        } = config;
        Ok(Self {
            tok_emb: maker.embedding(vocab_size, emb_dim),
            pos_emb: maker.embedding(context_length, emb_dim),
            drop_emb: Dropout {
                p: config.drop_rates.emb,
            },
            trf_blocks: (0..config.n_layers)
                .map(|block| TransformerBlock::build(&config, block, &mut maker))
                .collect::<Result<_, _>>()?,
            final_norm: maker.norm(&config),
            out_head: (!config.tied).then(|| maker.linear(emb_dim, vocab_size, false)),
            config,
        })
    }

    /// What it was built from.
    pub fn config(&self) -> &GptConfig {
        &self.config
    }

    /// Token ids (batch, num_tokens) -> logits (batch, num_tokens, vocab_size), as in evaluation: nothing is dropped.
    ///
    /// # Errors
    /// If there is no token, one that the vocabulary doesn't have, or more than the context length.
    pub fn forward(&self, in_idx: &ArrayRef2<u32>) -> Result<Array3<f32>, GptError> {
        Ok(self.logits(&self.forward_hidden(in_idx)?))
    }

    /// The model without its head: token ids (batch, num_tokens) -> the normed output of the last block (batch, num_tokens, emb_dim).
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_hidden(&self, in_idx: &ArrayRef2<u32>) -> Result<Array3<f32>, GptError> {
        let mut x = embed(in_idx, &self.tok_emb, &self.pos_emb)?;
        awake(|| {
            for block in &self.trf_blocks {
                x = block.pass(x, None)?.0; // its cache is dropped here
            }
            Ok(self.final_norm.forward(&x))
        })
    }

    /// Where each block's attention looks: weights (batch, num_heads, num_tokens, num_tokens) a block, as [`MultiHeadAttention::attention_weights`](attention::MultiHeadAttention::attention_weights) gives them for its input.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn attention_weights(&self, in_idx: &ArrayRef2<u32>) -> Result<Vec<Array4<f32>>, GptError> {
        let mut x = embed(in_idx, &self.tok_emb, &self.pos_emb)?;
        let mut weights = Vec::with_capacity(self.trf_blocks.len());
        for block in &self.trf_blocks {
            weights.push(block.att.attention_weights(&block.norm1.forward(&x))?);
            x = block.forward(&x)?;
        }
        Ok(weights)
    }

    /// The head alone: (batch, num_tokens, emb_dim) -> (batch, num_tokens, vocab_size).
    ///
    /// # Panics
    /// If the last dimension is not `emb_dim`.
    pub fn logits(&self, hidden: &ArrayRef3<f32>) -> Array3<f32> {
        match &self.out_head {
            Some(out_head) => out_head.forward(hidden),
            None => {
                let (batch, num_tokens, emb_dim) = hidden.dim();
                let hidden = hidden.as_standard_layout();
                let rows = hidden
                    .view()
                    .into_shape_with_order((batch * num_tokens, emb_dim))
                    .expect("row-major");
                matmul(&rows, &self.tok_emb.weight.t())
                    .into_shape_with_order((batch, num_tokens, self.config.vocab_size))
                    .expect("batch * num_tokens rows")
            }
        }
    }

    /// As [`forward`](Self::forward), in training: drops (embeddings, then block by block attention weights, attention shortcut, feed-forward shortcut), and keeps what [`backward`](Self::backward) needs.
    ///
    /// # Errors
    /// As [`forward`](Self::forward).
    pub fn forward_train(
        &self,
        in_idx: &ArrayRef2<u32>,
        rng: &mut TorchRng,
    ) -> Result<(Array3<f32>, GptCache), GptError> {
        let cache = self.forward_hidden_train(in_idx, rng)?;
        Ok((self.logits(&cache.normed), cache))
    }

    pub(crate) fn forward_hidden_train(
        &self,
        in_idx: &ArrayRef2<u32>,
        rng: &mut TorchRng,
    ) -> Result<GptCache, GptError> {
        let (mut x, drop_emb) = self
            .drop_emb
            .forward_train(embed(in_idx, &self.tok_emb, &self.pos_emb)?, rng);
        let mut blocks = Vec::with_capacity(self.trf_blocks.len());
        for block in &self.trf_blocks {
            let (out, cache) = block.forward_train(x, rng)?;
            blocks.push(cache);
            x = out;
        }
        let (normed, final_norm) = self.final_norm.forward_train(&x);
        recycle([x]);
        Ok(GptCache {
            ids: in_idx.to_owned(),
            drop_emb,
            blocks,
            final_norm,
            normed,
        })
    }
}

parameters!(GptModel {

    "tok_emb." tok_emb, "pos_emb." pos_emb,
    "trf_blocks." trf_blocks,
    "final_norm." final_norm, "out_head." out_head,

});
