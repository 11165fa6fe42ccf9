//! New tokens of several texts that one model continues together, each until its own stop
//! condition.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use ndarray::ArrayView1;
use tensor_ops::engine::{awake, for_each};
use torch_rng::TorchRng;

use crate::slot::Slot;
use crate::stream::Continuation;
use crate::{
    AsWeights, Batch, DecoderState, DecoderWeights, FinishReason, GenerateError, GenerateOptions,
    RandomSampler, Sampler, Timings,
};

/// [`TokenStream`](crate::TokenStream)s of several texts over one model: each text has its own
/// sampler, seed and stop conditions, may join or leave between two steps, and gets exactly the
/// tokens that it would get alone.
///
/// ```
/// use generate::{DecoderState, GenerateOptions, StreamEvent, TokenStreams};
/// use gpt::{GptConfig, GptModel};
/// use torch_rng::TorchRng;
///
/// let config = GptConfig {
///     vocab_size: 50, context_length: 8, emb_dim: 8,
///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
/// };
/// let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
/// let mut streams = TokenStreams::new(&model);
/// for (prompt, max_new_tokens) in [([1, 2], 3), ([3, 4], 2)] {
///     let options = GenerateOptions { max_new_tokens, ..GenerateOptions::default() };
///     let rng = TorchRng::manual_seed(7);
///     streams.add(DecoderState::default(), &prompt, options, rng)?;
/// }
/// let mut lengths = Vec::new();
/// while !streams.is_empty() {
///     for (_slot, event) in streams.step() {
///         match event {
///             StreamEvent::Token(token) => assert!(token < 50),
///             StreamEvent::Ended(ended) => lengths.push(ended.state.tokens().len()),
///         }
///     }
/// }
/// assert_eq!(lengths, [4, 5]); // the second text ends first
/// # Ok::<(), generate::GenerateError>(())
/// ```
pub struct TokenStreams<'s, W = DecoderWeights, E = GenerateError> {
    batch: Batch<W>,
    continuations: BTreeMap<Slot, Continuation<BoxedSampler<'s, E>>>,
}

type BoxedSampler<'s, E> = Box<dyn FnMut(&[u32], ArrayView1<f32>) -> Result<u32, E> + Send + 's>;

/// What a step has brought for a text.
#[derive(Debug)]
pub enum StreamEvent<E = GenerateError> {
    /// The next token.
    Token(u32),
    /// The text has ended, and has left the streams.
    Ended(Box<EndedStream<E>>),
}

/// A text that has ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct EndedStream<E = GenerateError> {
    /// Why it has ended, or the error of its sampler or its logits.
    pub reason: Result<FinishReason, E>,
    /// The times of its tokens. They contain the times of the texts that it shared steps with.
    pub timings: Timings,
    /// The text and its cache, from which it can be continued.
    pub state: DecoderState,
}

impl<W: AsWeights> TokenStreams<'_, W> {
    /// Makes streams over a model, without a text.
    pub fn new(weights: W) -> Self {
        Self::with_error_type(weights)
    }
}

impl<'s, W: AsWeights, E: From<GenerateError> + Send> TokenStreams<'s, W, E> {
    /// Makes streams for samplers that have errors of their own type.
    pub fn with_error_type(weights: W) -> Self {
        Self {
            batch: Batch::new(weights),
            continuations: BTreeMap::new(),
        }
    }

    /// Adds a text, with `tokens` after those that its state has, and continues it as
    /// [`TokenStream::new`](crate::TokenStream::new) does.
    ///
    /// # Errors
    /// If a setting is out of range, the text is empty, the model lacks a token, the context has no
    /// room, or the state belongs to a model of another configuration.
    pub fn add(
        &mut self,
        state: DecoderState,
        tokens: &[u32],
        options: GenerateOptions,
        rng: TorchRng,
    ) -> Result<Slot, GenerateError> {
        options.sampling.check()?;
        let sampling = options.sampling;
        let mut sampler = RandomSampler { sampling, rng };
        self.add_with_sampler(state, tokens, options, move |text, logits| {
            Ok(sampler.choose(text, logits)?)
        })
    }

    /// Adds a text whose tokens `sampler` chooses from the text and the logits (vocab_size). The
    /// sampling settings of `options` are not used.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub fn add_with_sampler(
        &mut self,
        state: DecoderState,
        tokens: &[u32],
        options: GenerateOptions,
        sampler: impl FnMut(&[u32], ArrayView1<f32>) -> Result<u32, E> + Send + 's,
    ) -> Result<Slot, GenerateError> {
        if state.tokens().is_empty() && tokens.is_empty() {
            return Err(GenerateError::EmptyPrompt);
        }
        let slot = self.batch.add(state)?;
        if let Err(error) = self.batch.push(slot, tokens) {
            self.batch.remove(slot);
            return Err(error);
        }
        let sampler: BoxedSampler<'s, E> = Box::new(sampler);
        let state = self.batch.get(slot).expect("it was added");
        let continuation = Continuation::new(state, options, sampler);
        self.continuations.insert(slot, continuation);
        Ok(slot)
    }

    /// Takes a text out before its end; `None` if it has ended already.
    pub fn remove(&mut self, slot: Slot) -> Option<DecoderState> {
        self.continuations.remove(&slot);
        self.batch.remove(slot)
    }

    /// Returns a text, and the logits (vocab_size) that its last token was chosen from; `None` if
    /// it has ended.
    pub fn get(&self, slot: Slot) -> Option<&DecoderState> {
        self.batch.get(slot)
    }

    /// Returns the number of texts that haven't ended.
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// True if all texts have ended.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Computes the next token of each text, and returns what that has brought, in the order in
    /// which the texts joined.
    ///
    /// A text whose prompt is long may bring nothing for some steps (see [`Batch::advance`]).
    pub fn step(&mut self) -> Vec<(Slot, StreamEvent<E>)> {
        let over = self.continuations.iter_mut();
        let over = over.filter_map(|(&slot, of)| Some((slot, of.over()?)));
        let over: Vec<_> = over.collect();
        let mut events: Vec<_> = over
            .into_iter()
            .map(|(slot, reason)| (slot, self.end(slot, Ok(reason))))
            .collect();
        for (slot, token) in awake(|| self.choose()) {
            let reason = match token {
                Ok(token) => {
                    events.extend(token.map(|token| (slot, StreamEvent::Token(token))));
                    self.continuations
                        .get_mut(&slot)
                        .and_then(Continuation::over)
                        .map(Ok)
                }
                Err(error) => Some(Err(error)),
            };
            events.extend(reason.map(|reason| (slot, self.end(slot, reason))));
        }
        events
    }

    /// Computes a step, and chooses the tokens of the texts whose logits are new.
    fn choose(&mut self) -> Vec<(Slot, Result<Option<u32>, E>)> {
        let pending: Vec<_> = self
            .batch
            .states_mut()
            .map(|(_, of)| of.pending())
            .collect();
        let began = Instant::now();
        let ready = self.batch.advance();
        let computed = began.elapsed();
        let mut choices = Vec::with_capacity(ready.len());
        let texts = self.batch.states_mut().zip(self.continuations.values_mut());
        for (((slot, state), continuation), pending) in texts.zip(pending) {
            continuation.processed(pending - state.pending(), computed);
            if ready.binary_search(&slot).is_ok() {
                choices.push((slot, state, continuation, None));
            }
        }
        let began = Instant::now();
        for_each(
            choices.iter_mut().collect(),
            |(_, state, continuation, token)| {
                *token = Some(continuation.choose(state));
            },
        );
        let chosen = began.elapsed();
        let tokens = choices.into_iter().map(|(slot, _, continuation, token)| {
            continuation.chose(chosen);
            (slot, token.expect("each text has chosen"))
        });
        tokens.collect()
    }

    /// Takes out a text that has ended.
    fn end(&mut self, slot: Slot, reason: Result<FinishReason, E>) -> StreamEvent<E> {
        let continuation = self.continuations.remove(&slot);
        StreamEvent::Ended(Box::new(EndedStream {
            reason,
            timings: continuation.expect("it is there").timings,
            state: self.batch.remove(slot).expect("it is there"),
        }))
    }
}

/// Shows neither the model nor the texts.
impl<W, E> fmt::Debug for TokenStreams<'_, W, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenStreams")
            .field("batch", &self.batch)
            .finish_non_exhaustive()
    }
}
