//! The errors of configurations and of token ids.

use attention::AttentionError;
use thiserror::Error;

/// A configuration that makes no model, or an input that a model can't take.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum GptError {
    /// A size that must be at least 1.
    #[error("{name} must be at least 1, but is 0")]
    Zero {
        /// The configuration's key.
        name: &'static str,
    },
    /// A dropout rate outside [0, 1].
    #[error("{name} must be from 0 to 1, but is {value}")]
    DropRate {
        /// The configuration's key.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// An epsilon that the norms can't add to a variance.
    #[error("norm_eps must be finite and at least 0, but is {0}")]
    NormEps(f32),
    /// The embedding is shared out evenly among the heads.
    #[error(
        "emb_dim must be divisible by n_heads, but emb_dim is {emb_dim} and n_heads is {n_heads}"
    )]
    HeadsDontDivide {
        /// The size of an embedding.
        emb_dim: usize,
        /// The number of heads.
        n_heads: usize,
    },
    /// More parameters than this machine can count.
    #[error("a model of this configuration has more than 2^63 bytes of parameters")]
    TooLarge,
    /// An input without tokens.
    #[error("the input has shape ({batch}, {num_tokens}), but at least one token is needed")]
    Empty {
        /// Sequences.
        batch: usize,
        /// Tokens per sequence.
        num_tokens: usize,
    },
    /// A token id that the vocabulary doesn't have.
    #[error("token id {id} at ({row}, {column}) is out of range for a vocabulary of {vocab_size}")]
    TokenOutOfRange {
        /// The id.
        id: u32,
        /// Its sequence.
        row: usize,
        /// Its place in the sequence.
        column: usize,
        /// Ids must be below this.
        vocab_size: usize,
    },
    /// A sequence longer than the position embeddings.
    #[error("the input has {num_tokens} tokens, but the context length is {context_length}")]
    TooLong {
        /// Tokens per sequence of the input.
        num_tokens: usize,
        /// The most there may be.
        context_length: usize,
    },
    /// Not one target for each input token.
    #[error("the inputs have shape {inputs:?}, but the targets {targets:?}")]
    Targets {
        /// (batch, num_tokens)
        inputs: (usize, usize),
        /// (batch, num_tokens)
        targets: (usize, usize),
    },
    /// A public field of a model that was replaced by a value that doesn't fit the others.
    #[error("{name}: {problem}; {fix}")]
    Field {
        /// The field, such as `trf_blocks[0].ff.expand`.
        name: String,
        /// The value found and the value expected.
        problem: String,
        /// What the caller can do.
        fix: &'static str,
    },
    /// Targets of which none counts, so that there is no mean loss.
    #[error("all {targets} targets are IGNORE_INDEX, but a loss needs one that counts")]
    NoTargets {
        /// Number of targets.
        targets: usize,
    },
    /// A list of layer sizes that makes no network.
    #[error("a network needs at least two layer sizes, each at least 1, but the sizes are {0:?}")]
    LayerSizes(Vec<usize>),
    /// The attention module refused its part.
    #[error(transparent)]
    Attention(AttentionError),
}

impl GptError {
    pub(crate) fn field(name: &str, problem: String) -> Self {
        Self::Field {
            name: name.to_owned(),
            problem,
            fix: "make a model with the configuration that you want",
        }
    }
}

impl From<AttentionError> for GptError {
    fn from(error: AttentionError) -> Self {
        match error {
            AttentionError::Field { name, problem } => Self::field(&format!("att.{name}"), problem),
            other => Self::Attention(other),
        }
    }
}
