//! The sizes and rates that the masked attention modules are built from.

use crate::AttentionError;

/// The book's constructor arguments of `CausalAttention`, `MultiHeadAttentionWrapper` and
/// `MultiHeadAttention`.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct AttentionConfig {
    /// Features of an input token.
    pub d_in: usize,
    /// Features of an output token (of each head, for the wrapper).
    pub d_out: usize,
    /// The most tokens a sequence may have.
    pub context_length: usize,
    /// The probability of an attention weight to be dropped in training, from 0 to 1.
    pub dropout: f64,
    /// The number of heads; [`CausalAttention`](crate::CausalAttention) has one and ignores it.
    pub num_heads: usize,
    /// True if the query, key and value projections have a bias.
    pub qkv_bias: bool,
}

/// The book's example: three features to two (section 3.5), here with one head, six tokens and
/// nothing dropped.
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
    /// The sizes, and the dropout rate, of a module of so many heads.
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

    /// Checks a module that shares `d_out` out among its heads, too.
    pub(crate) fn check_heads(&self) -> Result<(), AttentionError> {
        let (d_out, num_heads) = (self.d_out, self.num_heads);
        self.check(num_heads)?;
        if !d_out.is_multiple_of(num_heads) {
            return Err(AttentionError::HeadsDontDivide { d_out, num_heads });
        }
        Ok(())
    }

    pub(crate) fn check_input(&self, shape: &[usize]) -> Result<(), AttentionError> {
        check_features(shape, self.d_in)?;
        let &[.., num_tokens, _] = shape else {
            panic!("attention: the input has shape {shape:?}, but needs tokens and features");
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

pub(crate) fn check_features(shape: &[usize], expected: usize) -> Result<(), AttentionError> {
    match shape.last() {
        Some(&found) if found != expected => Err(AttentionError::Features { expected, found }),
        _ => Ok(()),
    }
}
