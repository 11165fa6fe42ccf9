//! New tokens one at a time, of one text or of several at once, until something says stop.
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
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FinishReason {
    /// This token came.
    StopToken(u32),
    /// The text held this string.
    StopString(String),
    /// The text has the number of tokens that was asked for.
    MaxNewTokens,
    /// The context is full, and the decoder was told to stop there.
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

/// An iterator over steps, each of which takes one token of every sequence that a decoder holds
/// through the model: the new tokens, each with its sequence, of those that have not ended.
///
/// The weights are read once for all of them. Each is drawn with its own generator: a text is the
/// one that it would be alone, whichever others are in the batch, up to the rounding of the logits.
/// Prompts may differ in length, and nothing is padded; a sequence that has ended costs nothing
/// more.
///
/// ```
/// use generate::{BatchStream, Decoder, FinishReason, GenerateOptions};
/// use gpt::{GptConfig, GptModel};
/// use torch_rng::TorchRng;
///
/// let config = GptConfig {
///     vocab_size: 50, context_length: 8, emb_dim: 8,
///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
/// };
/// let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
/// let mut decoder = Decoder::new(&model);
/// decoder.start(&[&[1, 2, 3], &[4]])?;
/// let mut rngs = [1, 2].map(TorchRng::manual_seed);
/// let mut stream = BatchStream::new(&mut decoder, GenerateOptions::default(), &mut rngs)?;
/// let first = stream.next().expect("the first step")?;
/// assert_eq!(first.len(), 2);
/// stream.end(0, FinishReason::StopString("as its caller found".to_owned()));
/// let second = stream.next().expect("the second step")?;
/// assert_eq!((second.len(), second[0].0), (1, 1));
/// # Ok::<(), generate::GenerateError>(())
/// ```
#[derive(Debug)]
pub struct BatchStream<'s, 'm> {
    decoder: &'s mut Decoder<'m>,
    options: GenerateOptions,
    rngs: &'s mut [TorchRng],
    /// Why each sequence has ended.
    finish: Vec<Option<FinishReason>>,
    steps: usize,
    failed: bool,
    timings: Timings,
}

impl<'s, 'm> BatchStream<'s, 'm> {
    /// Continues all of the decoder's sequences, each drawn with its own generator.
    ///
    /// # Errors
    /// If a setting is out of range, or there is not one generator for each sequence.
    pub fn new(
        decoder: &'s mut Decoder<'m>,
        options: GenerateOptions,
        rngs: &'s mut [TorchRng],
    ) -> Result<Self, GenerateError> {
        options.sampling.check()?;
        let sequences = decoder.batch();
        if rngs.len() != sequences {
            let generators = rngs.len();
            return Err(GenerateError::Generators {
                sequences,
                generators,
            });
        }
        let over = |row| decoder.is_over(row).then_some(FinishReason::ContextFull);
        Ok(Self {
            finish: (0..sequences).map(over).collect(),
            decoder,
            options,
            rngs,
            steps: 0,
            failed: false,
            timings: Timings::default(),
        })
    }

    /// Ends a sequence whose text its caller has found to be whole.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn end(&mut self, row: usize, reason: FinishReason) {
        self.finish[row] = Some(reason);
    }

    /// Why a sequence ended; `None` until it has.
    ///
    /// # Panics
    /// If there is no such sequence.
    pub fn finish_reason(&self, row: usize) -> Option<&FinishReason> {
        self.finish[row].as_ref()
    }

    /// The times so far, of all sequences together.
    pub fn timings(&self) -> Timings {
        self.timings
    }

    fn step(&mut self) -> Result<Vec<(usize, u32)>, GenerateError> {
        let began = Instant::now();
        let going: Vec<usize> = (0..self.finish.len())
            .filter(|&row| self.finish[row].is_none())
            .collect();
        let pending = going.iter().map(|&row| self.decoder.pending(row)).sum();
        self.decoder.advance()?;
        if self.steps == 0 {
            self.timings.prompt_tokens = pending;
            self.timings.prompt_time = began.elapsed();
        }
        let mut tokens = Vec::with_capacity(going.len());
        for &row in &going {
            let token;
            (token, self.finish[row]) = self.choose(row)?;
            tokens.extend(token.map(|token| (row, token)));
        }
        if self.steps > 0 {
            self.timings.decoded_tokens += going.len();
            self.timings.decode_time += began.elapsed();
        }
        self.steps += 1;
        Ok(tokens)
    }

    /// Chooses the next token of a sequence and hands it to the decoder, to be taken in with the
    /// next step: the token, none if it ends the text, and why the text ends, if it does.
    ///
    /// A token for which the context has no room left is still a result, but the decoder doesn't
    /// get it.
    fn choose(&mut self, row: usize) -> Result<(Option<u32>, Option<FinishReason>), GenerateError> {
        let (decoder, rng) = (&mut *self.decoder, &mut self.rngs[row]);
        let sampling = &self.options.sampling;
        let token = sampling.choose(&decoder.logits(row), decoder.tokens(row), rng)?;
        if self.options.stop_ids.contains(&token) {
            return Ok((None, Some(FinishReason::StopToken(token))));
        }
        if decoder.is_full(row) {
            return Ok((Some(token), Some(FinishReason::ContextFull)));
        }
        decoder.push(row, &[token])?;
        Ok((Some(token), None))
    }
}

impl Iterator for BatchStream<'_, '_> {
    type Item = Result<Vec<(usize, u32)>, GenerateError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.steps == self.options.max_new_tokens {
            for finish in &mut self.finish {
                finish.get_or_insert(FinishReason::MaxNewTokens);
            }
        }
        if self.failed || self.finish.iter().all(Option::is_some) {
            return None;
        }
        let step = self.step();
        self.failed = step.is_err();
        Some(step)
    }
}

/// An iterator over the new tokens of a decoder's one sequence: a [`BatchStream`] of one.
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
pub struct TokenStream<'s, 'm>(BatchStream<'s, 'm>);

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
        let found = decoder.batch();
        match found {
            1 => BatchStream::new(decoder, options, std::slice::from_mut(rng)).map(Self),
            _ => Err(GenerateError::NotOneSequence { found }),
        }
    }

    /// Why the tokens ended; `None` until they have.
    pub fn finish_reason(&self) -> Option<&FinishReason> {
        self.0.finish_reason(0)
    }

    /// The times so far.
    pub fn timings(&self) -> Timings {
        self.0.timings()
    }
}

impl Iterator for TokenStream<'_, '_> {
    type Item = Result<u32, GenerateError>;

    fn next(&mut self) -> Option<Self::Item> {
        let step = self.0.next()?;
        // A token that ends the text is none of it.
        step.map(|tokens| tokens.first().map(|&(_, token)| token))
            .transpose()
    }
}
