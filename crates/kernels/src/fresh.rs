//! Uninitialised output buffers that are written once: no pass over the memory only to fill it with zeros.

use std::mem::MaybeUninit;

use rayon::prelude::*;

use crate::buffers::buffer;

/// `n` numbers, made a block at a time on all threads: `f(i, block)` is given block `i` filled with zeros, in the cache.
pub fn fresh(n: usize, block: usize, f: impl Fn(usize, &mut [f32]) + Sync) -> Vec<f32> {
    let mut out = buffer(n);
    out.clear();
    let make = |(i, block): (usize, &mut [MaybeUninit<f32>])| {
        block.fill(MaybeUninit::new(0.0));
        // SAFETY: every element has just been written, and f32 has the layout of MaybeUninit<f32>.
        f(i, unsafe {
            std::slice::from_raw_parts_mut(block.as_mut_ptr().cast(), block.len())
        });
    };
    let spare = &mut out.spare_capacity_mut()[..n];
    if n <= block {
        spare.chunks_mut(block.max(1)).enumerate().for_each(make);
    } else {
        spare
            .par_chunks_mut(block.max(1))
            .enumerate()
            .for_each(make);
    }
    // SAFETY: the blocks cover the first n elements, and each has been written.
    unsafe { out.set_len(n) };
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_in_order_and_start_at_zero() {
        for (n, block) in [(0, 3), (1, 1), (7, 3), (9, 3), (5, 100), (4, 0)] {
            let made = fresh(n, block, |i, out| {
                assert!(out.iter().all(|&x| x == 0.0));
                out.iter_mut()
                    .enumerate()
                    .for_each(|(j, x)| *x = (i * block + j) as f32);
            });
            let expected: Vec<f32> = (0..n).map(|i| i as f32).collect();
            if block > 0 {
                assert_eq!(made, expected, "{n} in blocks of {block}");
            }
            assert_eq!(made.len(), n);
        }
    }
}
