//! The configuration of the attention modules that have a causal mask.

use crate::AttentionError;

/// The sizes and settings of a [`CausalAttention`](crate::CausalAttention),
/// [`MultiHeadAttentionWrapper`](crate::MultiHeadAttentionWrapper) or
/// [`MultiHeadAttention`](crate::MultiHeadAttention) module. The fields have the same names as the
/// constructor arguments in the book.
///
/// With the feature `serde`, a configuration can be serialized and deserialized. During
/// deserialization, missing fields are set to their default values, and unknown fields cause an
/// error.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct AttentionConfig {
    /// Number of features of an input token.
    pub d_in: usize,
    /// Number of features of an output token. For
    /// [`MultiHeadAttentionWrapper`](crate::MultiHeadAttentionWrapper), this is the number of
    /// output features of each head.
    pub d_out: usize,
    /// Largest number of tokens in a sequence.
    pub context_length: usize,
    /// Probability that an attention weight is dropped during training, from 0 to 1.
    pub dropout: f64,
    /// Number of heads. [`CausalAttention`](crate::CausalAttention) ignores this field because it
    /// always has one head.
    pub num_heads: usize,
    /// Whether the layers for queries, keys and values have a bias.
    pub qkv_bias: bool,
}

/// Returns the configuration from the example in section 3.5 of the book: 3 input features, 2
/// output features, a single head, a context length of 6, no dropout, and no biases.
impl Default for AttentionConfig {
    fn default() -> Self {
        Self {
            d_in: 3,
            d_out: 2,
            context_length: 6,
            dropout: 0.0,
            num_heads: 1,
            qkv_bias: false,
        }
    }
}

impl AttentionConfig {
    /// Checks that all sizes are at least 1 and that the dropout probability is in [0, 1]. The
    /// number of heads is passed separately, because modules that always have a single head ignore
    /// the field `num_heads`.
    pub(crate) fn check(&self, num_heads: usize) -> Result<(), AttentionError> {
        for (name, value) in [
            ("d_in", self.d_in),
            ("d_out", self.d_out),
            ("context_length", self.context_length),
            ("num_heads", num_heads),
        ] {
            if value == 0 {
                return Err(AttentionError::Zero { name });
            }
        }
        if !(0.0..=1.0).contains(&self.dropout) {
            return Err(AttentionError::Dropout(self.dropout));
        }
        Ok(())
    }

    /// Performs the same checks as [`check`](Self::check), and also checks that `d_out` is
    /// divisible by `num_heads`.
    pub(crate) fn check_heads(&self) -> Result<(), AttentionError> {
        let (d_out, num_heads) = (self.d_out, self.num_heads);
        self.check(num_heads)?;
        if !d_out.is_multiple_of(num_heads) {
            return Err(AttentionError::HeadsDontDivide { d_out, num_heads });
        }
        Ok(())
    }

    /// Checks that an input of the given shape has `d_in` features and isn't longer than the
    /// context length.
    ///
    /// # Panics
    ///
    /// Panics if the shape has fewer than two dimensions.
    pub(crate) fn check_input(&self, shape: &[usize]) -> Result<(), AttentionError> {
        check_features(shape, self.d_in)?;
        let &[.., num_tokens, _] = shape else {
            panic!(
                "attention: the shape of the input must be (..., num_tokens, d_in), got {shape:?}"
            );
        };
        if num_tokens > self.context_length {
            let context_length = self.context_length;
            return Err(AttentionError::TooLong {
                num_tokens,
                context_length,
            });
        }
        Ok(())
    }
}

/// Checks that the last dimension of `shape` is equal to `expected`, the number of features that a
/// module's weights require.
pub(crate) fn check_features(shape: &[usize], expected: usize) -> Result<(), AttentionError> {
    match shape.last() {
        Some(&found) if found != expected => Err(AttentionError::Features { expected, found }),
        _ => Ok(()),
    }
}
