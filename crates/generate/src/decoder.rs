//! A decoder, which continues one text with a key-value cache.
//!
//! Without a cache, the model has to process the whole text again for each new token. The decoder
//! keeps the keys and values of all processed tokens, so each token passes through the blocks only
//! once.
//!
//! Prompts and single tokens are processed in the same way: [`Decoder::advance`] processes all
//! tokens of the text that aren't in the cache yet (the *pending* tokens) and returns the logits of
//! the next token. [`Sampling`](crate::Sampling) chooses a token from the logits.

use std::fmt;

use gpt::GptConfig;
use ndarray::{ArrayView1, ArrayViewMut2};

use crate::{AsWeights, DecoderConfig, DecoderState, DecoderWeights, GenerateError, WeightsRef};

/// A model together with a text that the model continues.
///
/// The type parameter `W` determines how the decoder stores the model. `Decoder::new(&model)`
/// borrows a [`GptModel`](gpt::GptModel). If the decoder has to own its model, for example because
/// it is a field of a struct, use [`DecoderWeights`], whose clones share the same memory, or an
/// `Arc<GptModel>`.
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
/// let logits = decoder.advance()?; // the logits of the next token (vocab_size)
/// assert_eq!(logits.len(), 50);
/// decoder.push(&[7])?;
/// decoder.advance()?;
/// assert_eq!(decoder.tokens(), [1, 2, 3, 7]);
/// assert_eq!(decoder.pending(), 0); // all tokens are in the cache
/// # Ok::<(), generate::GenerateError>(())
/// ```
#[derive(Clone)]
pub struct Decoder<W = DecoderWeights> {
    weights: W,
    state: DecoderState,
}

impl<W: AsWeights> Decoder<W> {
    /// Creates a decoder with an empty text. If the text becomes longer than the model's context
    /// length, the model sees only the last tokens, as in the book.
    pub fn new(weights: W) -> Self {
        Self::with_config(weights, DecoderConfig::default())
            .expect("the default configuration suits every model")
    }

    /// Creates a decoder with an empty text. `config` determines the context size, and what happens
    /// when the text becomes longer than the context.
    ///
    /// # Errors
    ///
    /// Returns an error if the context size is 0 or larger than the model's context length.
    pub fn with_config(weights: W, config: DecoderConfig) -> Result<Self, GenerateError> {
        Self::with_state(weights, DecoderState::new(config))
    }

    /// Creates a decoder that continues the text in `state`, which an earlier decoder of the same
    /// model has left behind. This call takes only one or two microseconds, because no weights are
    /// copied or rounded.
    ///
    /// # Errors
    ///
    /// Returns [`GenerateError::OtherModel`] if the state belongs to a model with a different
    /// configuration, or [`GenerateError::ContextSize`] if the state is new and its context size is
    /// 0 or larger than the model's context length.
    pub fn with_state(weights: W, state: DecoderState) -> Result<Self, GenerateError> {
        let state = state.bind(&weights.as_weights().config())?;
        Ok(Self { weights, state })
    }

    /// Returns the text and its KV cache, and drops the weights.
    pub fn into_state(self) -> DecoderState {
        self.state
    }

    /// Returns the text and its KV cache. To continue the text in several ways, clone the returned
    /// state.
    pub fn state(&self) -> &DecoderState {
        &self.state
    }

    /// Borrows the weights and the state separately.
    pub(crate) fn parts(&mut self) -> (WeightsRef<'_>, &mut DecoderState) {
        (self.weights.as_weights(), &mut self.state)
    }

    /// Returns the weights.
    pub fn weights(&self) -> &W {
        &self.weights
    }

    /// Returns the configuration of the model.
    pub fn model_config(&self) -> GptConfig {
        self.weights.as_weights().config()
    }

    /// Returns the largest number of tokens that the model sees at a time.
    pub fn context_size(&self) -> usize {
        self.state.context_size()
    }

    /// Returns all tokens of the text, including the prompt. The text is empty before the first
    /// prompt.
    pub fn tokens(&self) -> &[u32] {
        self.state.tokens()
    }

    /// Returns the number of pending tokens, which the next call of [`advance`](Self::advance) will
    /// process.
    pub fn pending(&self) -> usize {
        self.state.pending()
    }

    /// Returns the number of tokens that can be appended to the text until it fills the context.
    pub fn room(&self) -> usize {
        self.state.room()
    }

    /// Replaces the text with a new prompt. The prompt is processed by the next call of
    /// [`advance`](Self::advance).
    ///
    /// # Errors
    ///
    /// Returns an error and leaves the decoder unchanged in each of these cases:
    /// - The prompt is empty.
    /// - A token of the prompt isn't in the model's vocabulary.
    /// - The prompt is longer than the context, and the configuration is
    ///   [`PastContext::Stop`](crate::PastContext::Stop).
    pub fn start(&mut self, prompt: &[u32]) -> Result<(), GenerateError> {
        self.state.start(prompt)
    }

    /// Appends tokens to the text. The tokens are processed by the next call of
    /// [`advance`](Self::advance).
    ///
    /// # Errors
    ///
    /// Returns an error and appends nothing if a token isn't in the model's vocabulary, or if the
    /// text would become longer than the context and the configuration is
    /// [`PastContext::Stop`](crate::PastContext::Stop).
    pub fn push(&mut self, tokens: &[u32]) -> Result<(), GenerateError> {
        self.state.push(tokens)
    }

    /// Removes all tokens after the first `len` tokens. If the text has at most `len` tokens, it
    /// stays unchanged.
    ///
    /// This method is useful if a user edits an earlier turn of a conversation, if the next text
    /// has the same beginning, or if guessed tokens turn out to be wrong (speculative decoding).
    ///
    /// The remaining tokens stay in the cache, except for the last one. This token becomes pending,
    /// because the logits that follow it haven't been kept. If the text was longer than the
    /// context, all remaining tokens that the model sees become pending.
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
    /// decoder.start(&[1, 2, 3, 4, 5])?;
    /// decoder.advance()?;
    /// decoder.truncate(3);
    /// decoder.push(&[6])?;
    /// assert_eq!((decoder.tokens(), decoder.pending()), (&[1, 2, 3, 6][..], 2));
    /// # Ok::<(), generate::GenerateError>(())
    /// ```
    pub fn truncate(&mut self, len: usize) {
        self.state.truncate(len);
    }

    /// Processes the pending tokens and returns the logits of the next token, of shape
    /// (vocab_size). If there are no pending tokens, the logits of the previous call are returned.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is empty, or if a field of the model doesn't match the model's
    /// configuration ([`GptModel::check`](gpt::GptModel::check)).
    pub fn advance(&mut self) -> Result<ArrayView1<'_, f32>, GenerateError> {
        self.state.advance(self.weights.as_weights(), None)?;
        Ok(self.logits())
    }

    /// Processes the pending tokens like [`advance`](Self::advance), but calls `hook` before the
    /// first block and after each block. The hook can read and change the residual stream, for
    /// example for activation steering or ablation.
    ///
    /// The arguments of the hook are the number of blocks that the pending tokens have passed, and
    /// the residual stream of these tokens, of shape (tokens, emb_dim). The number of blocks is 0
    /// when the hook receives the embeddings, and `n_layers` when it receives the input of the
    /// final layer normalization. Later tokens also see the changes, because the keys and values
    /// are computed from the changed residual stream. If the text is longer than the context, all
    /// tokens that the model sees are pending.
    ///
    /// ```
    /// use generate::Decoder;
    /// use gpt::{GptConfig, GptModel};
    /// use torch_rng::TorchRng;
    ///
    /// let config = GptConfig {
    ///     vocab_size: 50, context_length: 8, emb_dim: 8,
    ///     n_heads: 2, n_layers: 2, ..GptConfig::GPT2_124M
    /// };
    /// let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
    /// let mut decoder = Decoder::new(&model);
    /// decoder.start(&[1, 2, 3])?;
    /// let steered = decoder.advance_with(|blocks, mut residual| {
    ///     assert_eq!(residual.dim(), (3, 8));
    ///     if blocks == 1 {
    ///         residual.column_mut(5).fill(4.0); // change the output of the first block
    ///     }
    /// })?;
    /// let steered = steered.to_owned();
    /// decoder.start(&[1, 2, 3])?;
    /// assert_ne!(decoder.advance()?, steered);
    /// # Ok::<(), generate::GenerateError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`advance`](Self::advance).
    pub fn advance_with(
        &mut self,
        mut hook: impl FnMut(usize, ArrayViewMut2<f32>) + Send,
    ) -> Result<ArrayView1<'_, f32>, GenerateError> {
        let mut hook = |_, blocks, rows: ArrayViewMut2<f32>| hook(blocks, rows);
        self.state
            .advance(self.weights.as_weights(), Some(&mut hook))?;
        Ok(self.logits())
    }

    /// Returns the logits of the next token, of shape (vocab_size), from the last call of
    /// [`advance`](Self::advance). Before the first call, all logits are 0.
    pub fn logits(&self) -> ArrayView1<'_, f32> {
        self.state.logits()
    }
}

/// The debug output contains neither the weights, nor the cache, nor the tokens of the text.
impl<W: AsWeights> fmt::Debug for Decoder<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
