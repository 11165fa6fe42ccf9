//! The configuration of a decoder.

/// The behavior of a decoder whose text becomes longer than the context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(rename_all = "lowercase"))]
#[non_exhaustive]
pub enum PastContext {
    /// The decoder continues, but the model sees only the last `context_size` tokens of the text,
    /// as in the book. Each further token shifts the positions of all tokens that the model sees,
    /// which invalidates their cached keys and values. The decoder therefore processes all of these
    /// tokens again for each new token. This is the default.
    #[default]
    Crop,
    /// The decoder returns the error
    /// [`GenerateError::PastContext`](crate::GenerateError::PastContext).
    Stop,
}

/// Configuration of a [`Decoder`](crate::Decoder) or a [`DecoderState`](crate::DecoderState).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct DecoderConfig {
    /// Maximum number of tokens that the model sees at a time. `None`, the default, means the
    /// model's context length.
    pub context_size: Option<usize>,
    /// Behavior of the decoder if the text becomes longer than the context. The default is
    /// [`PastContext::Crop`].
    pub past_context: PastContext,
}
