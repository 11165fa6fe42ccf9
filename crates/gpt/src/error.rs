//! The error type of this crate.

use attention::AttentionError;
use thiserror::Error;

/// An invalid configuration, or an input that a model can't process.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum GptError {
    /// A size is 0 but must be at least 1.
    #[error("{name} must be at least 1, got 0")]
    Zero {
        /// Name of the size, such as `emb_dim`.
        name: &'static str,
    },
    /// A dropout rate is outside the range from 0 to 1.
    #[error("{name} must be from 0 to 1, got {value}")]
    DropRate {
        /// Name of the configuration's field, such as `drop_rates.shortcut`.
        name: &'static str,
        /// Value of the dropout rate.
        value: f64,
    },
    /// The epsilon of layer normalization is negative, infinite or NaN. The error contains its
    /// value.
    #[error("norm_eps must be a finite number and at least 0, got {0}")]
    NormEps(f32),
    /// `emb_dim` isn't divisible by `n_heads`, so a token's features can't be divided evenly among
    /// the attention heads.
    #[error(
        "emb_dim must be divisible by n_heads, but emb_dim is {emb_dim} and n_heads is {n_heads}"
    )]
    HeadsDontDivide {
        /// Number of features in the embedding of a token.
        emb_dim: usize,
        /// Number of attention heads.
        n_heads: usize,
    },
    /// The weights of the model don't fit in the address space, or the number of bytes that using
    /// the model would require is too large to be calculated.
    #[error(
        "the model has too many parameters or needs more memory than this machine can address; choose a smaller configuration"
    )]
    TooLarge,
    /// The input doesn't contain any tokens.
    #[error("the input has shape ({batch}, {num_tokens}), but it must contain at least one token")]
    Empty {
        /// Number of sequences in the input.
        batch: usize,
        /// Number of tokens per sequence.
        num_tokens: usize,
    },
    /// A token ID of the input or of the targets isn't in the vocabulary.
    #[error(
        "the token ID at ({row}, {column}) is {id}, but it must be less than the vocabulary size, {vocab_size}"
    )]
    TokenOutOfRange {
        /// The invalid token ID.
        id: u32,
        /// Index of the sequence that contains the ID.
        row: usize,
        /// Index of the token in its sequence.
        column: usize,
        /// Number of tokens in the vocabulary. All valid IDs are less than this number.
        vocab_size: usize,
    },
    /// The sequences of the input are longer than the model's context length.
    #[error(
        "the input has {num_tokens} tokens, but the context length is {context_length}; use shorter sequences"
    )]
    TooLong {
        /// Number of tokens per sequence in the input.
        num_tokens: usize,
        /// Largest number of tokens that a sequence can have.
        context_length: usize,
    },
    /// The inputs and the targets have different shapes.
    #[error(
        "the inputs have shape {inputs:?}, but the targets have shape {targets:?}; the two shapes must be equal"
    )]
    Targets {
        /// Shape of the inputs, (batch, num_tokens).
        inputs: (usize, usize),
        /// Shape of the targets, (batch, num_tokens).
        targets: (usize, usize),
    },
    /// The value of a public field doesn't match the model's configuration.
    #[error("the field {name} doesn't match the model's configuration: {problem}; {fix}")]
    Field {
        /// Path of the field, such as `trf_blocks[0].ff.expand`.
        name: String,
        /// Description of how the field differs from the model's configuration, including the value
        /// found and the value expected.
        problem: String,
        /// Advice on how to fix the problem.
        fix: &'static str,
    },
    /// All targets are equal to `IGNORE_INDEX`, so the mean loss is undefined.
    #[error("all {targets} targets are IGNORE_INDEX, but at least one must be a token ID")]
    NoTargets {
        /// Number of targets.
        targets: usize,
    },
    /// A network can't be created from this list of layer sizes.
    #[error("layer_sizes must contain at least two sizes, all of them greater than 0, got {0:?}")]
    LayerSizes(Vec<usize>),
    /// An error returned by the attention module.
    #[error(transparent)]
    Attention(AttentionError),
}

impl GptError {
    pub(crate) fn field(name: &str, problem: String) -> Self {
        Self::Field {
            name: name.to_owned(),
            problem,
            fix: "create a model with the configuration that you want",
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
