//! An iterator that generates tokens for a single text, one at a time, until a stop condition is
//! met.
//!
//! A stream continues the text that a [`Decoder`](crate::Decoder) already contains. For a
//! conversation with the model, alternate between pushing the tokens of a user's message to the
//! decoder and generating the answer with a stream. To convert the generated tokens to text, use
//! `tokenizer::StreamingDecoder`. To stop at a string rather than at a token, use
//! [`StopStrings`](crate::StopStrings).

use std::time::{Duration, Instant};

use ndarray::{Array1, ArrayView1};
use torch_rng::TorchRng;

use crate::sampling::{RandomSampler, Sampler};
use crate::{AsWeights, Decoder, DecoderState, GenerateError, Sampling, WeightsRef};

/// Settings that determine how tokens are chosen and when the generation stops.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct GenerateOptions {
    /// Settings that determine how each token is chosen. The default is [`Sampling::GREEDY`].
    pub sampling: Sampling,
    /// Maximum number of tokens to generate. The default is 50.
    pub max_new_tokens: usize,
    /// IDs of the tokens that end the text, such as `<|endoftext|>`. If the model chooses one of
    /// these tokens, the generation ends and the token isn't appended to the text. The list is
    /// empty by default.
    pub stop_ids: Vec<u32>,
}

/// By default, a stream generates up to 50 tokens with greedy decoding, and no token ends the text.
impl Default for GenerateOptions {
    fn default() -> Self {
        Self {
            sampling: Sampling::default(),
            max_new_tokens: 50,
            stop_ids: Vec::new(),
        }
    }
}

/// The reason why the generation of tokens has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum FinishReason {
    /// The model chose this token, which is one of [`GenerateOptions::stop_ids`].
    StopToken(u32),
    /// The requested number of tokens, [`GenerateOptions::max_new_tokens`], has been generated.
    MaxNewTokens,
    /// The text is as long as the context, and the decoder was configured with
    /// [`PastContext::Stop`](crate::PastContext::Stop), so the generation has ended.
    ContextFull,
}

/// Token counts and durations of the two phases of text generation. In the first phase, the prompt
/// is processed. In the second phase, which is called decoding, each step generates one token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct Timings {
    /// Number of prompt tokens, which are the tokens that were processed before the first new token
    /// was chosen.
    pub prompt_tokens: usize,
    /// Time spent on processing the prompt tokens.
    pub prompt_time: Duration,
    /// Number of decoded tokens, which are all new tokens except for the first one. Each of them
    /// required a pass through the model.
    pub decoded_tokens: usize,
    /// Time spent on the decoded tokens. It includes both the passes through the model and the
    /// choice of the tokens.
    pub decode_time: Duration,
}

impl Timings {
    /// Returns the number of prompt tokens processed per second, or 0 if no time has been measured
    /// yet.
    pub fn prompt_tokens_per_second(&self) -> f64 {
        rate(self.prompt_tokens, self.prompt_time)
    }

    /// Returns the number of decoded tokens per second, or 0 if no time has been measured yet.
    pub fn decoded_tokens_per_second(&self) -> f64 {
        rate(self.decoded_tokens, self.decode_time)
    }
}

fn rate(tokens: usize, time: Duration) -> f64 {
    if time.is_zero() {
        return 0.0;
    }
    tokens as f64 / time.as_secs_f64()
}

/// An iterator that generates the next tokens of a decoder's text.
///
/// A `for` loop over the stream usually consumes it. If you need the stream after the loop, write
/// `for token in &mut stream`. You can then ask it why the text has ended
/// ([`finish_reason`](Self::finish_reason)) and how long the generation took
/// ([`timings`](Self::timings)).
///
/// If the decoder was configured with [`PastContext::Stop`](crate::PastContext::Stop), the stream
/// can return one more token than the context can hold. The model predicts this last token from a
/// full context, so the stream returns the token without appending it to the text. If the context
/// is already full before the stream is created, and all of its tokens have been processed, the
/// stream returns no tokens.
///
/// ```
/// use generate::{Decoder, FinishReason, GenerateOptions, TokenStream};
/// use gpt::{GptConfig, GptModel};
/// use torch_rng::TorchRng;
///
/// let config = GptConfig {
///     vocab_size: 50, context_length: 8, emb_dim: 8,
///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
/// };
/// let mut rng = TorchRng::manual_seed(123);
/// let model = GptModel::new(config, &mut rng)?;
/// let mut decoder = Decoder::new(&model);
/// decoder.start(&[1, 2, 3])?;
/// let options = GenerateOptions { max_new_tokens: 4, ..GenerateOptions::default() };
/// let mut stream = TokenStream::new(&mut decoder, options, &mut rng)?;
/// for token in &mut stream {
///     assert!(token? < 50);
/// }
/// assert_eq!(stream.finish_reason(), Some(FinishReason::MaxNewTokens));
/// assert_eq!(decoder.tokens().len(), 7);
/// # Ok::<(), generate::GenerateError>(())
/// ```
pub struct TokenStream<'s, F = RandomSampler<&'s mut TorchRng>> {
    weights: WeightsRef<'s>,
    state: &'s mut DecoderState,
    continuation: Continuation<F>,
}

impl<'s> TokenStream<'s> {
    /// Creates a stream that continues the decoder's text. The stream chooses tokens according to
    /// the sampling settings in `options`, with random numbers from `rng`.
    ///
    /// # Errors
    ///
    /// Returns an error if a sampling setting is out of range.
    pub fn new<W: AsWeights>(
        decoder: &'s mut Decoder<W>,
        options: GenerateOptions,
        rng: &'s mut TorchRng,
    ) -> Result<Self, GenerateError> {
        options.sampling.check()?;
        let sampling = options.sampling;
        Ok(Self::of(decoder, options, RandomSampler { sampling, rng }))
    }
}

impl<'s, F> TokenStream<'s, F> {
    /// Creates a stream that continues the decoder's text with the tokens that `sampler` chooses.
    /// The arguments of `sampler` are all tokens of the text so far, and the logits of the next
    /// token, of shape (vocab_size). The sampling settings in `options` are ignored.
    ///
    /// ```
    /// use generate::{Decoder, GenerateError, GenerateOptions, TokenStream, greedy_id};
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
    /// // This sampler never chooses the same token twice in a row.
    /// let options = GenerateOptions::default();
    /// let stream = TokenStream::with_sampler(&mut decoder, options, |text, logits| {
    ///     let mut logits = logits.to_owned();
    ///     logits[text[text.len() - 1] as usize] = f32::NEG_INFINITY;
    ///     greedy_id(&logits)
    /// });
    /// let tokens = stream.collect::<Result<Vec<u32>, GenerateError>>()?;
    /// assert!(tokens.windows(2).all(|pair| pair[0] != pair[1]));
    /// # Ok::<(), GenerateError>(())
    /// ```
    pub fn with_sampler<W: AsWeights, E>(
        decoder: &'s mut Decoder<W>,
        options: GenerateOptions,
        sampler: F,
    ) -> Self
    where
        F: FnMut(&[u32], ArrayView1<f32>) -> Result<u32, E>,
    {
        Self::of(decoder, options, sampler)
    }

    fn of<W: AsWeights>(decoder: &'s mut Decoder<W>, options: GenerateOptions, sampler: F) -> Self {
        let (weights, state) = decoder.parts();
        Self {
            continuation: Continuation::new(state, options, sampler),
            weights,
            state,
        }
    }

    /// Returns the reason why the generation has ended. Returns `None` if it hasn't ended yet, or
    /// if it has ended with an error.
    pub fn finish_reason(&self) -> Option<FinishReason> {
        self.continuation.finish
    }

    /// Returns the times that have been measured so far.
    pub fn timings(&self) -> Timings {
        self.continuation.timings
    }

    /// Returns the state of the text. The logits in this state, of shape (vocab_size), are the
    /// logits from which the last token was chosen.
    pub fn state(&self) -> &DecoderState {
        self.state
    }

    /// Returns an iterator over the new tokens. Each item consists of a token and a copy of the
    /// logits from which the token was chosen, of shape (vocab_size).
    pub fn with_logits(
        &mut self,
    ) -> impl Iterator<Item = Result<(u32, Array1<f32>), F::Error>> + use<'_, 's, F>
    where
        F: Sampler,
    {
        std::iter::from_fn(|| {
            let token = self.next()?;
            Some(token.map(|token| (token, self.state.logits().to_owned())))
        })
    }
}

impl<F: Sampler> Iterator for TokenStream<'_, F> {
    type Item = Result<u32, F::Error>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.continuation.failed || self.continuation.over().is_some() {
            return None;
        }
        let (began, pending) = (Instant::now(), self.state.pending());
        if let Err(error) = self.state.advance(self.weights, None) {
            self.continuation.failed = true;
            return Some(Err(error.into()));
        }
        self.continuation.processed(pending, began.elapsed());
        let computed = Instant::now();
        let token = self.continuation.choose(self.state);
        self.continuation.chose(computed.elapsed());
        token.transpose()
    }
}

/// The debug output contains neither the model nor the tokens of the text.
impl<F> std::fmt::Debug for TokenStream<'_, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenStream")
            .field("state", &self.state)
            .field("finish_reason", &self.continuation.finish)
            .field("timings", &self.continuation.timings)
            .finish_non_exhaustive()
    }
}

/// The continuation of a text, which consists of a sampler, the stop conditions, and the progress
/// so far.
///
/// [`TokenStream`] and [`TokenStreams`](crate::TokenStreams) share this implementation. The type
/// parameter `F` is the type of the sampler.
pub(crate) struct Continuation<F> {
    sampler: F,
    max_new_tokens: usize,
    stop_ids: Vec<u32>,
    pub(crate) finish: Option<FinishReason>,
    failed: bool,
    /// Number of tokens that have been chosen so far.
    steps: usize,
    pub(crate) timings: Timings,
}

impl<F> Continuation<F> {
    pub(crate) fn new(state: &DecoderState, options: GenerateOptions, sampler: F) -> Self {
        let is_over = state.is_full() && state.pending() == 0;
        Self {
            sampler,
            max_new_tokens: options.max_new_tokens,
            stop_ids: options.stop_ids,
            finish: is_over.then_some(FinishReason::ContextFull),
            failed: false,
            steps: 0,
            timings: Timings::default(),
        }
    }

    /// Returns the reason why the text has ended, or `None` if it hasn't ended.
    pub(crate) fn over(&mut self) -> Option<FinishReason> {
        if self.steps == self.max_new_tokens {
            self.finish = self.finish.or(Some(FinishReason::MaxNewTokens));
        }
        self.finish
    }

    /// Updates the timings after a pass through the model that processed `tokens` tokens in the
    /// duration `time`. If no token has been chosen yet, the processed tokens are prompt tokens.
    pub(crate) fn processed(&mut self, tokens: usize, time: Duration) {
        if self.steps == 0 {
            self.timings.prompt_tokens += tokens;
            self.timings.prompt_time += time;
        } else {
            self.timings.decode_time += time;
        }
    }

    /// Updates the decoding time after a token has been chosen, which took the duration `time`. The
    /// choice of the first token isn't counted, because the decoding phase begins after it.
    pub(crate) fn chose(&mut self, time: Duration) {
        if self.steps > 1 {
            self.timings.decode_time += time;
        }
    }

    /// Chooses the next token and appends it to the text. Returns `None` if the chosen token ends
    /// the text.
    ///
    /// If the text already fills the context and the decoder was configured with
    /// [`PastContext::Stop`](crate::PastContext::Stop), the chosen token is returned as the last
    /// one, but it isn't appended to the text.
    pub(crate) fn choose(&mut self, state: &mut DecoderState) -> Result<Option<u32>, F::Error>
    where
        F: Sampler,
    {
        let chosen = self.sampler.choose(state.tokens(), state.logits());
        self.failed = chosen.is_err();
        let token = chosen?;
        self.timings.decoded_tokens += usize::from(self.steps > 0);
        self.steps += 1;
        if self.stop_ids.contains(&token) {
            self.finish = Some(FinishReason::StopToken(token));
            return Ok(None);
        }
        match state.is_full() {
            true => self.finish = Some(FinishReason::ContextFull),
            false => {
                let pushed = state.push(&[token]);
                self.failed = pushed.is_err();
                pushed?;
            }
        }
        Ok(Some(token))
    }
}
