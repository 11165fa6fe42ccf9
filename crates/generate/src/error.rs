//! The errors of prompts, of settings, and of a model whose logits are not numbers.

use gpt::GptError;
use thiserror::Error;
use torch_rng::ProbabilityError;

use crate::slot::Slot;

/// A prompt, a setting or a model from which no text can be generated.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// The text is empty, so there is no position to predict from.
    #[error("the prompt is empty, but at least one token is needed")]
    EmptyPrompt,
    /// The window that the model may see is empty or larger than its position embeddings.
    #[error(
        "context_size must be from 1 to the model's context length {context_length}, but is {context_size}"
    )]
    ContextSize {
        /// The requested size.
        context_size: usize,
        /// The most the model can take.
        context_length: usize,
    },
    /// A text longer than the context, in a decoder with
    /// [`PastContext::Stop`](crate::PastContext::Stop).
    #[error("the text has {num_tokens} tokens, but the context has room for {context_size}")]
    PastContext {
        /// Tokens it has.
        num_tokens: usize,
        /// The most there may be.
        context_size: usize,
    },
    /// A decoder's state with another model than the one that it was made with.
    #[error("this decoder state was made with a model of another configuration")]
    OtherModel,
    /// A text that isn't in the batch any more.
    #[error("{0:?} is no text of this batch: it has left, or belongs to another batch")]
    UnknownSlot(Slot),
    /// A decoder state that was read, but whose parts don't fit together.
    #[error("this decoder state is damaged: its cache doesn't fit its text or its model")]
    DamagedState,
    /// A stop string that every text holds.
    #[error("a stop string is empty")]
    EmptyStopString,
    /// A number of a sampler's settings outside its range.
    #[error("{name} must be {expected}, but is {value}")]
    Setting {
        /// The setting.
        name: &'static str,
        /// Its range.
        expected: &'static str,
        /// Its value.
        value: f32,
    },
    /// The model's output for one token is not a number, or infinite.
    #[error("the logit of token {id} is {value}: the model's weights or activations overflowed")]
    Logit {
        /// The token.
        id: usize,
        /// NaN or infinity.
        value: f32,
    },
    /// Every token is impossible.
    #[error("all {vocab_size} logits are minus infinity: no token can be chosen")]
    NoCandidate {
        /// Tokens there are.
        vocab_size: usize,
    },
    /// The draw refused its probabilities.
    #[error(transparent)]
    Probabilities(#[from] ProbabilityError),
    /// The model refused the ids.
    #[error(transparent)]
    Gpt(#[from] GptError),
}
