//! A model that continues one text: each token goes through the blocks once, its keys and values
//! stay in a cache, and a step reads the weights and the cache once.
//!
//! Prompts and steps are one code path: [`Decoder::advance`] computes all tokens of the text that
//! aren't in the cache yet. [`Sampling`](crate::Sampling) chooses the tokens.

use std::fmt;

use gpt::GptConfig;
use ndarray::{ArrayView1, ArrayViewMut2};

use crate::{AsWeights, DecoderConfig, DecoderState, DecoderWeights, GenerateError, WeightsRef};

/// A model, and a text that it continues.
///
/// `W` is how the decoder has the model: `Decoder::new(&model)` borrows a
/// [`GptModel`](gpt::GptModel), and a decoder that a struct can hold has [`DecoderWeights`], which
/// are shared, or an `Arc<GptModel>`.
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
pub struct Decoder<W = DecoderWeights> {
    weights: W,
    state: DecoderState,
}

impl<W: AsWeights> Decoder<W> {
    /// Makes a decoder that crops to the model's context length, as the book does.
    pub fn new(weights: W) -> Self {
        Self::with_config(weights, DecoderConfig::default())
            .expect("the default configuration suits every model")
    }

    /// Makes a decoder with another context size or another behavior at its end.
    ///
    /// # Errors
    /// If the context size is 0 or larger than the model's.
    pub fn with_config(weights: W, config: DecoderConfig) -> Result<Self, GenerateError> {
        Self::with_state(weights, DecoderState::new(config))
    }

    /// Makes a decoder that continues from the state of an earlier decoder of the same model. It
    /// takes a microsecond or two: no weight is copied or rounded.
    ///
    /// # Errors
    /// [`GenerateError::OtherModel`] if the state belongs to a model of another configuration.
    pub fn with_state(weights: W, state: DecoderState) -> Result<Self, GenerateError> {
        let state = state.bind(&weights.as_weights().config())?;
        Ok(Self { weights, state })
    }

    /// Returns the text and its cache without the weights.
    pub fn into_state(self) -> DecoderState {
        self.state
    }

    /// Returns the text and its cache. A clone of it is a fork of the text.
    pub fn state(&self) -> &DecoderState {
        &self.state
    }

    /// Returns the weights and the text, each borrowed by itself.
    pub(crate) fn parts(&mut self) -> (WeightsRef<'_>, &mut DecoderState) {
        (self.weights.as_weights(), &mut self.state)
    }

    /// Returns the model.
    pub fn weights(&self) -> &W {
        &self.weights
    }

    /// Returns the configuration of the model.
    pub fn model_config(&self) -> GptConfig {
        self.weights.as_weights().config()
    }

    /// Returns the largest number of tokens that the model sees.
    pub fn context_size(&self) -> usize {
        self.state.context_size()
    }

    /// Returns all tokens, including the prompt's. There are none before the first prompt.
    pub fn tokens(&self) -> &[u32] {
        self.state.tokens()
    }

    /// Returns the number of tokens that the next [`advance`](Self::advance) will process.
    pub fn pending(&self) -> usize {
        self.state.pending()
    }

    /// Returns the number of tokens that the text can still take before it fills the context.
    pub fn room(&self) -> usize {
        self.state.room()
    }

    /// Replaces the text with a prompt and computes nothing yet.
    ///
    /// # Errors
    /// If the prompt is empty, contains an unknown token, or, unless the decoder crops, is longer
    /// than the context. The decoder stays unchanged then.
    pub fn start(&mut self, prompt: &[u32]) -> Result<(), GenerateError> {
        self.state.start(prompt)
    }

    /// Appends tokens and computes nothing yet.
    ///
    /// # Errors
    /// If a token is unknown or, unless the decoder crops, the text would outgrow the context.
    /// Nothing is appended then.
    pub fn push(&mut self, tokens: &[u32]) -> Result<(), GenerateError> {
        self.state.push(tokens)
    }

    /// Drops the tokens after the first `len` and computes nothing yet: for an edited turn, another
    /// text with the same beginning, or tokens that were guessed wrongly. If there are no more
    /// tokens than that, nothing changes.
    ///
    /// The tokens that are left stay in the cache, except for the last, which is pending again.
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

    /// Processes the pending tokens and returns the logits (vocab_size) of the last position. If no
    /// tokens are pending, the logits are unchanged.
    ///
    /// # Errors
    /// If the text is empty, or a public field of the model doesn't fit the others
    /// ([`GptModel::check`](gpt::GptModel::check)).
    pub fn advance(&mut self) -> Result<ArrayView1<'_, f32>, GenerateError> {
        self.state.advance(self.weights.as_weights(), None)?;
        Ok(self.logits())
    }

    /// [`advance`](Self::advance), where `hook` sees and may change the residual stream of the
    /// pending tokens, for steering or ablation.
    ///
    /// It gets the number of blocks that the tokens have passed, from 0 (their embeddings) to all
    /// of them (before the last norm), and the rows (tokens, emb_dim). Later tokens attend to the
    /// changed rows. If the window has moved, it consists of all tokens of the window.
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
    ///         residual.column_mut(5).fill(4.0); // after the first of two blocks
    ///     }
    /// })?;
    /// let steered = steered.to_owned();
    /// decoder.start(&[1, 2, 3])?;
    /// assert_ne!(decoder.advance()?, steered);
    /// # Ok::<(), generate::GenerateError>(())
    /// ```
    ///
    /// # Errors
    /// As [`advance`](Self::advance).
    pub fn advance_with(
        &mut self,
        mut hook: impl FnMut(usize, ArrayViewMut2<f32>) + Send,
    ) -> Result<ArrayView1<'_, f32>, GenerateError> {
        let mut hook = |_, blocks, rows: ArrayViewMut2<f32>| hook(blocks, rows);
        self.state
            .advance(self.weights.as_weights(), Some(&mut hook))?;
        Ok(self.logits())
    }

    /// Returns the logits (vocab_size) of the last position, as of the last
    /// [`advance`](Self::advance).
    pub fn logits(&self) -> ArrayView1<'_, f32> {
        self.state.logits()
    }
}

/// Shows neither the weights nor the cache nor the text.
impl<W: AsWeights> fmt::Debug for Decoder<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("state", &self.state)
            .finish_non_exhaustive()
    }
}
