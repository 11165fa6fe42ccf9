//! Token generation for several sequences that share a model. Each sequence has its own sampler and
//! its own stop conditions.

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

/// A group of sequences for which a model generates tokens in shared steps.
///
/// Each sequence behaves like a [`TokenStream`](crate::TokenStream). It has its own sampler and
/// stop conditions, and the tokens are exactly the same as if the sequence were continued alone.
/// Sequences can be added and removed between two steps. Each step continues all sequences together
/// as a [`Batch`], so it reads the weights only once.
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
/// assert_eq!(lengths, [4, 5]); // the second text reaches its limit first
/// # Ok::<(), generate::GenerateError>(())
/// ```
pub struct TokenStreams<'s, W = DecoderWeights, E = GenerateError> {
    batch: Batch<W>,
    continuations: BTreeMap<Slot, Continuation<BoxedSampler<'s, E>>>,
}

type BoxedSampler<'s, E> = Box<dyn FnMut(&[u32], ArrayView1<f32>) -> Result<u32, E> + Send + 's>;

/// An event that a [step](TokenStreams::step) reports for a sequence.
#[derive(Debug)]
pub enum StreamEvent<E = GenerateError> {
    /// The model has generated this token.
    Token(u32),
    /// The sequence has ended and has been removed from the [`TokenStreams`].
    Ended(Box<EndedStream<E>>),
}

/// A sequence that has ended, together with the reason why it has ended.
#[derive(Debug)]
#[non_exhaustive]
pub struct EndedStream<E = GenerateError> {
    /// Reason why the generation of this sequence has ended, such as a stop token. If the sequence
    /// has ended because its sampler failed, this is the sampler's error.
    pub reason: Result<FinishReason, E>,
    /// Token counts and durations of the sequence. Because each step processes all sequences
    /// together, the durations include the time that was spent on the other sequences.
    pub timings: Timings,
    /// State of the sequence, which contains its tokens and its KV cache. Use it to continue the
    /// sequence later.
    pub state: DecoderState,
}

impl<W: AsWeights> TokenStreams<'_, W> {
    /// Creates an empty group of sequences. If a sampler fails, it must return a [`GenerateError`].
    pub fn new(weights: W) -> Self {
        Self::with_error_type(weights)
    }
}

impl<'s, W: AsWeights, E: From<GenerateError> + Send> TokenStreams<'s, W, E> {
    /// Creates an empty group of sequences. If a sampler fails, it must return an error of the type
    /// `E`.
    pub fn with_error_type(weights: W) -> Self {
        Self {
            batch: Batch::new(weights),
            continuations: BTreeMap::new(),
        }
    }

    /// Adds a sequence that consists of the tokens in `state`, if there are any, followed by
    /// `tokens`. The sequence is continued with tokens that are chosen according to the sampling
    /// settings in `options`, with random numbers from `rng`.
    ///
    /// # Errors
    ///
    /// Returns an error and adds nothing in each of these cases:
    /// - A sampling setting is out of range.
    /// - The sequence is empty, or it contains a token that isn't in the model's vocabulary.
    /// - The sequence is longer than the context, and the state was configured with
    ///   [`PastContext::Stop`](crate::PastContext::Stop).
    /// - The context size of the state is 0 or larger than the model's context length.
    /// - The state belongs to a model with a different configuration.
    /// - A field of the model doesn't match the model's configuration
    ///   ([`GptModel::check`](gpt::GptModel::check)).
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

    /// Adds a sequence in the same way as [`add`](Self::add), but lets `sampler` choose the new
    /// tokens. The arguments of `sampler` are all tokens of the sequence so far, and the logits of
    /// the next token, of shape (vocab_size). The sampling settings in `options` are ignored.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`add`](Self::add), except that it doesn't check the sampling
    /// settings.
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

    /// Removes a sequence before it has ended, and returns its state. Returns `None` if the
    /// sequence has already ended or been removed.
    pub fn remove(&mut self, slot: Slot) -> Option<DecoderState> {
        self.continuations.remove(&slot);
        self.batch.remove(slot)
    }

    /// Returns the state of a sequence. The logits in this state, of shape (vocab_size), are the
    /// logits from which the last token was chosen. Returns `None` if the sequence has already
    /// ended or been removed.
    pub fn get(&self, slot: Slot) -> Option<&DecoderState> {
        self.batch.get(slot)
    }

    /// Returns the number of sequences that haven't ended or been removed.
    pub fn len(&self) -> usize {
        self.batch.len()
    }

    /// Returns true if all sequences have ended or been removed.
    pub fn is_empty(&self) -> bool {
        self.batch.is_empty()
    }

    /// Performs one step, which generates at most one token for each sequence. Returns the events
    /// of this step, each with the slot of its sequence. If a sequence ends after a new token, the
    /// step returns two events for it, first [`StreamEvent::Token`] and then
    /// [`StreamEvent::Ended`].
    ///
    /// If a sequence was already complete when it was added, for example because `max_new_tokens`
    /// is 0, it ends without a new token. The events of such sequences come first. They are
    /// followed by the events of the other sequences, in the order in which the sequences were
    /// added. If a sequence has a long prompt, it takes several steps to process the prompt (see
    /// [`Batch::advance`]), and there are no events for this sequence until its first new token.
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

    /// Performs one step of the batch, and chooses a token for each sequence that has new logits.
    /// The result for a sequence is `None` if the chosen token ends the sequence.
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

    /// Removes a sequence and returns the event that reports its end.
    fn end(&mut self, slot: Slot, reason: Result<FinishReason, E>) -> StreamEvent<E> {
        let continuation = self.continuations.remove(&slot);
        StreamEvent::Ended(Box::new(EndedStream {
            reason,
            timings: continuation.expect("it is there").timings,
            state: self.batch.remove(slot).expect("it is there"),
        }))
    }
}

/// The debug output contains the batch, but not the samplers.
impl<W, E> fmt::Debug for TokenStreams<'_, W, E> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TokenStreams")
            .field("batch", &self.batch)
            .finish_non_exhaustive()
    }
}
