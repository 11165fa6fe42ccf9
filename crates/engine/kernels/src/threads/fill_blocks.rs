//! Vectors whose elements are written in parallel, without first being set to zero.

use std::mem::MaybeUninit;

use crate::threads::buffers::buffer;
use crate::threads::for_each;

/// Returns a vector of `n` values. The threads of rayon's pool write these values in parallel, in
/// blocks of `block` values. The last block may be shorter.
///
/// The function `f(i, values)` must write all elements of `values`, which is the block with the
/// index `i`. Before the call, `values` contains zeros or values from an earlier use of the memory.
/// In debug builds, it contains NaN instead, to reveal elements that `f` fails to write. The memory
/// comes from the pool of [`buffer`].
pub fn fill_blocks(n: usize, block: usize, f: impl Fn(usize, &mut [f32]) + Sync) -> Vec<f32> {
    fill_blocks_in(buffer(n), n, block, f)
}

/// Implements [`fill_blocks`], but writes the values to the memory of an existing vector, `out`,
/// and returns this vector. Its capacity must be at least `n`.
fn fill_blocks_in(
    mut out: Vec<f32>,
    n: usize,
    block: usize,
    f: impl Fn(usize, &mut [f32]) + Sync,
) -> Vec<f32> {
    let used = out.len();
    out.clear();
    let make = |(i, part): (usize, &mut [MaybeUninit<f32>])| {
        if cfg!(debug_assertions) {
            part.fill(MaybeUninit::new(f32::NAN));
        } else if i * block + part.len() > used {
            part.fill(MaybeUninit::new(0.0)); // This also brings the block into the cache.
        }
        // SAFETY: Every element of `part` is initialized, either by `fill` or by an earlier use of
        // the memory, and `MaybeUninit<f32>` has the same layout as `f32`.
        f(i, unsafe {
            std::slice::from_raw_parts_mut(part.as_mut_ptr().cast(), part.len())
        });
    };
    let spare = &mut out.spare_capacity_mut()[..n];
    for_each(spare.chunks_mut(block.max(1)).enumerate().collect(), make);
    // SAFETY: The blocks cover the first `n` elements of `out`, and all elements of each block are
    // initialized.
    unsafe { out.set_len(n) };
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The value that an element has before `f` writes it.
    const UNUSED: f32 = if cfg!(debug_assertions) {
        f32::NAN
    } else {
        0.0
    };

    #[test]
    fn blocks_are_in_order_and_hold_nothing_that_was_never_written() {
        for (n, block) in [(0, 3), (1, 1), (7, 3), (9, 3), (5, 100), (4, 0)] {
            let made = fill_blocks(n, block, |i, out| {
                assert!(out.iter().all(|&x| x.to_bits() == UNUSED.to_bits()));
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

    #[test]
    fn a_block_that_an_earlier_use_does_not_reach_across_is_cleared() {
        let mut earlier = Vec::with_capacity(9);
        earlier.resize(4, 5.0);
        let made = fill_blocks_in(earlier, 9, 3, |i, out| {
            let kept = i == 0 && !cfg!(debug_assertions);
            let expected: f32 = if kept { 5.0 } else { UNUSED };
            assert!(out.iter().all(|&x| x.to_bits() == expected.to_bits()));
            out.fill(i as f32);
        });
        assert_eq!(made, [0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
    }
}
