//! The state of a text that a decoder or a batch continues. It consists of the tokens of the text,
//! their KV cache, and the logits of the next token, but it doesn't contain the model.

use std::fmt;

use attention::{KvCache, KvCacheSize};
use gpt::{GptConfig, check_vocabulary};
use ndarray::{Array1, Array2, ArrayView1, Axis};

use crate::forward::{Hook, Sequence, take_in};
use crate::{DecoderConfig, GenerateError, PastContext, WeightsRef};

/// The tokens of a text, their key-value cache, and the logits of the next token.
///
/// Between two requests of a session, a server needs to store only this state. A
/// [`Decoder`](crate::Decoder) or a [`Batch`](crate::Batch) can later continue the text without
/// processing the cached tokens again.
///
/// To continue a text in several ways, clone its state. The clones share the memory of the cached
/// tokens. Therefore, if several texts have the same beginning, such as a system prompt, this
/// beginning has to be processed and stored only once.
///
/// ```
/// use generate::{Decoder, DecoderState, DecoderWeights, GenerateError};
/// use gpt::{GptConfig, GptModel};
/// use torch_rng::TorchRng;
///
/// struct Session {
///     weights: DecoderWeights,
///     state: DecoderState,
/// }
///
/// impl Session {
///     /// Adds a turn and returns the most likely next token.
///     fn turn(&mut self, ids: &[u32]) -> Result<usize, GenerateError> {
///         let state = std::mem::take(&mut self.state);
///         let mut decoder = Decoder::with_state(&self.weights, state)?;
///         decoder.push(ids)?;
///         let next = generate::greedy_id(&decoder.advance()?)?;
///         self.state = decoder.into_state();
///         Ok(next as usize)
///     }
/// }
///
/// let config = GptConfig {
///     vocab_size: 50, context_length: 8, emb_dim: 8,
///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
/// };
/// let weights = DecoderWeights::from(GptModel::new(config, &mut TorchRng::manual_seed(123))?);
/// let mut sessions = [0, 1].map(|_| Session {
///     weights: weights.clone(),
///     state: DecoderState::default(),
/// });
/// sessions[0].turn(&[1, 2, 3])?;
/// assert_eq!(sessions[0].turn(&[4])?, sessions[1].turn(&[1, 2, 3, 4])?);
/// # Ok::<(), GenerateError>(())
/// ```
#[derive(Clone, Default)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(try_from = "written::State"))]
pub struct DecoderState {
    config: DecoderConfig,
    /// Configuration of the model that this state belongs to, or `None` if the state hasn't been
    /// used with a model yet.
    model: Option<GptConfig>,
    /// KV caches, one for each block.
    caches: Vec<KvCache>,
    /// All tokens of the text. If the text is longer than the context, this includes tokens that
    /// the model no longer sees.
    tokens: Vec<u32>,
    /// Index in `tokens` of the first token in the cache. It is above 0 if the text was longer than
    /// the context in the last step.
    start: usize,
    /// Logits of the next token, of shape (vocab_size).
    #[cfg_attr(feature = "serde", serde(serialize_with = "written::numbers"))]
    logits: Array1<f32>,
}

impl DecoderState {
    /// Creates the state of an empty text.
    pub fn new(config: DecoderConfig) -> Self {
        Self {
            config,
            ..Self::default()
        }
    }

    /// Returns all tokens of the text.
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Returns the logits of the next token, of shape (vocab_size), as computed by the last step.
    /// Before the first step, all logits are 0. If the state hasn't been used with a model yet, the
    /// array is empty.
    pub fn logits(&self) -> ArrayView1<'_, f32> {
        self.logits.view()
    }

    /// Returns the number of pending tokens. These are the tokens at the end of the text that the
    /// model hasn't processed yet and that the next step of a decoder or a batch has to process.
    pub fn pending(&self) -> usize {
        let start = self.window_start();
        let cached = match start == self.start {
            true => self.cached(),
            false => 0, // The window has moved, so all of its tokens must be computed again.
        };
        self.tokens.len() - start - cached
    }

    /// Returns the number of tokens that can still be appended to the text before it fills the
    /// context.
    pub fn room(&self) -> usize {
        self.context_size().saturating_sub(self.tokens.len())
    }

    /// Returns the context size: the maximum number of tokens from which the next token is
    /// predicted. It is the size in this state's configuration or, if the configuration doesn't
    /// limit it, the context length of the model. If the state hasn't been used with a model yet
    /// either, there is no limit, so the method returns `usize::MAX`.
    pub fn context_size(&self) -> usize {
        let of_model = self.model.map_or(usize::MAX, |model| model.context_length);
        self.config.context_size.unwrap_or(of_model)
    }

    /// Returns true if the text fills the context and the state was configured with
    /// [`PastContext::Stop`].
    pub(crate) fn is_full(&self) -> bool {
        self.config.past_context == PastContext::Stop && self.room() == 0
    }

    /// Prepares the state for use with a model. If the state is new, this method creates the KV
    /// caches and the array for the logits. Otherwise, it only checks that the state belongs to a
    /// model with the same configuration.
    ///
    /// # Errors
    ///
    /// Returns an error if the state belongs to a model with a different configuration, or if the
    /// context size is 0 or larger than the model's context length.
    pub(crate) fn bind(mut self, model: &GptConfig) -> Result<Self, GenerateError> {
        match self.model {
            Some(of) if of == *model => return Ok(self),
            Some(_) => return Err(GenerateError::OtherModel),
            None => self.model = Some(*model),
        }
        let (context_size, context_length) = (self.context_size(), model.context_length);
        if !(1..=context_length).contains(&context_size) {
            return Err(GenerateError::ContextSize {
                context_size,
                context_length,
            });
        }
        let size = KvCacheSize {
            num_heads: model.n_heads,
            head_dim: model.emb_dim / model.n_heads,
            capacity: context_size,
        };
        self.caches = (0..model.n_layers).map(|_| KvCache::new(size)).collect();
        self.logits = Array1::zeros(model.vocab_size);
        Ok(self)
    }

    /// Replaces the text with a new prompt, without processing the prompt.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Decoder::start`](crate::Decoder::start).
    pub(crate) fn start(&mut self, prompt: &[u32]) -> Result<(), GenerateError> {
        if prompt.is_empty() {
            return Err(GenerateError::EmptyPrompt);
        }
        self.check(0, prompt)?;
        self.tokens = prompt.to_vec();
        self.forget();
        Ok(())
    }

    /// Appends tokens to the text, without processing them.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`Decoder::push`](crate::Decoder::push).
    pub(crate) fn push(&mut self, tokens: &[u32]) -> Result<(), GenerateError> {
        self.check(self.tokens.len(), tokens)?;
        self.tokens.extend_from_slice(tokens);
        Ok(())
    }

    /// Removes all tokens after the first `len` tokens.
    pub(crate) fn truncate(&mut self, len: usize) {
        if len < self.tokens.len() {
            self.tokens.truncate(len);
            // When the text is shortened, also remove its last remaining token from the cache. This
            // token must be processed again, because this is the only way to get the logits of the
            // token that follows it.
            let cached = len.saturating_sub(self.start + 1);
            self.caches
                .iter_mut()
                .for_each(|cache| cache.truncate(cached));
        }
    }

    /// Processes the pending tokens.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is empty, or if a field of the model doesn't match the model's
    /// configuration.
    pub(crate) fn advance(
        &mut self,
        weights: WeightsRef<'_>,
        hook: Option<&mut Hook<'_>>,
    ) -> Result<(), GenerateError> {
        self.check_ready(weights)?;
        if self.pending() > 0 {
            take_in(weights, &mut [self.next(usize::MAX)], hook);
        }
        Ok(())
    }

    /// Processes the pending tokens and returns the logits that follow each of them, of shape
    /// (pending, vocab_size).
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`advance`](Self::advance).
    pub(crate) fn advance_all(
        &mut self,
        weights: WeightsRef<'_>,
    ) -> Result<Array2<f32>, GenerateError> {
        self.check_ready(weights)?;
        let mut all = Array2::zeros((self.pending(), self.logits.len()));
        if !all.is_empty() {
            let mut sequence = self.next(usize::MAX);
            sequence.logits = Some(all.view_mut());
            take_in(weights, &mut [sequence], None);
            self.logits.assign(&all.row(all.nrows() - 1));
        }
        Ok(all)
    }

    /// Returns an error if the text is empty, or if a field of the model doesn't match the model's
    /// configuration.
    fn check_ready(&self, weights: WeightsRef<'_>) -> Result<(), GenerateError> {
        if self.tokens.is_empty() {
            return Err(GenerateError::EmptyText);
        }
        Ok(weights.check()?)
    }

    /// Returns a [`Sequence`] that contains the first pending tokens, at most `most` of them, and
    /// the KV caches and logits that the forward pass updates. If the text has become longer than
    /// the context since the last step, this method first empties the cache, which makes all tokens
    /// that the model sees pending.
    pub(crate) fn next(&mut self, most: usize) -> Sequence<'_> {
        let start = self.window_start();
        if start != self.start {
            self.forget();
            self.start = start;
        }
        let pending = &self.tokens[start + self.cached()..];
        let is_last = pending.len() <= most;
        Sequence {
            past: self.cached(),
            tokens: &pending[..pending.len().min(most)],
            caches: &mut self.caches,
            logits: is_last.then(|| self.logits.view_mut().insert_axis(Axis(0))),
        }
    }

    /// Empties the cache.
    fn forget(&mut self) {
        self.caches.iter_mut().for_each(|cache| cache.truncate(0));
        self.start = 0;
    }

    /// Returns the number of tokens in the cache.
    fn cached(&self) -> usize {
        self.caches.first().map_or(0, KvCache::len)
    }

    /// Returns the index of the first token that the model sees.
    fn window_start(&self) -> usize {
        self.tokens.len().saturating_sub(self.context_size())
    }

    /// Checks that all `tokens` are in the model's vocabulary. If the state was configured with
    /// [`PastContext::Stop`], this method also checks that `len` earlier tokens and these tokens
    /// fit in the context together.
    fn check(&self, len: usize, tokens: &[u32]) -> Result<(), GenerateError> {
        let vocab_size = self.logits.len();
        check_vocabulary(vocab_size, 0, len, tokens.iter().copied())?;
        let (num_tokens, context_size) = (len + tokens.len(), self.context_size());
        if self.config.past_context == PastContext::Stop && num_tokens > context_size {
            return Err(GenerateError::PastContext {
                num_tokens,
                context_size,
            });
        }
        Ok(())
    }
}

/// The debug output contains neither the cache nor the tokens of the text.
impl fmt::Debug for DecoderState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DecoderState")
            .field("config", &self.config)
            .field("num_tokens", &self.tokens.len())
            .finish_non_exhaustive()
    }
}

/// Serialization and deserialization of a [`DecoderState`] with serde. The fields of a deserialized
/// state are checked for consistency, because the data may be damaged.
#[cfg(feature = "serde")]
mod written {
    use serde::Serializer;

    use super::*;

    #[derive(serde::Deserialize)]
    #[serde(deny_unknown_fields)]
    pub(super) struct State {
        config: DecoderConfig,
        model: Option<GptConfig>,
        caches: Vec<KvCache>,
        tokens: Vec<u32>,
        start: usize,
        logits: Vec<f32>,
    }

    pub(super) fn numbers<S: Serializer>(of: &Array1<f32>, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(of)
    }

    impl TryFrom<State> for DecoderState {
        type Error = GenerateError;

        fn try_from(state: State) -> Result<Self, GenerateError> {
            let damaged = Err(GenerateError::DamagedState);
            let Some(model) = state.model else {
                return match state.tokens.is_empty() {
                    true => Ok(Self::new(state.config)),
                    false => damaged,
                };
            };
            model.validate()?;
            // Reject a damaged configuration before `bind` allocates the KV caches and the logits.
            // Their sizes depend on the configuration, so a damaged one might require far too much
            // memory. In an undamaged state, the number of layers and the size of the vocabulary
            // agree with the arrays that have been read.
            if state.caches.len() != model.n_layers || state.logits.len() != model.vocab_size {
                return damaged;
            }
            let mut checked = Self::new(state.config).bind(&model)?;
            checked.check(0, &state.tokens)?;
            let sizes = |caches: &[KvCache]| caches.iter().map(KvCache::size).collect::<Vec<_>>();
            let cached = state.caches.first().map_or(0, KvCache::len);
            if sizes(&state.caches) != sizes(&checked.caches)
                || state.caches.iter().any(|cache| cache.len() != cached)
                || state.start.saturating_add(cached) > state.tokens.len()
            {
                return damaged;
            }
            checked.caches = state.caches;
            checked.tokens = state.tokens;
            checked.start = state.start;
            checked.logits = state.logits.into();
            Ok(checked)
        }
    }
}
