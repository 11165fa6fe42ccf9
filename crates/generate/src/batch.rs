//! Several texts that one model continues together ("continuous batching"): they join, advance and
//! leave in any order, and a step reads the weights once for all of them.
//!
//! Every text has exactly the bits that it has alone, whichever texts share the batch, because each
//! row of a product has the same bits for any number of rows. No text is padded: each has its own
//! length, context and cache.

use std::collections::BTreeMap;
use std::fmt;

use ndarray::ArrayViewMut2;

use crate::forward::{Hook, take_in};
use crate::slot::Slot;
use crate::{AsWeights, DecoderState, DecoderWeights, GenerateError};

/// Texts that advance together over one model.
///
/// `W` is how the batch has the model, as in a [`Decoder`](crate::Decoder).
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
/// let second = batch.add(DecoderState::default())?; // joins later
/// batch.push(second, &[4])?;
/// for _ in 0..3 {
///     for slot in batch.advance() {
///         let next = greedy_id(&batch.get(slot).expect("it takes part").logits())?;
///         batch.push(slot, &[next])?;
///     }
/// }
/// let state = batch.remove(first).expect("it took part");
/// assert_eq!((state.tokens().len(), batch.len()), (3, 1));
/// # Ok::<(), generate::GenerateError>(())
/// ```
#[derive(Clone)]
pub struct Batch<W = DecoderWeights> {
    weights: W,
    states: BTreeMap<Slot, DecoderState>,
    /// Number of texts that have joined so far.
    joined: u64,
}

impl<W: AsWeights> Batch<W> {
    /// The most rows of a step beyond one for each text. A longer prompt is spread over several
    /// steps, so that the other texts need not wait for all of it.
    pub const PROMPT_ROWS: usize = 256;

    /// Makes a batch without texts.
    pub fn new(weights: W) -> Self {
        Self {
            weights,
            states: BTreeMap::new(),
            joined: 0,
        }
    }

    /// Adds a text: a new one ([`DecoderState::new`]), or one that a decoder or a batch of the same
    /// model has begun. A clone of a state adds a fork of its text.
    ///
    /// # Errors
    /// If the state belongs to a model of another configuration, or its context size is 0 or larger
    /// than the model's.
    pub fn add(&mut self, state: DecoderState) -> Result<Slot, GenerateError> {
        self.weights.as_weights().check()?;
        let state = state.bind(&self.weights.as_weights().config())?;
        let slot = Slot(self.joined);
        self.joined += 1;
        self.states.insert(slot, state);
        Ok(slot)
    }

    /// Takes a text out of the batch; `None` if it isn't in the batch any more.
    pub fn remove(&mut self, slot: Slot) -> Option<DecoderState> {
        self.states.remove(&slot)
    }

    /// Returns a text and its logits; `None` if it isn't in the batch any more.
    pub fn get(&self, slot: Slot) -> Option<&DecoderState> {
        self.states.get(&slot)
    }

    /// Returns the number of texts.
    pub fn len(&self) -> usize {
        self.states.len()
    }

    /// True if there are no texts.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Replaces a text with a prompt and computes nothing yet.
    ///
    /// # Errors
    /// As [`Decoder::start`](crate::Decoder::start), or if the text isn't in the batch any more.
    pub fn start(&mut self, slot: Slot, prompt: &[u32]) -> Result<(), GenerateError> {
        self.state(slot)?.start(prompt)
    }

    /// Appends tokens to a text and computes nothing yet.
    ///
    /// # Errors
    /// As [`Decoder::push`](crate::Decoder::push), or if the text isn't in the batch any more.
    pub fn push(&mut self, slot: Slot, tokens: &[u32]) -> Result<(), GenerateError> {
        self.state(slot)?.push(tokens)
    }

    /// Drops the tokens of a text after the first `len`, as
    /// [`Decoder::truncate`](crate::Decoder::truncate) does.
    ///
    /// # Errors
    /// If the text isn't in the batch any more.
    pub fn truncate(&mut self, slot: Slot, len: usize) -> Result<(), GenerateError> {
        self.state(slot)?.truncate(len);
        Ok(())
    }

    /// Processes pending tokens of all texts in one step, and returns the texts whose logits are
    /// new.
    ///
    /// A text with one pending token always gets its logits. Longer prompts share
    /// [`PROMPT_ROWS`](Self::PROMPT_ROWS), those of texts that joined earlier first, and a text
    /// whose tokens have not all been processed is not among the returned ones.
    ///
    /// # Panics
    /// If a layer of the model was replaced by a layer of another shape.
    pub fn advance(&mut self) -> Vec<Slot> {
        self.step(None)
    }

    /// [`advance`](Self::advance), where `hook` sees and may change the residual stream of each
    /// text as in [`Decoder::advance_with`](crate::Decoder::advance_with).
    ///
    /// # Panics
    /// As [`advance`](Self::advance).
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

/// Shows neither the weights nor the texts.
impl<W> fmt::Debug for Batch<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("states", &self.states)
            .finish_non_exhaustive()
    }
}
