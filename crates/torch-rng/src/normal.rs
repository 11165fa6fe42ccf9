//! Normal numbers: `torch.randn`, `Tensor.normal_(mean, std)`, the weight of `nn.Embedding`.
//!
//! PyTorch has two algorithms, and the size of the tensor chooses. Fewer than 16: Box-Muller in
//! f64, one pair at a time, the second value of a pair kept for the next call. From 16 on: uniforms
//! everywhere, then Box-Muller over blocks of 16 (see `box_muller`); if the size isn't a multiple
//! of 16, the last 16 elements are drawn once more.

use std::f64::consts::PI;

use crate::TorchRng;
use crate::box_muller::{BLOCK, transform};
use crate::uniform::fill_unit;

/// Elements a task transforms while the next ones are drawn: 256 KiB, which a core's cache holds.
const TASK: usize = 1 << 16;

impl TorchRng {
    /// `tensor.normal_(mean, std)` over the elements in row-major order.
    ///
    /// Large tensors are transformed on all threads of rayon's pool; the numbers do not depend on
    /// how many there are.
    /// PyTorch's vectorised x86 code differs from this in the last bit or two (about 1e-6 at most).
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

    /// `torch.randn(n)`: n numbers of mean 0 and standard deviation 1.
    pub fn randn(&mut self, n: usize) -> Vec<f32> {
        let mut out = vec![0.0; n];
        self.fill_normal(&mut out, 0.0, 1.0);
        out
    }

    fn fill_blocks(&mut self, out: &mut [f32], mean: f32, std: f32) {
        if out.len() <= TASK {
            fill_unit(&mut self.engine, out);
            transform(out, mean, std);
            return;
        }
        // The draws are one sequence, their transformation is not: it follows behind on the other
        // threads.
        let engine = &mut self.engine;
        rayon::scope(|scope| {
            for task in out.chunks_mut(TASK) {
                fill_unit(engine, task);
                scope.spawn(move |_| transform(task, mean, std));
            }
        });
    }

    /// One standard normal; every second call draws nothing.
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
        let n = 3 * TASK + 5;
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
