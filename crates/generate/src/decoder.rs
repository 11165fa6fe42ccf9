//! A model that remembers: each token goes through the blocks once, its keys and values stay in a
//! cache, and a step reads the weights and the cache once.
//!
//! Prompts and steps are one code path: [`Decoder::advance`] computes all tokens of the text that
//! aren't in the cache yet. [`Sampling`](crate::Sampling) chooses the tokens.

use std::fmt;
use std::ops::Range;

use attention::KvCache;
use gpt::{GptConfig, GptModel, check_vocabulary};
use ndarray::{Array1, ArrayD, ArrayView1, Axis};
use tensor_ops::engine::awake;

use crate::forward::Forward;
use crate::weights::DecoderWeights;
use crate::{DecoderConfig, GenerateError, PastContext};

/// The tokens of a text, the cache of their keys and values, and the logits of the next token.
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
/// decoder.start(&[1, 2, 3])?;
/// let logits = decoder.advance()?; // (vocab_size): what comes next
/// assert_eq!(logits.len(), 50);
/// decoder.push(&[7])?;
/// decoder.advance()?;
/// assert_eq!(decoder.tokens(), [1, 2, 3, 7]);
/// assert_eq!(decoder.pending(), 0); // each token is computed once
/// # Ok::<(), generate::GenerateError>(())
/// ```
#[derive(Clone)]
pub struct Decoder<'m> {
    config: DecoderConfig,
    context_size: usize,
    forward: Forward<'m>,
    /// All tokens, also those that the model doesn't see any more.
    tokens: Vec<u32>,
    /// The token at which the window in the cache begins.
    start: usize,
    /// (vocab_size): the last position
    logits: Array1<f32>,
}

/// The tokens and the cache of a text, without the model: the state that a program keeps between
/// two requests.
///
/// A struct can hold it beside an `Arc<GptModel>`. [`Decoder::with_state`] continues from it and
/// computes nothing twice.
///
/// ```
/// use std::sync::Arc;
/// use generate::{Decoder, DecoderState, GenerateError};
/// use gpt::{GptConfig, GptModel};
/// use torch_rng::TorchRng;
///
/// struct Session {
///     model: Arc<GptModel>,
///     state: DecoderState,
/// }
///
/// impl Session {
///     /// Adds a turn and returns the likeliest next token.
///     fn turn(&mut self, ids: &[u32]) -> Result<usize, GenerateError> {
///         let mut decoder = Decoder::with_state(&self.model, std::mem::take(&mut self.state))?;
///         decoder.push(ids)?;
///         let logits = decoder.advance()?.to_owned();
///         self.state = decoder.into_state();
///         Ok(generate::greedy_id(&logits)? as usize)
///     }
/// }
///
/// let config = GptConfig {
///     vocab_size: 50, context_length: 8, emb_dim: 8,
///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
/// };
/// let model = Arc::new(GptModel::new(config, &mut TorchRng::manual_seed(123))?);
/// let mut sessions: Vec<Session> = (0..2)
///     .map(|_| Session { model: Arc::clone(&model), state: DecoderState::default() })
///     .collect();
/// sessions[0].turn(&[1, 2, 3])?;
/// assert_eq!(sessions[0].turn(&[4])?, sessions[1].turn(&[1, 2, 3, 4])?);
/// # Ok::<(), GenerateError>(())
/// ```
#[derive(Clone, Default)]
pub struct DecoderState {
    config: DecoderConfig,
    /// The configuration of the model that the cache is of; `None` before the first.
    model: Option<GptConfig>,
    caches: Vec<KvCache>,
    tokens: Vec<u32>,
    start: usize,
    logits: Array1<f32>,
}

impl DecoderState {
    /// All tokens so far.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }
}

/// Without the cache and the text.
impl fmt::Debug for DecoderState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecoderState")
            .field("config", &self.config)
            .field("num_tokens", &self.tokens.len())
            .finish_non_exhaustive()
    }
}

impl<'m> Decoder<'m> {
    /// Makes a decoder that continues from the state of an earlier decoder of the same model. The
    /// default state is an empty text.
    ///
    /// In f32 it borrows the weights, which takes microseconds; in fewer bits they are rounded
    /// again: keep such a decoder, which borrows nothing if it was [`read`](Self::read).
    ///
    /// # Errors
    /// [`GenerateError::OtherModel`] if the state is of a model with another configuration.
    pub fn with_state(model: &'m GptModel, state: DecoderState) -> Result<Self, GenerateError> {
        let mut decoder = Self::with_config(model, state.config)?;
        match &state.model {
            None => Ok(decoder),
            Some(of) if of != decoder.model_config() => Err(GenerateError::OtherModel),
            Some(_) => {
                decoder.forward.caches = state.caches;
                decoder.tokens = state.tokens;
                decoder.start = state.start;
                decoder.logits = state.logits;
                Ok(decoder)
            }
        }
    }

    /// The text and its cache without the weights.
    pub fn into_state(self) -> DecoderState {
        DecoderState {
            config: self.config,
            model: Some(self.forward.weights.config),
            caches: self.forward.caches,
            tokens: self.tokens,
            start: self.start,
            logits: self.logits,
        }
    }

    /// A decoder in f32 that crops to the model's context length, like the book.
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
            logits: Array1::zeros(weights.config.vocab_size),
            forward: Forward::new(weights, context_size),
            tokens: Vec::new(),
            start: 0,
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

    /// All tokens, the prompt's included; none before the first prompt.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Tokens that the next [`advance`](Self::advance) will take in.
    pub fn pending(&self) -> usize {
        let start = self.window_start();
        let cached = match start == self.start {
            true => self.forward.cached(),
            false => 0, // the window moves, and all of it is computed again
        };
        self.tokens.len() - start - cached
    }

    /// The number of tokens that the text can still take before it fills the context.
    pub fn room(&self) -> usize {
        self.context_size.saturating_sub(self.tokens.len())
    }

    /// True if the text fills the context and the decoder stops there.
    pub(crate) fn is_full(&self) -> bool {
        self.config.past_context == PastContext::Stop && self.room() == 0
    }

    /// Replaces the text with a prompt, and computes nothing yet.
    ///
    /// # Errors
    /// If the prompt is empty, has an unknown token, or, unless the decoder crops, is longer than
    /// the context; the decoder stays unchanged.
    pub fn start(&mut self, prompt: &[u32]) -> Result<(), GenerateError> {
        if prompt.is_empty() {
            return Err(GenerateError::EmptyPrompt);
        }
        self.check(0, prompt)?;
        self.tokens = prompt.to_vec();
        self.start = 0;
        self.forward.forget();
        Ok(())
    }

    /// Appends tokens, and computes nothing yet.
    ///
    /// # Errors
    /// If a token is unknown or, unless the decoder crops, the text would outgrow the context;
    /// nothing is appended.
    pub fn push(&mut self, tokens: &[u32]) -> Result<(), GenerateError> {
        self.check(self.tokens.len(), tokens)?;
        self.tokens.extend_from_slice(tokens);
        Ok(())
    }

    /// Processes the pending tokens and returns the logits (vocab_size) of the last position.
    /// Without pending tokens, the logits are unchanged.
    ///
    /// # Errors
    /// If the text is empty.
    pub fn advance(&mut self) -> Result<ArrayView1<'_, f32>, GenerateError> {
        if self.tokens.is_empty() {
            return Err(GenerateError::EmptyPrompt);
        }
        let start = self.window_start();
        if start != self.start {
            self.forward.forget();
            self.start = start;
        }
        let new = &self.tokens[start + self.forward.cached()..];
        if !new.is_empty() {
            // Inside the pool from here on: entering it once is much cheaper than once a matrix.
            awake(|| {
                self.forward.take_in(new);
                self.forward.last_logits(self.logits.view_mut());
            });
        }
        Ok(self.logits.view())
    }

    /// The logits (vocab_size) of the last position, as of the last [`advance`](Self::advance).
    pub fn logits(&self) -> ArrayView1<'_, f32> {
        self.logits.view()
    }

    /// The first token that the model sees.
    fn window_start(&self) -> usize {
        self.tokens.len().saturating_sub(self.context_size)
    }

    /// Checks that the model knows the tokens, and the context has room for them behind `len`
    /// others.
    fn check(&self, len: usize, tokens: &[u32]) -> Result<(), GenerateError> {
        let vocab_size = self.model_config().vocab_size;
        check_vocabulary(vocab_size, 0, len, tokens.iter().copied())?;
        let (num_tokens, context_size) = (len + tokens.len(), self.context_size);
        if self.config.past_context == PastContext::Stop && num_tokens > context_size {
            return Err(GenerateError::PastContext {
                num_tokens,
                context_size,
            });
        }
        Ok(())
    }
}

/// The requested context size, or the model's.
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
            .field("num_tokens", &self.tokens.len())
            .finish_non_exhaustive()
    }
}
