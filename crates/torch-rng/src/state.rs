//! The whole state of a generator, to be saved and taken up again: the next draw is the one that
//! would have come.
//!
//! As bytes: position (u32); build, whether a normal is pending, 0, 0; the pending normal (f64);
//! 624 words (u32). Little-endian.
//! It is not the layout of `torch.get_rng_state()`, and has no checksum: that is the file's.

use std::fmt;

use crate::mt19937::{Mt19937, WORDS};
use crate::{Build, StateError, TorchRng};

const HEADER: usize = 16;
const BYTES: usize = HEADER + 4 * WORDS;

/// A generator at one moment.
#[derive(Clone, PartialEq)]
pub struct RngState {
    /// The last 624 words of the recurrence, before tempering.
    pub words: [u32; WORDS],
    /// The next of the words to be drawn; 624 when all are used up.
    pub position: usize,
    /// The second value of a Box-Muller pair, due at the next draw of fewer than 16 normals.
    pub pending_normal: Option<f64>,
    /// The build that is imitated.
    pub build: Build,
}

impl TorchRng {
    /// A copy of the state.
    pub fn state(&self) -> RngState {
        RngState {
            words: *self.engine.words(),
            position: self.engine.position(),
            pending_normal: self.pending_normal,
            build: self.build,
        }
    }

    /// The generator that continues from `state`.
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
    /// If no sequence of draws leads to such a state.
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
    /// The state as 2,512 bytes.
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

    /// The state that [`to_bytes`](Self::to_bytes) wrote.
    ///
    /// # Errors
    ///
    /// If the bytes are of another length, or no sequence of draws leads to such a state.
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
        // Of the first word only the highest bit takes part in the recurrence.
        if self.words[0] >> 31 == 0 && self.words[1..].iter().all(|&word| word == 0) {
            return Err(StateError::ZeroWords);
        }
        // The largest radius is sqrt(-2 ln 2^-53) = 8.57.
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

/// N bytes from `start`, where the length has been checked.
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

    /// Why `saved` with one byte replaced is refused.
    fn forged(at: usize, byte: u8) -> String {
        let mut bytes = saved();
        bytes[at] = byte;
        RngState::from_bytes(&bytes)
            .expect_err("a forged state")
            .to_string()
    }

    #[test]
    fn any_other_length_is_refused() {
        let mut bytes = saved();
        bytes.push(0);
        for got in (0..BYTES).chain([BYTES + 1]) {
            let expected = BYTES;
            let refused = Err(StateError::Length { expected, got });
            assert_eq!(RngState::from_bytes(&bytes[..got]), refused);
        }
    }

    #[test]
    fn contents_that_cannot_be_are_named() {
        for (at, byte, message) in [
            (
                4,
                7,
                "generator state names build 7, known are 0 (portable) and 1 (mkl)",
            ),
            (
                5,
                3,
                "generator state has flag 3 in front of its pending normal",
            ),
            (
                5,
                0,
                "generator state has flag 0 in front of its pending normal",
            ),
            (
                1,
                0xff,
                "generator state is at word 65288 of a block of 624",
            ),
        ] {
            assert_eq!(forged(at, byte), message);
        }
        assert!(forged(15, 0x7f).ends_with("which no draw can leave"));
    }

    #[test]
    fn a_state_made_by_hand_is_checked_too() {
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
