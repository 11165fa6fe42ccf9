//! The error type of this crate.

use gpt::GptError;
use thiserror::Error;
use torch_rng::ProbabilityError;

use crate::slot::Slot;

/// An error that prevents the generation of text, for example because the prompt is empty or a
/// setting is out of range.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum GenerateError {
    /// A prompt is empty, so there is no token from which the model can predict the next one.
    #[error("the prompt is empty, but it must contain at least one token")]
    EmptyPrompt,
    /// The text of a decoder is empty, for example because `truncate` has removed all tokens. The
    /// model can't predict the next token of an empty text.
    #[error(
        "the decoder's text is empty, so there is no token from which the model can predict the next one; add tokens with start or push before you call advance"
    )]
    EmptyText,
    /// The context size is 0 or larger than the model's context length.
    #[error(
        "context_size must be from 1 to {context_length}, the model's context length, got {context_size}"
    )]
    ContextSize {
        /// Requested context size.
        context_size: usize,
        /// Context length of the model.
        context_length: usize,
    },
    /// The text is longer than the context, and the decoder was configured with
    /// [`PastContext::Stop`](crate::PastContext::Stop).
    #[error(
        "the text has {num_tokens} tokens, but the context has room for only {context_size}; use a shorter text"
    )]
    PastContext {
        /// Number of tokens in the text.
        num_tokens: usize,
        /// Maximum number of tokens that fit in the context.
        context_size: usize,
    },
    /// The decoder state belongs to a model whose configuration differs from the configuration of
    /// the current model.
    #[error(
        "this decoder state belongs to a model with a different configuration; use the model that created the state"
    )]
    OtherModel,
    /// The batch doesn't contain a sequence with this slot.
    #[error(
        "this batch has no text in the slot {0:?}: either the text was removed, or the slot belongs to another batch"
    )]
    UnknownSlot(Slot),
    /// A deserialized decoder state is damaged, because its text, its cache and the configuration
    /// of its model are inconsistent.
    #[error("this decoder state is damaged: its cache doesn't match its text or its model")]
    DamagedState,
    /// A stop string is empty. An empty stop string isn't allowed, because it occurs in every text
    /// and would therefore end the generation immediately.
    #[error("a stop string is empty, but it must contain at least one character")]
    EmptyStopString,
    /// A sampling setting is out of range.
    #[error("{name} must be {expected}, got {value}")]
    Setting {
        /// Name of the setting.
        name: &'static str,
        /// Description of the valid values.
        expected: &'static str,
        /// Value of the setting.
        value: f32,
    },
    /// The logit of a token is NaN or plus infinity.
    #[error(
        "the logit of token {id} is {value}, because the model's weights or activations overflowed"
    )]
    Logit {
        /// ID of the token.
        id: usize,
        /// The logit, which is NaN or plus infinity.
        value: f32,
    },
    /// All logits are minus infinity, so no token can be chosen.
    #[error("no token can be chosen, because all {vocab_size} logits are minus infinity")]
    NoCandidate {
        /// Number of logits.
        vocab_size: usize,
    },
    /// No token can be drawn from the probabilities.
    #[error(transparent)]
    Probabilities(#[from] ProbabilityError),
    /// The model returned an error, for example because a token isn't in the model's vocabulary.
    #[error(transparent)]
    Gpt(#[from] GptError),
}
