//! How a decoder works, and what it counts.

use crate::Precision;

/// What happens when a sequence outgrows the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PastContext {
    /// The model sees the last `context_size` tokens, as in the book: every token's position
    /// shifts, so nothing in the cache is right any more and the whole window is computed again for
    /// each further token.
    #[default]
    Crop,
    /// It is an error, [`GenerateError::PastContext`](crate::GenerateError::PastContext).
    Stop,
}

/// How a [`Decoder`](crate::Decoder) works.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DecoderConfig {
    /// The precision of the weights.
    pub precision: Precision,
    /// The most tokens the model may see; `None` is the model's context length.
    pub context_size: Option<usize>,
    /// What happens beyond.
    pub past_context: PastContext,
}

/// What a [`Decoder`](crate::Decoder) has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DecoderStats {
    /// Tokens that went through the blocks.
    pub tokens_computed: usize,
    /// Tokens that a model without a cache would have computed in addition: those found in the
    /// cache, call by call.
    pub tokens_from_cache: usize,
    /// How often a sequence outgrew the context, so that its cache was thrown away and its window
    /// computed again.
    pub rebuilds: usize,
}
