//! Batched decoding ("continuous batching"), in which one model continues several independent
//! sequences at the same time.
//!
//! Each step processes the next tokens of all sequences together and reads the model's weights only
//! once, which is much faster than a separate step for each sequence. Sequences can be added to the
//! batch and removed from it between any two steps. Each sequence has its own length, context size
//! and KV cache, so no padding is needed.
//!
//! The logits of a sequence are bitwise identical to the logits that a [`Decoder`](crate::Decoder)
//! would compute for this sequence alone, regardless of which other sequences are in the batch.
//! This is possible because the kernels compute each row of a matrix product in the same way for
//! any number of rows.

use std::collections::BTreeMap;
use std::fmt;

use ndarray::ArrayViewMut2;

use crate::forward::{Hook, take_in};
use crate::slot::Slot;
use crate::{AsWeights, DecoderState, DecoderWeights, GenerateError};

/// A batch of independent sequences that one model continues together.
///
/// The type parameter `W` determines whether the batch stores the model by reference, by value or
/// in an [`Arc`](std::sync::Arc), as in a [`Decoder`](crate::Decoder).
///
/// ```
/// use generate::{Batch, DecoderState, greedy_id};
/// use gpt::{GptConfig, GptModel};
/// use torch_rng::TorchRng;
///
/// let config = GptConfig {
///     vocab_size: 50, context_length: 8, emb_dim: 8,
///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
/// };
/// let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
/// let mut batch = Batch::new(&model);
/// let first = batch.add(DecoderState::default())?;
/// batch.push(first, &[1, 2, 3])?;
/// batch.advance();
/// let second = batch.add(DecoderState::default())?; // joins after the first step
/// batch.push(second, &[4])?;
/// for _ in 0..3 {
///     for slot in batch.advance() {
///         let next = greedy_id(&batch.get(slot).expect("the text is in the batch").logits())?;
///         batch.push(slot, &[next])?;
///     }
/// }
/// let state = batch.remove(first).expect("the text is in the batch");
/// assert_eq!((state.tokens().len(), batch.len()), (3, 1));
/// # Ok::<(), generate::GenerateError>(())
/// ```
#[derive(Clone)]
pub struct Batch<W = DecoderWeights> {
    weights: W,
    states: BTreeMap<Slot, DecoderState>,
    /// Number of sequences that have ever been added to this batch, including those that have been
    /// removed. The next sequence that is added gets this number as its slot.
    joined: u64,
}

impl<W: AsWeights> Batch<W> {
    /// Maximum number of additional prompt tokens that a step of the batch processes. The first
    /// pending token of each sequence isn't counted.
    ///
    /// A step processes at least one pending token of each sequence that has any. If some sequences
    /// have more pending tokens, for example because they have a new prompt, the step processes up
    /// to this many additional tokens in total. A long prompt is therefore spread over several
    /// steps, so that the other sequences don't have to wait until the whole prompt has been
    /// processed.
    pub const PROMPT_ROWS: usize = 256;

    /// Creates a batch without sequences.
    pub fn new(weights: W) -> Self {
        Self {
            weights,
            states: BTreeMap::new(),
            joined: 0,
        }
    }

    /// Adds a sequence to the batch and returns its slot, which identifies it in this batch.
    ///
    /// To start a new sequence, pass [`DecoderState::new`]. To continue a sequence from a decoder
    /// or from another batch with the same model, pass the state of this sequence. To continue a
    /// sequence in several ways, add a clone of its state for each continuation.
    ///
    /// # Errors
    ///
    /// Returns an error if the state belongs to a model with a different configuration, if its
    /// context size is 0 or larger than the model's context length, or if a field of the model
    /// doesn't match the model's configuration ([`GptModel::check`](gpt::GptModel::check)).
    pub fn add(&mut self, state: DecoderState) -> Result<Slot, GenerateError> {
        self.weights.as_weights().check()?;
        let state = state.bind(&self.weights.as_weights().config())?;
        let slot = Slot(self.joined);
        self.joined += 1;
        self.states.insert(slot, state);
        Ok(slot)
    }

    /// Removes a sequence from the batch and returns its state. Returns `None` if the sequence
    /// isn't in the batch.
    pub fn remove(&mut self, slot: Slot) -> Option<DecoderState> {
        self.states.remove(&slot)
    }

    /// Returns the state of a sequence, which contains its tokens and its logits. Returns `None` if
    /// the sequence isn't in the batch.
    pub fn get(&self, slot: Slot) -> Option<&DecoderState> {
        self.states.get(&slot)
    }

    /// Returns the number of sequences in the batch.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// Returns true if the batch contains no sequences.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Replaces a sequence with a new prompt. The next calls of [`advance`](Self::advance) process
    /// the prompt.
    ///
    /// # Errors
    ///
    /// Returns an error if the sequence isn't in the batch, or if
    /// [`Decoder::start`](crate::Decoder::start) would return an error for this prompt.
    pub fn start(&mut self, slot: Slot, prompt: &[u32]) -> Result<(), GenerateError> {
        self.state(slot)?.start(prompt)
    }

    /// Appends tokens to a sequence. The next calls of [`advance`](Self::advance) process these
    /// tokens.
    ///
    /// # Errors
    ///
    /// Returns an error if the sequence isn't in the batch, or if
    /// [`Decoder::push`](crate::Decoder::push) would return an error for these tokens.
    pub fn push(&mut self, slot: Slot, tokens: &[u32]) -> Result<(), GenerateError> {
        self.state(slot)?.push(tokens)
    }

    /// Shortens a sequence to its first `len` tokens, in the same way as
    /// [`Decoder::truncate`](crate::Decoder::truncate).
    ///
    /// # Errors
    ///
    /// Returns an error if the sequence isn't in the batch.
    pub fn truncate(&mut self, slot: Slot, len: usize) -> Result<(), GenerateError> {
        self.state(slot)?.truncate(len);
        Ok(())
    }

    /// Performs one step, which processes pending tokens of all sequences. Returns the slots of all
    /// sequences that have new logits after this step, in the order in which the sequences were
    /// added.
    ///
    /// A sequence gets new logits when the last of its pending tokens has been processed. If it has
    /// only one pending token, this takes a single step. If it has more, it may take several steps,
    /// because a step processes one token of each sequence and only
    /// [`PROMPT_ROWS`](Self::PROMPT_ROWS) further tokens in total. Sequences that were added
    /// earlier have priority.
    ///
    /// # Panics
    ///
    /// Panics if the shapes of the model's weights have changed since the sequences were added.
    /// This is possible only with a custom implementation of [`AsWeights::as_weights`] that returns
    /// a different model.
    pub fn advance(&mut self) -> Vec<Slot> {
        self.step(None)
    }

    /// Performs one step like [`advance`](Self::advance), but calls `hook` before the first block
    /// and after each block. The hook can read and change the residual stream.
    ///
    /// The hook is called separately for each sequence. Its arguments are the slot of the sequence,
    /// the number of blocks that have already processed the sequence's pending tokens, and the
    /// residual stream of these tokens, of shape (tokens, emb_dim). See
    /// [`Decoder::advance_with`](crate::Decoder::advance_with) for an example.
    ///
    /// # Panics
    ///
    /// Panics in the same case as [`advance`](Self::advance).
    pub fn advance_with(
        &mut self,
        mut hook: impl FnMut(Slot, usize, ArrayViewMut2<f32>) + Send,
    ) -> Vec<Slot> {
        let slots = self.states.iter().filter(|(_, state)| state.pending() > 0);
        let slots: Vec<Slot> = slots.map(|(&slot, _)| slot).collect();
        self.step(Some(&mut |i, blocks, rows| hook(slots[i], blocks, rows)))
    }

    fn step(&mut self, hook: Option<&mut Hook<'_>>) -> Vec<Slot> {
        let mut more = Self::PROMPT_ROWS;
        let (mut sequences, mut done) = (Vec::new(), Vec::new());
        for (&slot, state) in &mut self.states {
            let rows = state.pending().min(1 + more);
            if rows > 0 {
                more -= rows - 1;
                let sequence = state.next(rows);
                done.extend(sequence.logits.is_some().then_some(slot));
                sequences.push(sequence);
            }
        }
        if sequences.is_empty() {
            return done;
        }
        take_in(self.weights.as_weights(), &mut sequences, hook);
        done
    }

    pub(crate) fn states_mut(&mut self) -> impl Iterator<Item = (Slot, &mut DecoderState)> {
        self.states.iter_mut().map(|(&slot, state)| (slot, state))
    }

    fn state(&mut self, slot: Slot) -> Result<&mut DecoderState, GenerateError> {
        let state = self.states.get_mut(&slot);
        state.ok_or(GenerateError::UnknownSlot(slot))
    }
}

/// Shows the states of the sequences, but not the weights of the model, which would be too long.
impl<W> fmt::Debug for Batch<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("states", &self.states)
            .finish_non_exhaustive()
    }
}
