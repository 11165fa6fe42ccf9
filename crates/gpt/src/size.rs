//! The number of parameters of a configuration (book section 4.6, exercises 4.1 and 4.2), and the
//! memory that each use of it takes; counted without allocating any.
//!
//! The memory is an upper estimate of the large parts. It doesn't include the program itself or
//! temporary values within a layer.

use tensor_ops::engine::packed_bytes;

use crate::{BatchParts, GptConfig, GptError, LOGIT_ROWS};

/// Bytes of an f32.
const F32: usize = 4;

/// Rows of features that a block keeps of a token for its backward pass: two norms' inputs, the
/// projections' three outputs and input, the context, the feed-forward network's input, and its
/// hidden rows before and after GELU, which count four each.
const ROWS: usize = 16;

/// Rows that drawing a token takes: sampling needs logits, probabilities and indices (which count
/// two).
const SORTED: usize = 4;

/// Bytes of a candidate that is shown, with its text.
const CANDIDATE: usize = 80;

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

    /// Parameters as OpenAI counts them, without a separate output head.
    pub fn without_out_head(&self) -> usize {
        self.total() - self.out_head
    }

    /// The book's "MB" in f32: mebibytes, 1024 * 1024 bytes.
    pub fn mebibytes(&self) -> f64 {
        self.total() as f64 * 4.0 / (1024.0 * 1024.0)
    }
}

/// Bytes of memory in use at the same time, by purpose.
///
/// ```
/// use gpt::{GptConfig, Memory};
/// let memory = GptConfig::GPT2_124M.weights_memory()?;
/// assert_eq!((memory.parts()[0].0, memory.total()), ("weights", 652_038_144));
/// assert_eq!(Memory::new().with("a table", &[4, 100, 768])?.total(), 307_200);
/// # Ok::<(), gpt::GptError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    parts: Vec<(&'static str, u64)>,
    total: u64,
}

impl Memory {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// The same with one more part, whose bytes are a product of sizes.
    ///
    /// # Errors
    /// [`GptError::TooLarge`] if 64 bits can't count them.
    pub fn with(mut self, name: &'static str, sizes: &[usize]) -> Result<Self, GptError> {
        let bytes = sizes
            .iter()
            .try_fold(1u64, |bytes, &size| bytes.checked_mul(size as u64));
        let total = bytes.and_then(|bytes| self.total.checked_add(bytes));
        self.total = total.ok_or(GptError::TooLarge)?;
        self.parts.extend(bytes.map(|bytes| (name, bytes)));
        Ok(self)
    }

    /// Each part's name and bytes.
    pub fn parts(&self) -> &[(&'static str, u64)] {
        &self.parts
    }

    /// All bytes.
    pub fn total(&self) -> u64 {
        self.total
    }
}

impl GptConfig {
    /// The memory of the weights in f32.
    ///
    /// # Errors
    /// If there are too many to count; so in all that follow.
    pub fn weights_memory(&self) -> Result<Memory, GptError> {
        Memory::new().with("weights", &[F32, self.size()?.total()])
    }

    /// The memory of decoding in addition to the weights: keys and values of `texts` texts with
    /// this many tokens each, a layer's intermediate values for a prompt of this length, and the
    /// logits of all texts, which are sorted for sampling.
    ///
    /// ```
    /// let config = gpt::GptConfig::GPT2_124M;
    /// let memory = config.decoding_memory(1, 1024)?;
    /// assert_eq!(memory.parts()[0], ("keys and values", 75_497_472));
    /// # Ok::<(), gpt::GptError>(())
    /// ```
    pub fn decoding_memory(&self, texts: usize, tokens: usize) -> Result<Memory, GptError> {
        let (layers, features) = (self.n_layers, self.emb_dim);
        Memory::new()
            .with(
                "keys and values",
                &[2 * F32, layers, features, texts, tokens],
            )?
            .with("activations", &[F32, tokens, self.row()])?
            .with("logits", &[F32, 1 + SORTED, texts, self.vocab_size])
    }

    /// Numbers that a layer has of a token at once: queries, keys, values, contexts, two norms and
    /// their sum beside the hidden row.
    fn row(&self) -> usize {
        let others = self.emb_dim.saturating_mul(8);
        self.feed_forward_dim().saturating_add(others)
    }

    /// The memory of training: weights, gradients (for each part of a small model's batch) and
    /// AdamW's two moments; the intermediate values of a batch of `batch_size` windows of `tokens`
    /// tokens; the rows of logits that exist at the same time, in training and in an evaluation;
    /// and the packed operands of products.
    pub fn training_memory(&self, batch_size: usize, tokens: usize) -> Result<Memory, GptError> {
        let (layers, features) = (self.n_layers, self.emb_dim);
        let parameters = self.size()?.total();
        let parts = BatchParts::most(parameters);
        let rows = batch_size.saturating_mul(tokens).min(LOGIT_ROWS);
        let widest = self.vocab_size.max(self.feed_forward_dim());
        let memory = Memory::new()
            .with("weights", &[F32, parameters])?
            .with("gradients", &[F32, parameters, parts])?
            .with("moments", &[2 * F32, parameters])?
            .with(
                "activations",
                &[F32 * ROWS, batch_size, tokens, layers, features],
            )?
            .with("logits", &[2 * F32, rows, self.vocab_size])?
            .with(
                "packed matrices",
                &[parts.min(batch_size), packed_bytes(features, widest)],
            )?;
        if self.drop_rates.attention == 0.0 {
            return Ok(memory);
        }
        // A bit each.
        let bytes = tokens.div_ceil(8);
        memory.with(
            "dropout masks",
            &[batch_size, self.n_heads, tokens, bytes, layers],
        )
    }

    /// The memory that the loss of a window of `tokens` tokens takes beside the weights
    /// ([`GptModel::token_losses`](crate::GptModel::token_losses)).
    pub fn evaluation_memory(&self, tokens: usize) -> Result<Memory, GptError> {
        let packed = packed_bytes(self.emb_dim, self.vocab_size);
        Memory::new()
            .with("activations", &[F32, tokens, self.row()])?
            .with("logits", &[F32, tokens.min(LOGIT_ROWS), self.vocab_size])?
            .with("packed matrices", &[packed])
    }

    /// The memory of inspecting a text of `tokens` tokens, one block after the other
    /// ([`GptModel::trace`](crate::GptModel::trace)): the attention weights of one block with their
    /// raw, masked and scaled scores and the mask; `rows` rows of logits; and `top` candidates for
    /// each token.
    pub fn inspection_memory(
        &self,
        tokens: usize,
        rows: usize,
        top: usize,
    ) -> Result<Memory, GptError> {
        Memory::new()
            .with(
                "attention weights",
                &[F32, 4 * self.n_heads + 1, tokens, tokens],
            )?
            .with("activations", &[F32, tokens, self.row()])?
            .with("logits", &[2 * F32, rows.min(tokens), self.vocab_size])?
            .with("candidates", &[CANDIDATE, tokens, top.min(self.vocab_size)])
    }

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_64_bits_cannot_count_is_an_error_and_no_smaller_number() {
        let endless = GptConfig {
            context_length: 1 << 40,
            n_layers: 1 << 10,
            ..GptConfig::GPT2_124M
        };
        let cache = endless.decoding_memory(1, 1 << 50);
        assert_eq!(cache, Err(GptError::TooLarge));
        assert_eq!(
            Memory::new().with("a", &[usize::MAX, 2]),
            Err(GptError::TooLarge)
        );
    }

    #[test]
    fn training_counts_all_rows_of_logits_that_exist_at_once() {
        let memory = GptConfig::GPT2_124M.training_memory(4, 1024).unwrap();
        let logits = memory.parts().iter().find(|(name, _)| *name == "logits");
        assert_eq!(logits, Some(&("logits", 8 * LOGIT_ROWS as u64 * 50_257)));
        let sum: u64 = memory.parts().iter().map(|(_, bytes)| bytes).sum();
        assert_eq!(memory.total(), sum);
    }
}
