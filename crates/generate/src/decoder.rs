//! A model that remembers: each token goes through the blocks once, its keys and values stay in a
//! cache, and a step reads the weights and the cache once.
//!
//! Prompts and steps are one code path: [`Decoder::advance`] computes whatever tokens the sequences
//! have that the cache has not.
//! The tokens of all sequences are rows of one matrix, so sequences may differ in length and
//! nothing is padded.
//! It does not choose tokens: that is [`Sampling`](crate::Sampling).

use std::fmt;
use std::ops::Range;

use gpt::{GptConfig, GptModel, check_vocabulary};
use ndarray::{Array2, ArrayD, ArrayView1, ArrayView2, Axis};
use tensor_ops::engine::awake;

use crate::forward::Forward;
use crate::weights::DecoderWeights;
use crate::{DecoderConfig, GenerateError, PastContext};

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
/// assert_eq!(decoder.pending(1), 0); // each token is computed once
/// # Ok::<(), generate::GenerateError>(())
/// ```
#[derive(Clone)]
pub struct Decoder<'m> {
    config: DecoderConfig,
    context_size: usize,
    forward: Forward<'m>,
    /// All tokens, also those that the model doesn't see any more.
    sequences: Vec<Vec<u32>>,
    /// The token at which the window in the cache begins, in each sequence.
    starts: Vec<usize>,
    /// (batch, vocab_size): the last position of each sequence
    logits: Array2<f32>,
}

impl<'m> Decoder<'m> {
    /// A decoder in f32 that crops to the model's context length, as the book does.
    pub fn new(model: &'m GptModel) -> Self {
        Self::with_config(model, DecoderConfig::default())
            .expect("the default configuration suits every model")
    }

    /// A decoder of another precision, context size, or end; weights of fewer bits are rounded
    /// copies, beside the model's own ([`read`](Self::read) takes less memory).
    ///
    /// # Errors
    /// If the context size is 0 or larger than the model's.
    ///
    /// # Panics
    /// If a layer was replaced by one of another shape than the configuration's.
    pub fn with_config(model: &'m GptModel, config: DecoderConfig) -> Result<Self, GenerateError> {
        let context_size = context_size(model.config(), &config)?;
        let weights = DecoderWeights::of_model(model, config.precision);
        Ok(Self::of(weights, config, context_size))
    }

    /// A decoder of a model whose weights `read` writes: some rows of a parameter, by the names of
    /// [`GptConfig::parameters`], row after row.
    ///
    /// In fewer bits than f32 the weights are rounded as they are read, a megabyte at a time.
    ///
    /// ```
    /// use generate::{Decoder, DecoderConfig, GenerateError, Precision};
    /// use generate::gpt::GptConfig;
    ///
    /// let model = GptConfig {
    ///     vocab_size: 50, context_length: 8, emb_dim: 8,
    ///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
    /// };
    /// let config = DecoderConfig { precision: Precision::Int8, ..DecoderConfig::default() };
    /// // Or as checkpoint::ModelFolder reads them from files.
    /// let decoder = Decoder::read(&model, config, |name, rows, out| {
    ///     assert!(rows.end <= 50 && out.len() % rows.len() == 0, "{name}");
    ///     out.fill(0.5);
    ///     Ok::<(), GenerateError>(())
    /// })?;
    /// assert_eq!(decoder.model_config(), &model);
    /// # Ok::<(), GenerateError>(())
    /// ```
    ///
    /// # Errors
    /// The first of `read`; or if the configuration is not valid, or the context size 0 or larger
    /// than the model's.
    pub fn read<E: From<GenerateError>>(
        model: &GptConfig,
        config: DecoderConfig,
        mut read: impl FnMut(&str, Range<usize>, &mut [f32]) -> Result<(), E>,
    ) -> Result<Self, E> {
        model.validate().map_err(GenerateError::from)?;
        let context_size = context_size(model, &config)?;
        let weights = DecoderWeights::read(*model, config.precision, |name, first, shape| {
            let mut rows = ArrayD::zeros(shape);
            let range = first..first + rows.len_of(Axis(0));
            read(
                name,
                range,
                rows.as_slice_mut().expect("new arrays are row-major"),
            )?;
            Ok::<_, E>(rows.into())
        })?;
        Ok(Self::of(weights, config, context_size))
    }

    fn of(weights: DecoderWeights<'m>, config: DecoderConfig, context_size: usize) -> Self {
        Self {
            config,
            context_size,
            logits: Array2::zeros((0, weights.config.vocab_size)),
            forward: Forward::new(weights, context_size),
            sequences: Vec::new(),
            starts: Vec::new(),
        }
    }

    /// The configuration of the model it decodes with.
    pub fn model_config(&self) -> &GptConfig {
        &self.forward.weights.config
    }

    /// The most tokens the model may see.
    pub fn context_size(&self) -> usize {
        self.context_size
    }

    /// Bytes of weights that a step reads once.
    pub fn weight_bytes(&self) -> usize {
        self.forward.weights.bytes_of_a_step()
    }

    /// The number of sequences.
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

    /// The number of tokens that a sequence can still take before it fills the context.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn room(&self, row: usize) -> usize {
        self.context_size.saturating_sub(self.sequences[row].len())
    }

    /// True if a sequence fills the context and the decoder stops there.
    pub(crate) fn is_full(&self, row: usize) -> bool {
        self.config.past_context == PastContext::Stop && self.room(row) == 0
    }

    /// True if a sequence is full and all of it has been taken in: no token can follow.
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
        self.logits = Array2::zeros((batch, self.model_config().vocab_size));
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

    /// The number of tokens of each sequence that are to be computed, after a window that moved has
    /// been thrown away.
    fn prepare(&mut self) -> Result<Vec<usize>, GenerateError> {
        if self.sequences.is_empty() {
            return Err(GenerateError::NoPrompt);
        }
        for (row, sequence) in self.sequences.iter().enumerate() {
            let start = sequence.len().saturating_sub(self.context_size);
            if start != self.starts[row] {
                self.forward.forget(row);
                self.starts[row] = start;
            }
        }
        Ok((0..self.batch()).map(|row| self.pending(row)).collect())
    }

    fn take_in(&mut self, new: &[usize]) {
        let tokens: Vec<&[u32]> = (self.sequences.iter().zip(new))
            .map(|(sequence, &new)| &sequence[sequence.len() - new..])
            .collect();
        self.forward.take_in(&tokens);
    }

    /// That the model knows the tokens, and the context has room for them behind `len` others.
    fn check(&self, row: usize, len: usize, tokens: &[u32]) -> Result<(), GenerateError> {
        let vocab_size = self.model_config().vocab_size;
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

/// The model's own context size, or the one asked for.
fn context_size(model: &GptConfig, config: &DecoderConfig) -> Result<usize, GenerateError> {
    let context_length = model.context_length;
    let context_size = config.context_size.unwrap_or(context_length);
    match (1..=context_length).contains(&context_size) {
        true => Ok(context_size),
        false => Err(GenerateError::ContextSize {
            context_size,
            context_length,
        }),
    }
}

/// Without the weights, the cache and the text.
impl fmt::Debug for Decoder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("config", &self.config)
            .field("batch", &self.batch())
            .finish_non_exhaustive()
    }
}
