//! The errors of configurations and inputs.

use thiserror::Error;

/// A configuration or an input that attention can't work with.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum AttentionError {
    /// `d_out` is shared out evenly among the heads.
    #[error(
        "d_out must be divisible by num_heads, but d_out is {d_out} and num_heads is {num_heads}"
    )]
    HeadsDontDivide {
        /// The size of the output.
        d_out: usize,
        /// The number of heads.
        num_heads: usize,
    },
    /// Projections with biases, for a module that has no place for them.
    #[error("the projections have biases, but SelfAttentionV1 has only weights")]
    Biased,
    /// A size that must be at least 1.
    #[error("{name} must be at least 1, but is 0")]
    Zero {
        /// Which size.
        name: &'static str,
    },
    /// A dropout rate outside [0, 1].
    #[error("dropout must be from 0 to 1, but is {0}")]
    Dropout(f64),
    /// A public field that was replaced by a layer of another shape or format.
    #[error("{name}: {problem}")]
    Field {
        /// The field.
        name: &'static str,
        /// The value found and the value expected.
        problem: String,
    },
    /// More tokens than the mask and the position embeddings were made for.
    #[error("the input has {num_tokens} tokens, but the context length is {context_length}")]
    TooLong {
        /// Tokens per sequence of the input.
        num_tokens: usize,
        /// The most there may be.
        context_length: usize,
    },
    /// The last dimension of the input is not what the weights expect.
    #[error("the input has {found} features, but the weights expect d_in = {expected}")]
    Features {
        /// `d_in` of the weights.
        expected: usize,
        /// The last dimension of the input.
        found: usize,
    },
}
