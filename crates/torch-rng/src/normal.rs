//! Samples from the normal distribution, as drawn by `torch.randn`, by `Tensor.normal_(mean, std)`
//! and for the initial weights of `nn.Embedding`.
//!
//! PyTorch has two algorithms for normal samples and selects one of them based on the size of the
//! tensor (`aten/src/ATen/native/cpu/DistributionTemplates.h`):
//!
//! - A tensor of fewer than 16 elements is filled one element at a time. The Box-Muller transform
//!   produces two samples at once, so the second sample is saved for the next element that is
//!   filled in this way. In this crate, the saved sample is called the pending normal.
//! - A tensor of 16 or more elements is filled with uniform samples, which are then transformed in
//!   blocks of 16 (see `box_muller.rs`). If the size isn't a multiple of 16, the last 16 elements
//!   are drawn again and transformed as another block.
//!
//! Because the algorithm depends on the size of the tensor, one call that draws 20 normal samples
//! doesn't return the same numbers as two calls that draw 10 samples each.

use std::f64::consts::PI;

use crate::TorchRng;
use crate::box_muller::{BLOCK, transform};
use crate::uniform::fill_unit;

/// Number of elements that each parallel task transforms. They occupy 256 KiB, so they fit in the
/// L2 cache of a core.
const TASK_LEN: usize = 1 << 16;

impl TorchRng {
    /// Fills `out` with normal samples, like `tensor.normal_(mean, std)` for a tensor whose
    /// elements are stored in row-major order.
    ///
    /// If `out` is large, all threads of the current rayon pool share the work. The samples don't
    /// depend on the number of threads, but they can differ from PyTorch's samples by up to 3e-6,
    /// because PyTorch's vectorized code for x86 rounds differently.
    pub fn fill_normal(&mut self, out: &mut [f32], mean: f32, std: f32) {
        if out.len() < BLOCK {
            for slot in out {
                *slot = (self.next_normal() * f64::from(std) + f64::from(mean)) as f32;
            }
            return;
        }
        self.fill_blocks(out, mean, std);
        if !out.len().is_multiple_of(BLOCK) {
            let start = out.len() - BLOCK;
            let tail = &mut out[start..];
            fill_unit(&mut self.engine, tail);
            transform(tail, mean, std);
        }
    }

    /// Returns `n` samples with mean 0 and standard deviation 1, like `torch.randn(n)`.
    pub fn randn(&mut self, n: usize) -> Vec<f32> {
        let mut out = vec![0.0; n];
        self.fill_normal(&mut out, 0.0, 1.0);
        out
    }

    fn fill_blocks(&mut self, out: &mut [f32], mean: f32, std: f32) {
        if out.len() <= TASK_LEN {
            fill_unit(&mut self.engine, out);
            transform(out, mean, std);
            return;
        }
        // The uniform samples must be drawn in order, but they can be transformed in any order.
        // This thread draws all samples, while other threads transform the samples that have
        // already been drawn.
        let engine = &mut self.engine;
        rayon::scope(|scope| {
            for task in out.chunks_mut(TASK_LEN) {
                fill_unit(engine, task);
                scope.spawn(move |_| transform(task, mean, std));
            }
        });
    }

    /// Returns one sample of the standard normal distribution. If there is a pending normal sample,
    /// it is returned and nothing is drawn. Otherwise, two samples are computed from four draws,
    /// and the second sample becomes pending.
    fn next_normal(&mut self) -> f64 {
        if let Some(pending) = self.pending_normal.take() {
            return pending;
        }
        let theta = 2.0 * PI * self.next_f64();
        let radius = (-2.0 * (-self.next_f64()).ln_1p()).sqrt();
        self.pending_normal = Some(radius * theta.sin());
        radius * theta.cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tasks_and_threads_do_not_change_a_bit() {
        let n = 3 * TASK_LEN + 5;
        let mut one_piece = TorchRng::manual_seed(4);
        let mut expected = vec![0.0; n];
        fill_unit(&mut one_piece.engine, &mut expected);
        transform(&mut expected, 0.5, 2.0);
        fill_unit(&mut one_piece.engine, &mut expected[n - BLOCK..]);
        transform(&mut expected[n - BLOCK..], 0.5, 2.0);
        for threads in [1, 2, 5] {
            let pool = rayon::ThreadPoolBuilder::new()
                .num_threads(threads)
                .build()
                .expect("a small pool starts");
            let mut rng = TorchRng::manual_seed(4);
            let mut out = vec![0.0; n];
            pool.install(|| rng.fill_normal(&mut out, 0.5, 2.0));
            assert!(out == expected, "{threads} threads");
            assert_eq!(rng, one_piece);
        }
    }

    #[test]
    fn large_draws_leave_the_pending_normal_for_the_next_small_one() {
        let mut rng = TorchRng::manual_seed(2);
        let pair = TorchRng::manual_seed(2).randn(2);
        assert_eq!(rng.randn(1), pair[..1]);
        rng.randn(16);
        rng.rand(3);
        assert_eq!(rng.randn(1), pair[1..]);
    }
}
