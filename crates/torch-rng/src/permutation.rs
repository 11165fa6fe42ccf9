//! Orders: `torch.randperm(n)`, and the one in which a `DataLoader` visits its data.
//!
//! `for i in 0..n-1: swap(a[i], a[i + draw mod (n - i)])`.
//! From 2^32 / 20 elements on, PyTorch (2.15, not yet 2.4) takes 64-bit draws and inserts from the
//! front instead.

use crate::TorchRng;

/// The size from which 32 bits would be too biased for PyTorch.
const WIDE: usize = (u32::MAX / 20) as usize;

impl TorchRng {
    /// `torch.randperm(n)`: the numbers 0 to n - 1 in random order, from n - 1 draws (2 n from
    /// 214,748,364 elements on).
    pub fn randperm(&mut self, n: usize) -> Vec<usize> {
        if n >= WIDE {
            return self.randperm_wide(n);
        }
        let mut order: Vec<usize> = (0..n).collect();
        for i in 0..n.saturating_sub(1) {
            let step = self.engine.next_u32() % (n - i) as u32;
            order.swap(i, i + step as usize);
        }
        order
    }

    /// The order in which `DataLoader(.., shuffle, num_workers=0)` visits `n` items, as iterating
    /// over it draws it.
    ///
    /// Shuffled: a base seed for workers that do not exist (two draws), then the seed of a new
    /// generator (two more) whose [`randperm`](Self::randperm) is the order.
    /// In order: the base seed is drawn all the same.
    pub fn data_loader_order(&mut self, n: usize, shuffle: bool) -> Vec<usize> {
        let _base_seed = self.engine.next_u64();
        if !shuffle {
            return (0..n).collect();
        }
        // PyTorch clears the seed's top bit, which a generator does not look at anyway.
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
