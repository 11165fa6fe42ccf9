//! The error type of the attention modules.

use thiserror::Error;

/// An error caused by an invalid configuration, or by an input or a layer that is incompatible with
/// the attention module.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum AttentionError {
    /// `d_out` isn't divisible by the number of heads, so the features can't be divided evenly
    /// among the heads.
    #[error(
        "d_out must be divisible by num_heads, but d_out is {d_out} and num_heads is {num_heads}"
    )]
    HeadsDontDivide {
        /// Number of output features of all heads together.
        d_out: usize,
        /// Number of heads.
        num_heads: usize,
    },
    /// The query, key or value layer of a [`SelfAttentionV2`](crate::SelfAttentionV2) has a bias,
    /// so the module can't be converted to a [`SelfAttentionV1`](crate::SelfAttentionV1), which
    /// doesn't support biases.
    #[error(
        "the query, key and value projections have biases, which SelfAttentionV1 can't store; create them with qkv_bias set to false"
    )]
    Biased,
    /// A size is 0, but must be at least 1.
    #[error("{name} must be at least 1, got 0")]
    Zero {
        /// Name of the size, such as `d_in`.
        name: &'static str,
    },
    /// The dropout probability isn't in [0, 1].
    #[error("dropout must be from 0 to 1, got {0}")]
    Dropout(f64),
    /// A caller replaced a layer of the attention module by one with an incompatible shape or an
    /// unsupported number format.
    #[error("the attention module's field {name} has an invalid value: {problem}")]
    Field {
        /// Name of the field, such as `w_query`.
        name: &'static str,
        /// Description of what is wrong with the layer. It contains both the value found and the
        /// value expected, such as the two shapes.
        problem: String,
    },
    /// A sequence has more tokens than the context length of the module.
    #[error(
        "the input has {num_tokens} tokens, but the context length is {context_length}; use shorter sequences"
    )]
    TooLong {
        /// Number of tokens in each sequence of the input.
        num_tokens: usize,
        /// Largest number of tokens that the module accepts.
        context_length: usize,
    },
    /// The last dimension of the input isn't equal to the number of features that the module's
    /// weights require.
    #[error(
        "each input token has {found} features, but the weights expect {expected} features (d_in)"
    )]
    Features {
        /// Number of features that the weights require, `d_in`.
        expected: usize,
        /// Number of features of each input token, which is the last dimension of the input.
        found: usize,
    },
}
