//! New tokens one at a time, until a stop condition.
//!
//! A stream continues what its decoder holds, so a conversation is: push a turn, stream an answer,
//! push the next turn.
//! See `tokenizer::StreamingDecoder` for the text of tokens, and
//! [`StopStrings`](crate::StopStrings) for texts that end it.

use std::time::{Duration, Instant};

use torch_rng::TorchRng;

use crate::{Decoder, GenerateError, Sampling};

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
/// A decoder that stops at the end of its context gives one token more than that holds; there are
/// none where all of a full context has been taken in.
///
/// ```
/// use generate::{Decoder, GenerateOptions, TokenStream};
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
/// let stream = TokenStream::new(&mut decoder, options, &mut rng)?;
/// let tokens = stream.collect::<Result<Vec<u32>, _>>()?;
/// assert_eq!(decoder.tokens()[3..], tokens);
/// # Ok::<(), generate::GenerateError>(())
/// ```
#[derive(Debug)]
pub struct TokenStream<'s, 'm> {
    decoder: &'s mut Decoder<'m>,
    options: GenerateOptions,
    rng: &'s mut TorchRng,
    finish: Option<FinishReason>,
    steps: usize,
    failed: bool,
    timings: Timings,
}

impl<'s, 'm> TokenStream<'s, 'm> {
    /// Continues the decoder's text.
    ///
    /// # Errors
    /// If a setting is out of range.
    pub fn new(
        decoder: &'s mut Decoder<'m>,
        options: GenerateOptions,
        rng: &'s mut TorchRng,
    ) -> Result<Self, GenerateError> {
        options.sampling.check()?;
        let is_over = decoder.is_full() && decoder.pending() == 0;
        Ok(Self {
            finish: is_over.then_some(FinishReason::ContextFull),
            decoder,
            options,
            rng,
            steps: 0,
            failed: false,
            timings: Timings::default(),
        })
    }

    /// Why the tokens ended; `None` until they have.
    pub fn finish_reason(&self) -> Option<FinishReason> {
        self.finish
    }

    /// The times so far.
    pub fn timings(&self) -> Timings {
        self.timings
    }

    /// Processes the pending tokens, chooses the next token and pushes it to the decoder. Returns
    /// `None` for a token that ends the text.
    ///
    /// A token for which the context has no room left is still a result, but the decoder doesn't
    /// get it.
    fn step(&mut self) -> Result<Option<u32>, GenerateError> {
        let (began, pending) = (Instant::now(), self.decoder.pending());
        self.decoder.advance()?;
        if self.steps == 0 {
            self.timings.prompt_tokens = pending;
            self.timings.prompt_time = began.elapsed();
        }
        let (text, logits) = (self.decoder.tokens(), self.decoder.logits());
        let sampling = &self.options.sampling;
        let token = sampling.choose_after(text, &logits, self.rng)?;
        if self.steps > 0 {
            self.timings.decoded_tokens += 1;
            self.timings.decode_time += began.elapsed();
        }
        self.steps += 1;
        if self.options.stop_ids.contains(&token) {
            self.finish = Some(FinishReason::StopToken(token));
            return Ok(None);
        }
        match self.decoder.is_full() {
            true => self.finish = Some(FinishReason::ContextFull),
            false => self.decoder.push(&[token])?,
        }
        Ok(Some(token))
    }
}

impl Iterator for TokenStream<'_, '_> {
    type Item = Result<u32, GenerateError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.finish.is_some() {
            return None;
        }
        if self.steps == self.options.max_new_tokens {
            self.finish = Some(FinishReason::MaxNewTokens);
            return None;
        }
        let step = self.step();
        self.failed = step.is_err();
        step.transpose()
    }
}
