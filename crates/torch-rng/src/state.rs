//! Saving and restoring the state of a generator. A restored generator continues with the draw that
//! the saved generator would have made next.
//!
//! A state is stored in 2,512 bytes. All numbers are in little-endian byte order:
//!
//! | offset | size | content |
//! |---|---|---|
//! | 0 | 4 | position in the block of words (`u32`) |
//! | 4 | 1 | build: 0 is portable, 1 is MKL |
//! | 5 | 1 | 1 if a normal sample is pending, otherwise 0 |
//! | 6 | 2 | zeros, which aren't checked |
//! | 8 | 8 | pending normal sample (`f64`), or 0 |
//! | 16 | 2,496 | 624 words (`u32`) |
//!
//! This layout differs from the layout of `torch.get_rng_state()`. It doesn't include a checksum,
//! so a file that contains a state should have its own checksum.

use std::fmt;

use crate::mt19937::{Mt19937, WORDS};
use crate::{Build, StateError, TorchRng};

const HEADER: usize = 16;
const BYTES: usize = HEADER + 4 * WORDS;

/// A snapshot of the state of a [`TorchRng`], from which another generator can continue.
#[derive(Clone, PartialEq)]
pub struct RngState {
    /// Last 624 words that the recurrence of the Mersenne Twister has computed, before tempering.
    pub words: [u32; WORDS],
    /// Index in `words` of the word that is drawn next. It is 624 if all words have been drawn.
    pub position: usize,
    /// Second sample of the last Box-Muller pair, or `None` if it has already been returned. The
    /// next call that draws fewer than 16 normal samples returns this sample first.
    pub pending_normal: Option<f64>,
    /// PyTorch build whose random numbers the generator reproduces.
    pub build: Build,
}

impl TorchRng {
    /// Returns a copy of the generator's state.
    pub fn state(&self) -> RngState {
        RngState {
            words: *self.engine.words(),
            position: self.engine.position(),
            pending_normal: self.pending_normal,
            build: self.build,
        }
    }

    /// Creates a generator that continues from `state`.
    ///
    /// ```
    /// use torch_rng::{RngState, TorchRng};
    ///
    /// let mut rng = TorchRng::manual_seed(123);
    /// rng.randn(3);
    /// let saved = rng.state().to_bytes();
    /// let mut resumed = TorchRng::from_state(&RngState::from_bytes(&saved)?)?;
    /// assert_eq!(resumed.randn(5), rng.randn(5));
    /// # Ok::<(), torch_rng::StateError>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns an error if the position is greater than 624, if the generator would return only
    /// zeros, or if the pending normal sample is NaN or so large that the generator can't have
    /// drawn it.
    pub fn from_state(state: &RngState) -> Result<Self, StateError> {
        state.check()?;
        let engine = Mt19937::from_parts(state.words, state.position);
        Ok(Self {
            engine,
            pending_normal: state.pending_normal,
            build: state.build,
            part: None,
        })
    }
}

impl RngState {
    /// Converts the state to 2,512 bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let build = match self.build {
            Build::Portable => 0,
            Build::Mkl => 1,
        };
        let mut bytes = Vec::with_capacity(BYTES);
        bytes.extend((self.position as u32).to_le_bytes());
        bytes.extend([build, u8::from(self.pending_normal.is_some()), 0, 0]);
        bytes.extend(self.pending_normal.unwrap_or(0.0).to_le_bytes());
        bytes.extend(self.words.iter().flat_map(|word| word.to_le_bytes()));
        bytes
    }

    /// Reads a state that [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of bytes is wrong, if the build number or the flag for the
    /// pending normal sample is invalid, or if [`TorchRng::from_state`] would reject the state.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, StateError> {
        if bytes.len() != BYTES {
            return Err(StateError::Length {
                expected: BYTES,
                got: bytes.len(),
            });
        }
        let build = match bytes[4] {
            0 => Build::Portable,
            1 => Build::Mkl,
            got => return Err(StateError::Build { got }),
        };
        let value = f64::from_le_bytes(array(bytes, 8));
        let pending_normal = match bytes[5] {
            0 if value.to_bits() == 0 => None,
            1 => Some(value),
            got => return Err(StateError::PendingFlag { got }),
        };
        let mut words = [0; WORDS];
        for (i, word) in words.iter_mut().enumerate() {
            *word = u32::from_le_bytes(array(bytes, HEADER + 4 * i));
        }
        let position = u32::from_le_bytes(array(bytes, 0)) as usize;
        let state = Self {
            words,
            position,
            pending_normal,
            build,
        };
        state.check()?;
        Ok(state)
    }

    fn check(&self) -> Result<(), StateError> {
        if self.position > WORDS {
            return Err(StateError::Position { got: self.position });
        }
        // The recurrence uses only the highest bit of the first word.
        if self.words[0] >> 31 == 0 && self.words[1..].iter().all(|&word| word == 0) {
            return Err(StateError::ZeroWords);
        }
        // The absolute value of a normal sample is at most the largest radius of the Box-Muller
        // transform, which is sqrt(-2 ln 2^-53), about 8.57.
        match self.pending_normal {
            Some(got) if got.is_nan() || got.abs() > 8.6 => Err(StateError::PendingNormal { got }),
            _ => Ok(()),
        }
    }
}

impl fmt::Debug for RngState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RngState")
            .field("position", &self.position)
            .field("pending_normal", &self.pending_normal)
            .field("build", &self.build)
            .finish_non_exhaustive()
    }
}

/// Returns the `N` bytes of `bytes` that start at index `start`. The caller must have checked that
/// `bytes` is long enough.
fn array<const N: usize>(bytes: &[u8], start: usize) -> [u8; N] {
    *bytes[start..]
        .first_chunk()
        .expect("the length of the state was checked")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn saved() -> Vec<u8> {
        let mut rng = TorchRng::manual_seed(1).with_build(Build::Mkl);
        rng.randn(3);
        rng.state().to_bytes()
    }

    /// Simulates a damaged file: replaces the byte at index `at` of a saved generator state with
    /// `byte`, and tries to restore the state, which must fail. Returns the error message.
    fn forged(at: usize, byte: u8) -> String {
        let mut bytes = saved();
        bytes[at] = byte;
        RngState::from_bytes(&bytes)
            .expect_err("a forged state")
            .to_string()
    }

    #[test]
    fn any_other_length_is_rejected() {
        let mut bytes = saved();
        bytes.push(0);
        for got in (0..BYTES).chain([BYTES + 1]) {
            let expected = BYTES;
            let refused = Err(StateError::Length { expected, got });
            assert_eq!(RngState::from_bytes(&bytes[..got]), refused);
        }
    }

    #[test]
    fn impossible_contents_are_rejected_with_the_reason() {
        for (at, byte, message) in [
            (
                4,
                7,
                "the state of the random number generator is damaged: its build number must be 0 (portable) or 1 (mkl), got 7",
            ),
            (
                5,
                3,
                "the state of the random number generator is damaged: the flag must be 1 if a normal sample is pending and 0 otherwise, got 3",
            ),
            (
                5,
                0,
                "the state of the random number generator is damaged: the flag must be 1 if a normal sample is pending and 0 otherwise, got 0",
            ),
            (
                1,
                0xff,
                "the state of the random number generator is damaged: its position must be at most 624, got 65288",
            ),
        ] {
            assert_eq!(forged(at, byte), message);
        }
        assert!(forged(15, 0x7f).ends_with("which the generator couldn't have drawn"));
    }

    #[test]
    fn a_state_that_was_built_by_hand_is_checked() {
        let good = TorchRng::manual_seed(1).state();
        let refused =
            |state: RngState| TorchRng::from_state(&state).expect_err("an impossible state");
        assert_eq!(
            refused(RngState {
                position: 625,
                ..good.clone()
            }),
            StateError::Position { got: 625 }
        );
        assert_eq!(
            refused(RngState {
                words: [0; WORDS],
                ..good.clone()
            }),
            StateError::ZeroWords
        );
        let nan = refused(RngState {
            pending_normal: Some(f64::NAN),
            ..good
        });
        assert!(matches!(nan, StateError::PendingNormal { .. }));
    }
}
