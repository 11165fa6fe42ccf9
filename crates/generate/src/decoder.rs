//! A model that remembers: each token goes through the blocks once, its keys and values stay in a
//! cache, and a step reads the weights and the cache once.
//!
//! Prompts and steps are one code path: [`Decoder::advance`] computes whatever tokens the sequences
//! have that the cache has not.
//! The tokens of all sequences are rows of one matrix, so sequences may differ in length and
//! nothing is padded.
//! It does not choose tokens: that is [`Sampling`](crate::Sampling).

use std::fmt;

use gpt::{GptModel, check_vocabulary};
use ndarray::{Array2, ArrayView1, ArrayView2};
use tensor_ops::awake;

use crate::forward::Forward;
use crate::precision::DecoderWeights;
use crate::{DecoderConfig, DecoderStats, GenerateError, PastContext};

/// Sequences of tokens, the caches of their keys and values, and the logits of what comes next.
///
/// ```
/// use generate::Decoder;
/// use gpt::{GptConfig, GptModel};
/// use torch_rng::TorchRng;
///
/// let config = GptConfig {
///     vocab_size: 50, context_length: 8, emb_dim: 8,
///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
/// };
/// let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
/// let mut decoder = Decoder::new(&model);
/// decoder.start(&[&[1, 2, 3], &[4, 5]])?; // two sequences
/// let logits = decoder.advance()?; // (batch, vocab_size): what comes next
/// assert_eq!(logits.dim(), (2, 50));
/// decoder.push(0, &[7])?;
/// decoder.push(1, &[8])?;
/// decoder.advance()?;
/// assert_eq!(decoder.tokens(1), [4, 5, 8]);
/// assert_eq!(decoder.stats().tokens_computed, 5 + 2);
/// # Ok::<(), generate::GenerateError>(())
/// ```
#[derive(Clone)]
pub struct Decoder<'m> {
    model: &'m GptModel,
    config: DecoderConfig,
    context_size: usize,
    forward: Forward<'m>,
    /// All tokens, also those that the model doesn't see any more.
    sequences: Vec<Vec<u32>>,
    /// Where the window in the cache begins, in each sequence.
    starts: Vec<usize>,
    /// (batch, vocab_size): the last position of each sequence
    logits: Array2<f32>,
    stats: DecoderStats,
}

impl<'m> Decoder<'m> {
    /// A decoder in f32 that crops to the model's context length, as the book does.
    pub fn new(model: &'m GptModel) -> Self {
        Self::with_config(model, DecoderConfig::default())
            .expect("the default configuration suits every model")
    }

    /// A decoder of another precision, context size, or end.
    ///
    /// # Errors
    /// If the context size is 0 or larger than the model's.
    pub fn with_config(model: &'m GptModel, config: DecoderConfig) -> Result<Self, GenerateError> {
        let context_length = model.config().context_length;
        let context_size = config.context_size.unwrap_or(context_length);
        if context_size == 0 || context_size > context_length {
            return Err(GenerateError::ContextSize {
                context_size,
                context_length,
            });
        }
        let weights = DecoderWeights::new(model, config.precision);
        Ok(Self {
            model,
            config,
            context_size,
            forward: Forward::new(model, weights, context_size),
            sequences: Vec::new(),
            starts: Vec::new(),
            logits: Array2::zeros((0, model.config().vocab_size)),
            stats: DecoderStats::default(),
        })
    }

    /// The model it decodes with.
    pub fn model(&self) -> &'m GptModel {
        self.model
    }

    /// How it was made.
    pub fn config(&self) -> &DecoderConfig {
        &self.config
    }

    /// The most tokens the model may see.
    pub fn context_size(&self) -> usize {
        self.context_size
    }

    /// What it has done so far.
    pub fn stats(&self) -> DecoderStats {
        self.stats
    }

    /// Bytes of weights that a step reads once.
    pub fn weight_bytes(&self) -> usize {
        self.forward.weights.bytes()
    }

    /// How many sequences there are.
    pub fn batch(&self) -> usize {
        self.sequences.len()
    }

    /// All tokens of a sequence, the prompt's included.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn tokens(&self, row: usize) -> &[u32] {
        &self.sequences[row]
    }

    /// Tokens of a sequence that the next [`advance`](Self::advance) will take in.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn pending(&self, row: usize) -> usize {
        let len = self.sequences[row].len();
        let start = len.saturating_sub(self.context_size);
        let cached = match start == self.starts[row] {
            true => self.forward.cached(row),
            false => 0, // the window moves, and all of it is computed anew
        };
        len - start - cached
    }

    /// How many tokens a sequence can still take before it fills the context.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn room(&self, row: usize) -> usize {
        self.context_size.saturating_sub(self.sequences[row].len())
    }

    /// Whether a sequence fills the context, and the decoder stops there.
    pub(crate) fn is_full(&self, row: usize) -> bool {
        self.config.past_context == PastContext::Stop && self.room(row) == 0
    }

    /// Whether a sequence fills the context and all of it has been taken in: a stream before has
    /// chosen the token that comes, and another choice would be no continuation of that.
    pub(crate) fn is_over(&self, row: usize) -> bool {
        self.is_full(row) && self.pending(row) == 0
    }

    /// Begins anew with these prompts, one sequence each, and computes nothing yet.
    ///
    /// # Errors
    /// If there is no prompt, an empty one, an unknown token, or, unless it crops, a prompt longer
    /// than the context; the decoder stays as it was.
    pub fn start(&mut self, prompts: &[&[u32]]) -> Result<(), GenerateError> {
        if prompts.is_empty() {
            return Err(GenerateError::NoPrompt);
        }
        for (row, prompt) in prompts.iter().enumerate() {
            if prompt.is_empty() {
                return Err(GenerateError::EmptyPrompt { row });
            }
            self.check(row, 0, prompt)?;
        }
        let batch = prompts.len();
        self.sequences = prompts.iter().map(|prompt| prompt.to_vec()).collect();
        self.starts = vec![0; batch];
        self.forward.clear(batch);
        self.logits = Array2::zeros((batch, self.model.config().vocab_size));
        Ok(())
    }

    /// Appends tokens to a sequence, and computes nothing yet.
    ///
    /// # Errors
    /// If a token is unknown or, unless it crops, the sequence would outgrow the context; nothing
    /// is appended.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn push(&mut self, row: usize, tokens: &[u32]) -> Result<(), GenerateError> {
        let len = self.sequences[row].len();
        self.check(row, len, tokens)?;
        self.sequences[row].extend_from_slice(tokens);
        Ok(())
    }

    /// Takes in the tokens that are pending and returns the logits (batch, vocab_size) of each
    /// sequence's last position.
    ///
    /// A sequence with nothing pending keeps the logits it had.
    ///
    /// # Errors
    /// If there is no sequence.
    pub fn advance(&mut self) -> Result<ArrayView2<'_, f32>, GenerateError> {
        let new = self.prepare()?;
        if new.iter().any(|&new| new > 0) {
            // Inside the pool from here on: entering it once is much cheaper than once a matrix.
            awake(|| {
                self.take_in(&new);
                self.forward.last_logits(&new, self.logits.view_mut());
            });
        }
        Ok(self.logits.view())
    }

    /// The logits (vocab_size) of a sequence's last position, as of the last
    /// [`advance`](Self::advance).
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn logits(&self, row: usize) -> ArrayView1<'_, f32> {
        self.logits.row(row)
    }

    /// How many tokens of each sequence are to be computed, after a window that moved has been
    /// thrown away.
    fn prepare(&mut self) -> Result<Vec<usize>, GenerateError> {
        if self.sequences.is_empty() {
            return Err(GenerateError::NoPrompt);
        }
        for (row, sequence) in self.sequences.iter().enumerate() {
            let start = sequence.len().saturating_sub(self.context_size);
            if start != self.starts[row] {
                self.stats.rebuilds += usize::from(self.forward.cached(row) > 0);
                self.forward.forget(row);
                self.starts[row] = start;
            }
        }
        let new: Vec<_> = (0..self.batch()).map(|row| self.pending(row)).collect();
        for (row, &new) in new.iter().enumerate() {
            if new > 0 {
                self.stats.tokens_computed += new;
                self.stats.tokens_from_cache += self.forward.cached(row);
            }
        }
        Ok(new)
    }

    fn take_in(&mut self, new: &[usize]) {
        let tokens: Vec<&[u32]> = (self.sequences.iter().zip(new))
            .map(|(sequence, &new)| &sequence[sequence.len() - new..])
            .collect();
        self.forward.take_in(self.model, &tokens);
    }

    /// That the model knows the tokens, and the context has room for them behind `len` others.
    fn check(&self, row: usize, len: usize, tokens: &[u32]) -> Result<(), GenerateError> {
        let vocab_size = self.model.config().vocab_size;
        check_vocabulary(vocab_size, row, len, tokens.iter().copied())?;
        let (num_tokens, context_size) = (len + tokens.len(), self.context_size);
        if self.config.past_context == PastContext::Stop && num_tokens > context_size {
            return Err(GenerateError::PastContext {
                row,
                num_tokens,
                context_size,
            });
        }
        Ok(())
    }
}

/// Without the weights, the cache and the text.
impl fmt::Debug for Decoder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("config", &self.config)
            .field("batch", &self.batch())
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}
