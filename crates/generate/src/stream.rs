//! New tokens one at a time, until a stop condition.
//!
//! A stream continues what its decoder holds, so a conversation is: push a turn, stream an answer,
//! push the next turn.
//! See `tokenizer::StreamingDecoder` for the text of tokens, and
//! [`StopStrings`](crate::StopStrings) for texts that end it.

use std::time::{Duration, Instant};

use ndarray::{Array1, ArrayView1};
use torch_rng::TorchRng;

use crate::sampling::{RandomSampler, Sampler};
use crate::{AsWeights, Decoder, DecoderState, GenerateError, Sampling, WeightsRef};

/// When and how tokens are generated.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct GenerateOptions {
    /// The settings by which each token is chosen.
    pub sampling: Sampling,
    /// The most tokens to generate.
    pub max_new_tokens: usize,
    /// Tokens that end the text, such as `<|endoftext|>`; they are not part of it.
    pub stop_ids: Vec<u32>,
}

/// The default sampling, 50 tokens, and no token that ends a text.
impl Default for GenerateOptions {
    fn default() -> Self {
        Self {
            sampling: Sampling::default(),
            max_new_tokens: 50,
            stop_ids: Vec::new(),
        }
    }
}

/// Why a text ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "snake_case"))]
#[non_exhaustive]
pub enum FinishReason {
    /// This token came.
    StopToken(u32),
    /// The text has the requested number of tokens.
    MaxNewTokens,
    /// The context is full, and the decoder stops there.
    ContextFull,
}

/// The times that the two phases took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default))]
#[non_exhaustive]
pub struct Timings {
    /// Tokens taken in before the first was chosen.
    pub prompt_tokens: usize,
    /// The time that took.
    pub prompt_time: Duration,
    /// Tokens after that, each through the model once.
    pub decoded_tokens: usize,
    /// The time they took, choosing included.
    pub decode_time: Duration,
}

impl Timings {
    /// Prompt tokens a second; 0 before there is anything to measure.
    pub fn prompt_tokens_per_second(&self) -> f64 {
        rate(self.prompt_tokens, self.prompt_time)
    }

    /// Decoded tokens a second; 0 before there is anything to measure.
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

/// An iterator over the new tokens of a decoder's text.
///
/// `for token in &mut stream` leaves the stream to the program, which can ask it afterwards why the
/// text ended and how long it took.
///
/// A decoder that stops at the end of its context gives one token more than that holds; there are
/// none where all of a full context has been taken in.
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
    /// Continues the decoder's text.
    ///
    /// # Errors
    /// If a setting is out of range.
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
    /// Continues the decoder's text with tokens that `sampler` chooses from the text and the logits
    /// (vocab_size). The sampling settings of `options` are not used.
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
    /// // Never the same token twice in a row.
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

    /// Returns why the tokens ended; `None` until they have.
    pub fn finish_reason(&self) -> Option<FinishReason> {
        self.continuation.finish
    }

    /// Returns the times so far.
    pub fn timings(&self) -> Timings {
        self.continuation.timings
    }

    /// Returns the text so far, and the logits (vocab_size) that the last token was chosen from.
    pub fn state(&self) -> &DecoderState {
        self.state
    }

    /// Returns an iterator over the tokens that gives a copy of the logits (vocab_size) with each
    /// of them.
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

/// Shows neither the model nor the text.
impl<F> std::fmt::Debug for TokenStream<'_, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TokenStream")
            .field("state", &self.state)
            .field("finish_reason", &self.continuation.finish)
            .field("timings", &self.continuation.timings)
            .finish_non_exhaustive()
    }
}

/// How a text is continued, and how far it has come. `F` chooses the tokens.
pub(crate) struct Continuation<F> {
    sampler: F,
    max_new_tokens: usize,
    stop_ids: Vec<u32>,
    pub(crate) finish: Option<FinishReason>,
    failed: bool,
    /// Number of tokens chosen so far.
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

    /// Returns why the text has ended, if it has.
    pub(crate) fn over(&mut self) -> Option<FinishReason> {
        if self.steps == self.max_new_tokens {
            self.finish = self.finish.or(Some(FinishReason::MaxNewTokens));
        }
        self.finish
    }

    /// Counts pending tokens that were processed, and their time.
    pub(crate) fn processed(&mut self, tokens: usize, time: Duration) {
        if self.steps == 0 {
            self.timings.prompt_tokens += tokens;
            self.timings.prompt_time += time;
        } else {
            self.timings.decode_time += time;
        }
    }

    /// Counts the time of choosing a token, except for the first.
    pub(crate) fn chose(&mut self, time: Duration) {
        if self.steps > 1 {
            self.timings.decode_time += time;
        }
    }

    /// Chooses the next token and pushes it to the text. Returns `None` for a token that ends the
    /// text.
    ///
    /// A token for which the context has no room left is still a result, but the text doesn't get
    /// it.
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
