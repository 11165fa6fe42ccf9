//! How many parameters a configuration has, counted without allocating one (book section 4.6, exercises 4.1 and 4.2).

use crate::{GptConfig, GptError};

/// Parameters of a model, by part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModelSize {
    /// Token embeddings: vocab_size * emb_dim.
    pub tok_emb: usize,
    /// Position embeddings: context_length * emb_dim.
    pub pos_emb: usize,
    /// The attention of one block: three projections and the output projection with its bias.
    pub attention: usize,
    /// The feed-forward network of one block.
    pub feed_forward: usize,
    /// The two norms of one block.
    pub norms: usize,
    /// Blocks.
    pub n_layers: usize,
    /// The last norm.
    pub final_norm: usize,
    /// The output head; 0 if it is tied.
    pub out_head: usize,
}

impl ModelSize {
    /// All parameters: `sum(p.numel() for p in model.parameters())`.
    pub fn total(&self) -> usize {
        let block = self.attention + self.feed_forward + self.norms;
        self.tok_emb + self.pos_emb + self.n_layers * block + self.final_norm + self.out_head
    }

    /// Parameters as OpenAI counts them, without an output head of its own.
    pub fn without_out_head(&self) -> usize {
        self.total() - self.out_head
    }

    /// The book's "MB" in f32: mebibytes, 1024 * 1024 bytes.
    pub fn mebibytes(&self) -> f64 {
        self.total() as f64 * 4.0 / (1024.0 * 1024.0)
    }
}

impl GptConfig {
    /// Counts the parameters of the model that this configuration makes.
    ///
    /// ```
    /// let size = gpt::GptConfig::GPT2_124M.size()?;
    /// assert_eq!(size.total(), 163_009_536);
    /// assert_eq!(size.without_out_head(), 124_412_160);
    /// # Ok::<(), gpt::GptError>(())
    /// ```
    ///
    /// # Errors
    /// If there are too many to count.
    pub fn size(&self) -> Result<ModelSize, GptError> {
        self.checked_size().ok_or(GptError::TooLarge)
    }

    fn checked_size(&self) -> Option<ModelSize> {
        let emb = self.emb_dim;
        let square = emb.checked_mul(emb)?;
        let hidden = match self.hidden_dim {
            Some(hidden) => hidden,
            None => emb.checked_mul(4)?,
        };
        let qkv_bias = if self.qkv_bias {
            emb.checked_mul(3)?
        } else {
            0
        };
        let tok_emb = self.vocab_size.checked_mul(emb)?;
        let size = ModelSize {
            tok_emb,
            pos_emb: self.context_length.checked_mul(emb)?,
            attention: square
                .checked_mul(4)?
                .checked_add(qkv_bias)?
                .checked_add(emb)?,
            feed_forward: emb
                .checked_mul(hidden)?
                .checked_mul(2)?
                .checked_add(hidden)?
                .checked_add(emb)?,
            norms: emb.checked_mul(4)?,
            n_layers: self.n_layers,
            final_norm: emb.checked_mul(2)?,
            out_head: if self.tied { 0 } else { tok_emb },
        };
        let block = size
            .attention
            .checked_add(size.feed_forward)?
            .checked_add(size.norms)?;
        let total = self
            .n_layers
            .checked_mul(block)?
            .checked_add(tok_emb)?
            .checked_add(size.pos_emb)?
            .checked_add(size.final_norm)?
            .checked_add(size.out_head)?;
        let bytes = total.checked_mul(4)?;
        (bytes <= isize::MAX as usize).then_some(size)
    }
}
