//! The errors of input from outside: a saved state, probabilities, a build's name.

use thiserror::Error;

/// Why a saved generator state is refused.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum StateError {
    /// The bytes are cut short or have something appended.
    #[error("a generator state has {expected} bytes, got {got}")]
    Length {
        /// Bytes of a state.
        expected: usize,
        /// Bytes handed in.
        got: usize,
    },
    /// The number of the build is none that exists.
    #[error("generator state names build {got}, known are 0 (portable) and 1 (mkl)")]
    Build {
        /// The number found.
        got: u8,
    },
    /// The engine's position lies outside its block.
    #[error("generator state is at word {got} of a block of 624")]
    Position {
        /// The position found.
        got: usize,
    },
    /// The pending normal is a value no draw can leave behind.
    #[error("generator state holds a pending normal of {got}, which no draw can leave")]
    PendingNormal {
        /// The value found.
        got: f64,
    },
    /// The flag in front of the pending normal is neither 0 nor 1, or 0 in front of a value.
    #[error("generator state has flag {got} in front of its pending normal")]
    PendingFlag {
        /// The flag found.
        got: u8,
    },
    /// All 19,937 bits are zero: such an engine would return zeros for ever.
    #[error("generator state is all zeros, which no seed leads to")]
    ZeroWords,
}

/// Why no category can be drawn from a list of probabilities.
#[derive(Clone, Debug, PartialEq, Error)]
#[non_exhaustive]
pub enum ProbabilityError {
    /// There is nothing to draw from.
    #[error("no category to draw from")]
    Empty,
    /// A probability is negative, infinite or not a number.
    #[error("probability {index} is {value}, expected a finite number of at least 0")]
    Value {
        /// Its place.
        index: usize,
        /// Its value.
        value: f32,
    },
    /// Every probability of a row is zero.
    #[error("all probabilities of row {row} are zero")]
    AllZero {
        /// The row; 0 where there is only one.
        row: usize,
    },
    /// The list isn't a whole number of rows.
    #[error("{len} probabilities aren't a whole number of rows of {n_categories}")]
    Ragged {
        /// Probabilities handed in.
        len: usize,
        /// Categories per row.
        n_categories: usize,
    },
}

/// An unknown name of a [`Build`](crate::Build).
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("unknown build {name:?} (known: portable, mkl)")]
pub struct UnknownBuild {
    /// The name handed in.
    pub name: String,
}
