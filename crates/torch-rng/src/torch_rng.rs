//! [`TorchRng`], the random number generator. It consists of an MT19937 engine, the pending normal
//! sample, the PyTorch build whose numbers it reproduces, and the part of the batch for which it
//! draws dropout masks.
//!
//! The methods that draw numbers are defined in the modules `uniform`, `normal`, `dropout`,
//! `multinomial` and `permutation`.

use std::ops::Range;

use crate::Build;
use crate::mt19937::Mt19937;

/// A random number generator that returns the same numbers as PyTorch's CPU generator.
///
/// Two generators that compare equal will return the same numbers in the future.
///
/// ```
/// use torch_rng::TorchRng;
///
/// let mut rng = TorchRng::manual_seed(123); // torch.manual_seed(123)
/// let w_query = rng.rand(3 * 2); // torch.rand(3, 2)
/// let printed = [0.2961, 0.5166, 0.2517, 0.6886, 0.0740, 0.8665];
/// assert!(w_query.iter().zip(printed).all(|(ours, theirs)| (ours - theirs).abs() < 6e-5));
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct TorchRng {
    pub(crate) engine: Mt19937,
    /// Second sample of the last Box-Muller pair, or `None` if it has already been returned. The
    /// next call that draws fewer than 16 normal samples returns this sample first.
    pub(crate) pending_normal: Option<f64>,
    pub(crate) build: Build,
    /// Part of the batch for which this generator draws dropout masks, or `None` if it draws them
    /// for the whole batch.
    pub(crate) part: Option<BatchPart>,
}

/// A range of the sequences in a batch. It is described by the number of sequences before the
/// range, in the range (`count`) and after the range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchPart {
    pub(crate) before: usize,
    pub(crate) count: usize,
    pub(crate) after: usize,
}

impl TorchRng {
    /// Creates a generator with the given seed, like `torch.manual_seed(seed)`. The generator
    /// reproduces the random numbers of [`Build::Portable`].
    ///
    /// As in PyTorch, only the low 32 bits of the seed are used.
    pub fn manual_seed(seed: u64) -> Self {
        let engine = Mt19937::new(seed as u32);
        Self {
            engine,
            pending_normal: None,
            build: Build::default(),
            part: None,
        }
    }

    /// Returns a copy of this generator that draws dropout masks for only a part of a batch, namely
    /// for the sequences in the range `sequences` out of `batch` sequences. Its method
    /// [`keep_mask`](Self::keep_mask) returns the rows of the mask that belong to these sequences
    /// and skips the draws for all others. If several machines each compute a part of a batch, they
    /// can therefore use the same masks as a single machine that computes the whole batch.
    ///
    /// The range of sequences affects only dropout masks. It isn't part of the generator's
    /// [`state`](Self::state), so it must be set again after the state has been restored. To draw
    /// masks for the whole batch again, call this method with the range `0..batch`.
    ///
    /// # Panics
    ///
    /// Panics if `sequences` is empty or isn't a part of `0..batch`.
    #[must_use]
    pub fn for_part_of_batch(&self, sequences: Range<usize>, batch: usize) -> Self {
        assert!(
            sequences.start < sequences.end && sequences.end <= batch,
            "for_part_of_batch: the range {sequences:?} is empty or isn't a part of 0..{batch}"
        );
        let part = BatchPart {
            before: sequences.start,
            count: sequences.len(),
            after: batch - sequences.end,
        };
        Self {
            part: (part.count < batch).then_some(part),
            ..self.clone()
        }
    }

    /// Switches this generator to another PyTorch build and returns it. From then on, it reproduces
    /// the random numbers of that build. Its position in the sequence of draws doesn't change.
    #[must_use]
    pub fn with_build(self, build: Build) -> Self {
        Self { build, ..self }
    }

    /// Returns the PyTorch build whose random numbers this generator reproduces.
    pub fn build(&self) -> Build {
        self.build
    }

    /// Restarts the generator with a new seed, like calling `torch.manual_seed(seed)` in the middle
    /// of a program. The pending normal sample and the range set by
    /// [`for_part_of_batch`](Self::for_part_of_batch) are discarded. The generator continues to
    /// reproduce the same PyTorch build.
    pub fn reseed(&mut self, seed: u64) {
        *self = Self::manual_seed(seed).with_build(self.build);
    }

    /// Takes two draws and returns a number in [0, 1) with 53 random bits.
    #[inline]
    pub(crate) fn next_f64(&mut self) -> f64 {
        low_53_bits(self.engine.next_u64()) as f64 * TWO_POW_MINUS_53
    }
}

/// 2^-53, the distance between two neighboring results of [`TorchRng::next_f64`].
pub(crate) const TWO_POW_MINUS_53: f64 = 1.0 / (1u64 << 53) as f64;

/// Returns the low 53 bits of a 64-bit draw. Like PyTorch, this crate converts these bits to an
/// `f64`, whereas most other libraries use the high 53 bits.
#[inline]
pub(crate) fn low_53_bits(draw: u64) -> u64 {
    draw & ((1 << 53) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reseeding_forgets_the_pending_normal_and_keeps_the_build() {
        let mut rng = TorchRng::manual_seed(1).with_build(Build::Mkl);
        rng.randn(3);
        assert!(rng.pending_normal.is_some());
        rng.reseed(123);
        assert_eq!(rng, TorchRng::manual_seed(123).with_build(Build::Mkl));
    }

    #[test]
    fn only_the_low_half_of_a_seed_counts() {
        assert_eq!(TorchRng::manual_seed(5 << 32 | 9), TorchRng::manual_seed(9));
    }
}
