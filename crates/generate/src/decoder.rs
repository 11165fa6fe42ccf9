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
use ndarray::{Array2, ArrayView1, ArrayViewMut2};

use crate::{AsWeights, DecoderConfig, DecoderState, DecoderWeights, GenerateError, WeightsRef};

/// A model together with the text that the model continues.
///
/// The type parameter `W` determines how the decoder stores the model. For example,
/// `Decoder::new(&model)` borrows a [`GptModel`](gpt::GptModel). If the decoder has to own its
/// model, for example because the decoder is a field of a struct, pass [`DecoderWeights`] or an
/// `Arc<GptModel>`. Several decoders can then share the weights, because clones of both types refer
/// to the same memory.
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
    /// Creates a decoder with an empty text. If the text later becomes longer than the model's
    /// context length, the model sees only the end of the text, as in the book.
    pub fn new(weights: W) -> Self {
        Self::with_config(weights, DecoderConfig::default())
            .expect("the default configuration suits every model")
    }

    /// Creates a decoder with an empty text. `config` determines the context size and the behavior
    /// if the text becomes longer than the context.
    ///
    /// # Errors
    ///
    /// Returns an error if the context size is 0 or larger than the model's context length.
    pub fn with_config(weights: W, config: DecoderConfig) -> Result<Self, GenerateError> {
        Self::with_state(weights, DecoderState::new(config))
    }

    /// Creates a decoder that continues the text in `state`, which can come from another decoder or
    /// a batch with the same model. This function takes only one or two microseconds, because it
    /// neither copies nor converts any weights.
    ///
    /// # Errors
    ///
    /// Returns [`GenerateError::OtherModel`] if the state belongs to a model with a different
    /// configuration. Returns [`GenerateError::ContextSize`] if the state is new and its context
    /// size is 0 or larger than the model's context length.
    pub fn with_state(weights: W, state: DecoderState) -> Result<Self, GenerateError> {
        let state = state.bind(&weights.as_weights().config())?;
        Ok(Self { weights, state })
    }

    /// Returns the state, which contains the text and its KV cache, and drops the weights.
    pub fn into_state(self) -> DecoderState {
        self.state
    }

    /// Returns the state, which contains the text and its KV cache. To continue the text in several
    /// ways, clone the state.
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

    /// Returns the maximum number of tokens that the model sees at a time.
    pub fn context_size(&self) -> usize {
        self.state.context_size()
    }

    /// Returns all tokens of the text, including the prompt. The text is empty before the first
    /// prompt.
    pub fn tokens(&self) -> &[u32] {
        self.state.tokens()
    }

    /// Returns the number of pending tokens, which are the tokens that the next call of
    /// [`advance`](Self::advance) will process.
    pub fn pending(&self) -> usize {
        self.state.pending()
    }

    /// Returns the number of tokens that can still be appended to the text before it is as long as
    /// the decoder's context size, which is the maximum number of tokens that the model sees.
    /// Returns 0 if the text is already this long or longer.
    pub fn room(&self) -> usize {
        self.state.room()
    }

    /// Replaces the text with a new prompt. The next call of [`advance`](Self::advance) processes
    /// the prompt.
    ///
    /// # Errors
    ///
    /// Returns an error and leaves the decoder unchanged in each of these cases:
    /// - The prompt is empty.
    /// - A token of the prompt isn't in the model's vocabulary.
    /// - The prompt is longer than the context, and the decoder was configured with
    ///   [`PastContext::Stop`](crate::PastContext::Stop).
    pub fn start(&mut self, prompt: &[u32]) -> Result<(), GenerateError> {
        self.state.start(prompt)
    }

    /// Appends tokens to the text. The next call of [`advance`](Self::advance) processes these
    /// tokens.
    ///
    /// # Errors
    ///
    /// Returns an error and appends nothing in each of these cases:
    /// - A token isn't in the model's vocabulary.
    /// - The text would become longer than the context, and the decoder was configured with
    ///   [`PastContext::Stop`](crate::PastContext::Stop).
    pub fn push(&mut self, tokens: &[u32]) -> Result<(), GenerateError> {
        self.state.push(tokens)
    }

    /// Removes all tokens after the first `len` tokens. If the text has at most `len` tokens, it
    /// stays unchanged.
    ///
    /// For example, use this method if a user edits an earlier message of a conversation, if the
    /// next text begins with the same tokens as this one, or if guessed tokens turn out to be wrong
    /// (speculative decoding, see [`advance_all`](Self::advance_all)).
    ///
    /// The remaining tokens stay in the cache, except for the last one. This token becomes pending,
    /// because it has to be processed again to compute the logits of the token after it. If the
    /// text was longer than the context, the cache can't be used, and all tokens that the model
    /// sees become pending.
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
    /// The logits have the same bits whether the tokens of a text are processed one at a time or
    /// several at a time.
    ///
    /// # Errors
    ///
    /// Returns [`GenerateError::EmptyText`] if the text is empty. Also returns an error if a field
    /// of the model doesn't match the model's configuration
    /// ([`GptModel::check`](gpt::GptModel::check)).
    pub fn advance(&mut self) -> Result<ArrayView1<'_, f32>, GenerateError> {
        self.state.advance(self.weights.as_weights(), None)?;
        Ok(self.logits())
    }

    /// Processes the pending tokens like [`advance`](Self::advance), but returns the logits that
    /// follow each of them, of shape (pending, vocab_size). The last row contains the logits of the
    /// next token. If there are no pending tokens, the result has no rows.
    ///
    /// With this method, a large model can check in one step several tokens that a smaller model
    /// has guessed (speculative decoding). The example `speculative.rs` shows how. The logits have
    /// the same bits as if [`advance`](Self::advance) had been called after each token.
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
    /// let logits = decoder.advance_all()?;
    /// assert_eq!(logits.dim(), (3, 50));
    /// assert_eq!(logits.row(2), decoder.logits());
    /// decoder.start(&[1])?;
    /// assert_eq!(logits.row(0), decoder.advance()?);
    /// # Ok::<(), generate::GenerateError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`advance`](Self::advance).
    pub fn advance_all(&mut self) -> Result<Array2<f32>, GenerateError> {
        self.state.advance_all(self.weights.as_weights())
    }

    /// Processes the pending tokens like [`advance`](Self::advance), but calls `hook` before the
    /// first block and after each block. The hook can read and change the residual stream, for
    /// example for activation steering or ablation.
    ///
    /// The hook has two arguments: the number of blocks that have already processed the pending
    /// tokens, and the residual stream of these tokens, of shape (tokens, emb_dim). In the first
    /// call, the number of blocks is 0, and the residual stream contains the embeddings. In the
    /// last call, the number of blocks is `n_layers`, and the residual stream is the input of the
    /// final layer normalization.
    ///
    /// If the hook changes the residual stream, the change also affects tokens that are appended to
    /// the text later, because the keys and values in the cache are computed from the changed
    /// residual stream. If the text is longer than the context, each step has to process every
    /// token in the context anew, and the hook is called for all of these tokens.
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
