//! Number of parameters of a model (section 4.6 and exercises 4.1 and 4.2 of the book), and
//! estimates of the memory required for training, evaluation, decoding and inspection. Both are
//! calculated from the model's configuration, so the model doesn't have to be created.
//!
//! The estimates are upper bounds for the memory that the large arrays need. They include neither
//! the program itself nor temporary arrays inside a layer.

use tensor_ops::engine::packed_bytes;

use crate::model::LOGIT_ROWS;
use crate::{BatchParts, GptConfig, GptError};

/// Size of an `f32` in bytes.
const F32: usize = 4;

/// Number of rows of `emb_dim` features that the forward pass of a transformer block stores per
/// token for the backward pass. These are the inputs of both layer normalizations (2 rows), the
/// input of the query, key and value layers (1), their outputs (3), the context vectors (1), and
/// the input of the feed-forward network (1). The feed-forward network's hidden features before and
/// after GELU aren't included.
const CACHED_ROWS: usize = 8;

/// Number of rows of `vocab_size` 4-byte elements that are needed to sample a token, in addition to
/// the row of logits itself. These are a copy of the logits (1 row), the probabilities (1), and the
/// token indices, which need twice as much memory per element (2).
const SAMPLING_ROWS: usize = 4;

/// Estimated size in bytes of one displayed candidate for the next token, including the candidate's
/// text.
const CANDIDATE_BYTES: usize = 80;

/// The number of parameters in each part of a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ModelSize {
    /// Number of parameters of the token embedding, `vocab_size * emb_dim`.
    pub tok_emb: usize,
    /// Number of parameters of the position embedding, `context_length * emb_dim`.
    pub pos_emb: usize,
    /// Number of parameters of the attention module in one block. They belong to the query, key and
    /// value layers and to the output projection.
    pub attention: usize,
    /// Number of parameters of the feed-forward network in one block.
    pub feed_forward: usize,
    /// Number of parameters of both layer normalizations in one block.
    pub norms: usize,
    /// Number of transformer blocks.
    pub n_layers: usize,
    /// Number of parameters of the final layer normalization.
    pub final_norm: usize,
    /// Number of parameters of the output head. It is 0 if the output head is tied, because it then
    /// uses the parameters of the token embedding.
    pub out_head: usize,
}

impl ModelSize {
    /// Returns the number of all parameters. The PyTorch equivalent is
    /// `sum(p.numel() for p in model.parameters())`.
    pub fn total(&self) -> usize {
        let block = self.attention + self.feed_forward + self.norms;
        self.tok_emb + self.pos_emb + self.n_layers * block + self.final_norm + self.out_head
    }

    /// Returns the number of all parameters except those of the output head. OpenAI counts the
    /// parameters of GPT-2 in the same way.
    pub fn without_out_head(&self) -> usize {
        self.total() - self.out_head
    }

    /// Returns the size of all parameters in mebibytes (1024 * 1024 bytes) if they are stored in
    /// `f32`. The book calls this unit MB.
    pub fn mebibytes(&self) -> f64 {
        self.total() as f64 * 4.0 / (1024.0 * 1024.0)
    }
}

/// An estimate of the memory that a computation needs. It is a list of named items, called parts,
/// each of which has a size in bytes.
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
    /// Creates a `Memory` without any parts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an item to this memory estimate, and returns the new estimate. The item is called
    /// `name`, and its size in bytes is the product of the elements of `sizes`. For example, the
    /// sizes `[4, 100, 768]` stand for a table of 100 rows of 768 numbers of 4 bytes each.
    ///
    /// # Errors
    ///
    /// Returns [`GptError::TooLarge`] if the total number of bytes doesn't fit in 64 bits.
    pub fn with(mut self, name: &'static str, sizes: &[usize]) -> Result<Self, GptError> {
        let bytes = sizes
            .iter()
            .try_fold(1u64, |bytes, &size| bytes.checked_mul(size as u64));
        let total = bytes.and_then(|bytes| self.total.checked_add(bytes));
        self.total = total.ok_or(GptError::TooLarge)?;
        self.parts.extend(bytes.map(|bytes| (name, bytes)));
        Ok(self)
    }

    /// Returns the name and the number of bytes of each part.
    pub fn parts(&self) -> &[(&'static str, u64)] {
        &self.parts
    }

    /// Returns the total number of bytes.
    pub fn total(&self) -> u64 {
        self.total
    }
}

impl GptConfig {
    /// Calculates the memory required for the weights in `f32`.
    ///
    /// # Errors
    ///
    /// Returns [`GptError::TooLarge`] if the weights don't fit in the address space.
    pub fn weights_memory(&self) -> Result<Memory, GptError> {
        Memory::new().with("weights", &[F32, self.size()?.total()])
    }

    /// Calculates the memory required for decoding `texts` sequences of up to `tokens` tokens each,
    /// in addition to the memory for the weights.
    ///
    /// The estimate includes the keys and values of all sequences, the activations of one layer for
    /// a prompt of `tokens` tokens, the logits of the next token of each sequence, and the copies
    /// of these logits that are needed for sampling.
    ///
    /// ```
    /// let config = gpt::GptConfig::GPT2_124M;
    /// let memory = config.decoding_memory(1, 1024)?;
    /// assert_eq!(memory.parts()[0], ("keys and values", 75_497_472));
    /// # Ok::<(), gpt::GptError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`GptError::TooLarge`] if the total number of bytes doesn't fit in 64 bits.
    pub fn decoding_memory(&self, texts: usize, tokens: usize) -> Result<Memory, GptError> {
        let (layers, features) = (self.n_layers, self.emb_dim);
        Memory::new()
            .with(
                "keys and values",
                &[2 * F32, layers, features, texts, tokens],
            )?
            .with("activations", &[F32, tokens, self.per_token()])?
            .with("logits", &[F32, 1 + SAMPLING_ROWS, texts, self.vocab_size])
    }

    /// Returns the maximum number of `f32` values per token that are in memory at the same time
    /// during the forward pass of a block. They consist of the hidden features of the feed-forward
    /// network and eight rows of `emb_dim` features: the queries, the keys, the values, the context
    /// vectors, the outputs of both layer normalizations, the sum at the first shortcut connection,
    /// and the residual stream.
    fn per_token(&self) -> usize {
        let others = self.emb_dim.saturating_mul(8);
        self.feed_forward_dim().saturating_add(others)
    }

    /// Calculates the memory required for training with batches of `batch_size` windows of `tokens`
    /// tokens each.
    ///
    /// The estimate includes the weights, the gradients, the two moments of AdamW, the activations
    /// that the backward pass needs, the dropout masks of the attention weights, the rows of logits
    /// that are in memory at the same time, and the packed operands of matrix products. If batches
    /// are divided into parts (see [`BatchParts`]), the estimate includes separate gradients for
    /// each part.
    ///
    /// # Errors
    ///
    /// Returns [`GptError::TooLarge`] if the weights don't fit in the address space, or if the
    /// total number of bytes doesn't fit in 64 bits.
    pub fn training_memory(&self, batch_size: usize, tokens: usize) -> Result<Memory, GptError> {
        let (layers, features) = (self.n_layers, self.emb_dim);
        let parameters = self.size()?.total();
        let parts = BatchParts::max_parts(parameters);
        let rows = batch_size.saturating_mul(tokens).min(LOGIT_ROWS);
        let widest = self.vocab_size.max(self.feed_forward_dim());
        let hidden = self.feed_forward_dim().saturating_mul(2);
        let per_token = features.saturating_mul(CACHED_ROWS).saturating_add(hidden);
        let memory = Memory::new()
            .with("weights", &[F32, parameters])?
            .with("gradients", &[F32, parameters, parts])?
            .with("moments", &[2 * F32, parameters])?
            .with("activations", &[F32, batch_size, tokens, layers, per_token])?
            .with("logits", &[2 * F32, rows, self.vocab_size])?
            .with(
                "packed matrices",
                &[parts.min(batch_size), packed_bytes(features, widest)],
            )?;
        if self.drop_rates.attention == 0.0 {
            return Ok(memory);
        }
        // A dropout mask needs one bit per attention weight.
        let bytes = tokens.div_ceil(8);
        memory.with(
            "dropout masks",
            &[batch_size, self.n_heads, tokens, bytes, layers],
        )
    }

    /// Calculates the memory required for calling
    /// [`GptModel::token_losses`](crate::GptModel::token_losses) with a window of `tokens` tokens,
    /// in addition to the memory for the weights.
    ///
    /// # Errors
    ///
    /// Returns [`GptError::TooLarge`] if the total number of bytes doesn't fit in 64 bits.
    pub fn evaluation_memory(&self, tokens: usize) -> Result<Memory, GptError> {
        let packed = packed_bytes(self.emb_dim, self.vocab_size);
        Memory::new()
            .with("activations", &[F32, tokens, self.per_token()])?
            .with("logits", &[F32, tokens.min(LOGIT_ROWS), self.vocab_size])?
            .with("packed matrices", &[packed])
    }

    /// Calculates the memory required for inspecting a sequence of `tokens` tokens with
    /// [`GptModel::trace`](crate::GptModel::trace), in addition to the memory for the weights. Only
    /// one block at a time is computed and stored.
    ///
    /// The estimate is the sum of these arrays: the attention weights of one block, the raw, masked
    /// and scaled scores from which they are computed, the causal mask, `rows` rows of logits, and
    /// the `top` most probable next tokens at each position.
    ///
    /// # Errors
    ///
    /// Returns [`GptError::TooLarge`] if the total number of bytes doesn't fit in 64 bits.
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
            .with("activations", &[F32, tokens, self.per_token()])?
            .with("logits", &[2 * F32, rows.min(tokens), self.vocab_size])?
            .with(
                "candidates",
                &[CANDIDATE_BYTES, tokens, top.min(self.vocab_size)],
            )
    }

    /// Counts the parameters of a model with this configuration.
    ///
    /// ```
    /// let size = gpt::GptConfig::GPT2_124M.size()?;
    /// assert_eq!(size.total(), 163_009_536);
    /// assert_eq!(size.without_out_head(), 124_412_160);
    /// # Ok::<(), gpt::GptError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns [`GptError::TooLarge`] if the weights don't fit in the address space.
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
