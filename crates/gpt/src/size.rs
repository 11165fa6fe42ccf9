//! How many parameters a configuration has, counted without allocating one (book section 4.6, exercises 4.1 and 4.2).

use crate::{GptConfig, GptError};

/// Parameters of a model, by part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
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
        let mut size = ModelSize {
            n_layers: self.n_layers,
            ..ModelSize::default()
        };
        let of_one_block = Self {
            n_layers: 1,
            ..*self
        };
        for (name, shape) in of_one_block.parameters() {
            let part = match name.trim_start_matches("trf_blocks.0.") {
                name if name.starts_with("tok_emb.") => &mut size.tok_emb,
                name if name.starts_with("pos_emb.") => &mut size.pos_emb,
                name if name.starts_with("att.") => &mut size.attention,
                name if name.starts_with("ff.") => &mut size.feed_forward,
                name if name.starts_with("final_norm.") => &mut size.final_norm,
                name if name.starts_with("out_head.") => &mut size.out_head,
                _ => &mut size.norms,
            };
            let len = shape
                .iter()
                .try_fold(1usize, |len, &n| len.checked_mul(n))?;
            *part = part.checked_add(len)?;
        }
        let block = size
            .attention
            .checked_add(size.feed_forward)?
            .checked_add(size.norms)?;
        let total = self
            .n_layers
            .checked_mul(block)?
            .checked_add(size.tok_emb)?
            .checked_add(size.pos_emb)?
            .checked_add(size.final_norm)?
            .checked_add(size.out_head)?;
        let bytes = total.checked_mul(4)?;
        (bytes <= isize::MAX as usize).then_some(size)
    }
}
