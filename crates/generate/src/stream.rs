//! New tokens one at a time, until something says stop.
//!
//! A stream continues what its decoder holds, so a conversation is: push a turn, stream an answer,
//! push the next turn.
//! What tokens say as text, `tokenizer::StreamingDecoder` and [`StopStrings`](crate::StopStrings)
//! know.

use std::time::{Duration, Instant};

use torch_rng::TorchRng;

use crate::{Decoder, GenerateError, Sampling};

/// When and how tokens are generated.
#[derive(Clone, Debug, PartialEq)]
pub struct GenerateOptions {
    /// How each token is chosen.
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
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishReason {
    /// This token came.
    StopToken(u32),
    /// The text held this string.
    StopString(String),
    /// As many tokens as were asked for.
    MaxNewTokens,
    /// The context is full, and the decoder was told to stop there.
    ContextFull,
}

/// How long the two phases took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timings {
    /// Tokens taken in before the first was chosen.
    pub prompt_tokens: usize,
    /// The time that took.
    pub prompt_time: Duration,
    /// Steps after that, each one token through the model.
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

/// An iterator over the new tokens of a decoder's one sequence.
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
/// decoder.start(&[&[1, 2, 3]])?;
/// let options = GenerateOptions { max_new_tokens: 4, ..GenerateOptions::default() };
/// let stream = TokenStream::new(&mut decoder, options, &mut rng)?;
/// let tokens = stream.collect::<Result<Vec<u32>, _>>()?;
/// assert_eq!(decoder.tokens(0)[3..], tokens);
/// # Ok::<(), generate::GenerateError>(())
/// ```
#[derive(Debug)]
pub struct TokenStream<'s, 'm> {
    decoder: &'s mut Decoder<'m>,
    options: GenerateOptions,
    rng: &'s mut TorchRng,
    produced: usize,
    finish: Option<FinishReason>,
    failed: bool,
    timings: Timings,
}

impl<'s, 'm> TokenStream<'s, 'm> {
    /// Continues the decoder's sequence.
    ///
    /// # Errors
    /// If a setting is out of range, or the decoder doesn't hold exactly one sequence.
    pub fn new(
        decoder: &'s mut Decoder<'m>,
        options: GenerateOptions,
        rng: &'s mut TorchRng,
    ) -> Result<Self, GenerateError> {
        options.sampling.check()?;
        if decoder.batch() != 1 {
            return Err(GenerateError::NotOneSequence {
                found: decoder.batch(),
            });
        }
        Ok(Self {
            decoder,
            options,
            rng,
            produced: 0,
            finish: None,
            failed: false,
            timings: Timings::default(),
        })
    }

    /// Why the tokens ended; `None` until they have.
    pub fn finish_reason(&self) -> Option<&FinishReason> {
        self.finish.as_ref()
    }

    /// How long it took so far.
    pub fn timings(&self) -> Timings {
        self.timings
    }

    fn generate(&mut self) -> Result<Option<u32>, GenerateError> {
        if self.produced == self.options.max_new_tokens {
            self.finish = Some(FinishReason::MaxNewTokens);
            return Ok(None);
        }
        let began = Instant::now();
        let pending = self.decoder.pending(0);
        if self.produced == 0 && self.decoder.is_over(0) {
            self.finish = Some(FinishReason::ContextFull);
            return Ok(None);
        }
        self.decoder.advance()?;
        if self.produced == 0 {
            self.timings.prompt_tokens = pending;
            self.timings.prompt_time = began.elapsed();
        }
        let (token, finish) = choose(self.decoder, 0, &self.options, self.rng)?;
        self.finish = finish;
        if self.produced > 0 {
            self.timings.decoded_tokens += 1;
            self.timings.decode_time += began.elapsed();
        }
        self.produced += usize::from(token.is_some());
        Ok(token)
    }
}

/// Chooses the next token of a sequence and hands it to the decoder, to be taken in with the next
/// call:
/// the token, none if it ends the text, and why the text ends, if it does.
///
/// A token for which the context has no room left is still a result, but the decoder doesn't get
/// it.
pub(crate) fn choose(
    decoder: &mut Decoder<'_>,
    row: usize,
    options: &GenerateOptions,
    rng: &mut TorchRng,
) -> Result<(Option<u32>, Option<FinishReason>), GenerateError> {
    let sampling = &options.sampling;
    let token = sampling.choose(&decoder.logits(row), decoder.tokens(row), rng)?;
    if options.stop_ids.contains(&token) {
        return Ok((None, Some(FinishReason::StopToken(token))));
    }
    if decoder.is_full(row) {
        return Ok((Some(token), Some(FinishReason::ContextFull)));
    }
    decoder.push(row, &[token])?;
    Ok((Some(token), None))
}

impl Iterator for TokenStream<'_, '_> {
    type Item = Result<u32, GenerateError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.finish.is_some() {
            return None;
        }
        let token = self.generate();
        self.failed = token.is_err();
        token.transpose()
    }
}
