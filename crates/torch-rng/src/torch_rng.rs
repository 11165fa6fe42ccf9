//! The generator: an MT19937 engine, the normal it may hold back, and the build it imitates.
//!
//! The draws are in the files named after them: uniform, normal, dropout, multinomial, permutation.

use std::ops::Range;

use crate::Build;
use crate::mt19937::Mt19937;

/// PyTorch's CPU generator.
///
/// Two generators are equal when all their future draws are.
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
    /// The second value of the last scalar Box-Muller pair, due at the next draw of fewer than 16
    /// normals.
    pub(crate) pending_normal: Option<f64>,
    pub(crate) build: Build,
    /// The sequences whose masks are drawn; `None` for all of the batch.
    pub(crate) part: Option<BatchPart>,
}

/// Sequences of a batch: those whose masks are drawn, and how many come before and after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchPart {
    pub(crate) before: usize,
    pub(crate) own: usize,
    pub(crate) after: usize,
}

impl TorchRng {
    /// `torch.manual_seed(seed)`: a new generator of the portable build.
    ///
    /// As in PyTorch, only the low 32 bits of the seed count.
    pub fn manual_seed(seed: u64) -> Self {
        let engine = Mt19937::new(seed as u32);
        Self {
            engine,
            pending_normal: None,
            build: Build::default(),
            part: None,
        }
    }

    /// This generator for some sequences of a batch, so that several can compute a batch together:
    /// [`keep_mask`](Self::keep_mask) gives these sequences' part of the batch's mask, and skips
    /// the draws of the others.
    ///
    /// The full range is the default. All other draws are unchanged, and [`state`](Self::state)
    /// does not keep the part.
    ///
    /// # Panics
    /// If there are no such sequences.
    #[must_use]
    pub fn for_part_of_batch(&self, own: Range<usize>, batch: usize) -> Self {
        assert!(
            own.start < own.end && own.end <= batch,
            "for_part_of_batch: sequences {own:?} of a batch of {batch}"
        );
        let part = BatchPart {
            before: own.start,
            own: own.len(),
            after: batch - own.end,
        };
        Self {
            part: (part.own < batch).then_some(part),
            ..self.clone()
        }
    }

    /// The same generator imitating `build` from here on.
    #[must_use]
    pub fn with_build(self, build: Build) -> Self {
        Self { build, ..self }
    }

    /// The build that is imitated.
    pub fn build(&self) -> Build {
        self.build
    }

    /// `torch.manual_seed(seed)` in the middle of a run: resets everything except the build.
    pub fn reseed(&mut self, seed: u64) {
        *self = Self::manual_seed(seed).with_build(self.build);
    }

    /// A number in [0, 1) of 53 random bits, from two draws.
    #[inline]
    pub(crate) fn next_f64(&mut self) -> f64 {
        low_53_bits(self.engine.next_u64()) as f64 * TWO_POW_MINUS_53
    }
}

/// 2^-53.
pub(crate) const TWO_POW_MINUS_53: f64 = 1.0 / (1u64 << 53) as f64;

/// PyTorch makes an f64 of the low 53 bits (not the high ones, as others do).
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
