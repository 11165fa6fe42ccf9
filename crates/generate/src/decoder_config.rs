//! The settings of a decoder.

/// The behaviour when a sequence outgrows the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
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

/// The settings of a [`Decoder`](crate::Decoder).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct DecoderConfig {
    /// The most tokens the model may see; `None` is the model's context length.
    pub context_size: Option<usize>,
    /// The behaviour beyond the context.
    pub past_context: PastContext,
}
