//! The traits of `rand`, so that its distributions and shuffles can draw from PyTorch's stream.
//!
//! `next_u64` takes the first draw as the high word, like PyTorch's `random64`. Not for secrets:
//! 624 draws reveal the whole state.

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

    /// Draws in little-endian order; the last one may be used in part.
    fn try_fill_bytes(&mut self, dst: &mut [u8]) -> Result<(), Infallible> {
        for bytes in dst.chunks_mut(4) {
            bytes.copy_from_slice(&self.engine.next_u32().to_le_bytes()[..bytes.len()]);
        }
        Ok(())
    }
}

impl SeedableRng for TorchRng {
    /// The seed of [`manual_seed`](TorchRng::manual_seed), little-endian.
    type Seed = [u8; 8];

    fn from_seed(seed: [u8; 8]) -> Self {
        Self::manual_seed(u64::from_le_bytes(seed))
    }

    /// The same as [`manual_seed`](TorchRng::manual_seed): the seed is not stretched, as other
    /// generators do.
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
