//! Random permutations, as returned by `torch.randperm(n)`
//! (`aten/src/ATen/native/TensorFactories.cpp`), and the order in which a `DataLoader` visits the
//! items of a dataset (`torch/utils/data/dataloader.py` and `sampler.py`).
//!
//! A permutation is drawn by the Fisher-Yates shuffle: for each `i` in `0..n - 1`, element `i` is
//! swapped with element `i + draw mod (n - i)`. For permutations of 2^32 / 20 elements or more,
//! this crate uses 64-bit draws and a different variant of the shuffle, as PyTorch 2.15 does.
//! PyTorch 2.4 doesn't have this variant.

use crate::TorchRng;

/// Smallest length of a permutation for which PyTorch uses 64-bit draws. With 32-bit draws, the
/// permutation would be too biased.
const MIN_WIDE_LEN: usize = (u32::MAX / 20) as usize;

impl TorchRng {
    /// Returns the numbers `0..n` in random order, like `torch.randperm(n)`. This method takes
    /// `n - 1` draws, or `2 * n` draws if `n` is at least 214,748,364.
    pub fn randperm(&mut self, n: usize) -> Vec<usize> {
        if n >= MIN_WIDE_LEN {
            return self.randperm_wide(n);
        }
        let mut order: Vec<usize> = (0..n).collect();
        for i in 0..n.saturating_sub(1) {
            let step = self.engine.next_u32() % (n - i) as u32;
            order.swap(i, i + step as usize);
        }
        order
    }

    /// Returns the order in which `DataLoader(dataset, shuffle=shuffle, num_workers=0)` visits the
    /// `n` items of `dataset`. This method takes as many draws as one iteration over the data
    /// loader.
    ///
    /// An iteration over the data loader begins with two draws for the base seed of the worker
    /// processes, even if there are no workers. If `shuffle` is true, two more draws seed a second
    /// generator, and the order is the result of that generator's [`randperm`](Self::randperm).
    /// Otherwise, the order is `0..n`.
    pub fn data_loader_order(&mut self, n: usize, shuffle: bool) -> Vec<usize> {
        let _base_seed = self.engine.next_u64();
        if !shuffle {
            return (0..n).collect();
        }
        // Draw the seed of the generator that shuffles the data. PyTorch clears the highest bit of
        // this 64-bit seed. That isn't necessary here, because the generator uses only the low 32
        // bits of its seed.
        let seed = self.engine.next_u64();
        Self::manual_seed(seed).randperm(n)
    }

    fn randperm_wide(&mut self, n: usize) -> Vec<usize> {
        let mut order = Vec::with_capacity(n);
        for i in 0..n {
            let at = (self.engine.next_u64() % (i as u64 + 1)) as usize;
            order.push(i);
            order.swap(at, i);
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wide_variant_is_a_permutation_too() {
        let mut order = TorchRng::manual_seed(1).randperm_wide(1_000);
        order.sort_unstable();
        assert!(order.into_iter().eq(0..1_000));
    }

    #[test]
    fn a_loader_that_does_not_shuffle_draws_its_base_seed() {
        let mut rng = TorchRng::manual_seed(1);
        assert_eq!(rng.data_loader_order(3, false), [0, 1, 2]);
        let mut expected = TorchRng::manual_seed(1);
        expected.rand(2);
        assert_eq!(rng, expected);
        rng.data_loader_order(3, true);
        expected.rand(4);
        assert_eq!(rng, expected);
    }
}
