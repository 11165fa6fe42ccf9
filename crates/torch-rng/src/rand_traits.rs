//! Implementations of traits from the `rand` crate. They allow the distributions and shuffles of
//! `rand` to use the draws of a [`TorchRng`].
//!
//! `next_u64` takes two draws. As in PyTorch's `random64`, the first draw becomes the upper half of
//! the result. The generator isn't cryptographically secure, because its entire state can be
//! computed from 624 consecutive draws.

use std::convert::Infallible;

use rand::{SeedableRng, TryRng};

use crate::TorchRng;

impl TryRng for TorchRng {
    type Error = Infallible;

    #[inline]
    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.engine.next_u32())
    }

    #[inline]
    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        Ok(self.engine.next_u64())
    }

    /// Fills `dst` with draws in little-endian byte order. If the length of `dst` isn't a multiple
    /// of 4, the remaining bytes of the last draw are discarded.
    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        for bytes in dst.chunks_mut(4) {
            bytes.copy_from_slice(&self.engine.next_u32().to_le_bytes()[..bytes.len()]);
        }
        Ok(())
    }
}

impl SeedableRng for TorchRng {
    /// The seed that is passed to [`manual_seed`](TorchRng::manual_seed), in little-endian byte
    /// order.
    type Seed = [u8; 8];

    fn from_seed(seed: [u8; 8]) -> Self {
        Self::manual_seed(u64::from_le_bytes(seed))
    }

    /// Creates the same generator as [`manual_seed`](TorchRng::manual_seed). This method replaces
    /// the default implementation, which would first derive a different seed from `seed`.
    fn seed_from_u64(seed: u64) -> Self {
        Self::manual_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::Rng;

    #[test]
    fn the_first_draw_is_the_high_word() {
        let mut rng = TorchRng::seed_from_u64(123);
        let mut halves = TorchRng::from_seed(123u64.to_le_bytes());
        let (high, low) = (halves.next_u32(), halves.next_u32());
        assert_eq!(rng.next_u64(), u64::from(high) << 32 | u64::from(low));
    }

    #[test]
    fn bytes_are_those_of_the_draws() {
        let mut bytes = [0; 6];
        TorchRng::manual_seed(123).fill_bytes(&mut bytes);
        let mut rng = TorchRng::manual_seed(123);
        assert_eq!(bytes[..4], rng.next_u32().to_le_bytes());
        assert_eq!(bytes[4..], rng.next_u32().to_le_bytes()[..2]);
    }
}
