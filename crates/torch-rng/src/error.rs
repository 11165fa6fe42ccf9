//! Errors for invalid saved generator states, invalid probabilities and unknown names of builds.

use thiserror::Error;

/// The reason why a saved generator state was rejected.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum StateError {
    /// The number of bytes is wrong, for example because the state was truncated.
    #[error("the state of the random number generator must have {expected} bytes, got {got} bytes")]
    Length {
        /// Length of a state in bytes.
        expected: usize,
        /// Number of bytes that were given.
        got: usize,
    },
    /// The state contains the number of a build that doesn't exist.
    #[error(
        "the state of the random number generator is damaged: its build number must be 0 (portable) or 1 (mkl), got {got}"
    )]
    Build {
        /// Number of the build that was found in the state.
        got: u8,
    },
    /// The saved position is greater than 624. The position is the index of the next word to draw
    /// in the generator's block of 624 words.
    #[error(
        "the state of the random number generator is damaged: its position must be at most 624, got {got}"
    )]
    Position {
        /// Position found in the state.
        got: usize,
    },
    /// The pending normal sample, which is a sample that was computed but not yet returned when the
    /// state was saved, is NaN or has a larger absolute value than any sample that the generator
    /// can draw.
    #[error(
        "the state of the random number generator is damaged: its pending normal sample is {got}, which the generator couldn't have drawn"
    )]
    PendingNormal {
        /// Pending normal sample found in the state.
        got: f64,
    },
    /// The flag that indicates whether the state contains a pending normal sample is damaged: it is
    /// neither 0 nor 1, or it is 0 although the bytes reserved for the sample aren't all zero.
    #[error(
        "the state of the random number generator is damaged: the flag must be 1 if a normal sample is pending and 0 otherwise, got {got}"
    )]
    PendingFlag {
        /// Flag found in the state.
        got: u8,
    },
    /// All 19,937 bits of the state that the Mersenne Twister uses are 0. From such a state, the
    /// generator would return zeros forever.
    #[error(
        "the state of the random number generator is damaged: all words of the state are 0, which no seed produces"
    )]
    ZeroWords,
}

/// The reason why a list of probabilities was rejected. In this case, no category was sampled.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ProbabilityError {
    /// There are no categories.
    #[error("there must be at least one category to sample from, but there are none")]
    Empty,
    /// A probability is negative, infinite or NaN.
    #[error("the probability at index {index} is {value}, but it must be finite and at least 0")]
    Value {
        /// Index of the probability in the list.
        index: usize,
        /// Value of the probability.
        value: f32,
    },
    /// All probabilities in a row are zero.
    #[error("all probabilities in row {row} are 0, so no category can be sampled")]
    AllZero {
        /// Index of the row whose probabilities are all 0. If the probabilities consist of a single
        /// row, the index is 0.
        row: usize,
    },
    /// The number of probabilities isn't a multiple of the number of categories.
    #[error(
        "the number of probabilities must be a multiple of the number of categories, {n_categories}, got {len}"
    )]
    Ragged {
        /// Number of probabilities that were given.
        len: usize,
        /// Number of categories, which is the length of a row.
        n_categories: usize,
    },
}

/// The error for a string that doesn't name any [`Build`](crate::Build).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{name:?} isn't a PyTorch build that the random number generator can reproduce; use portable or mkl"
)]
pub struct UnknownBuild {
    /// Name that was given.
    pub name: String,
}
