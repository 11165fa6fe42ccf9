//! Measures how fast the machine reads memory. To do so, it adds up the bit patterns of large
//! arrays with several methods, because no method is the fastest on every processor.

#![allow(unsafe_code)] // needed for prefetching and for the functions that `multiversion` generates

use std::hint::black_box;

use multiversion::multiversion;
use rayon::prelude::*;

use crate::clock::{sustained, time};

/// The arrays that are read to measure the speed: 528 MB on huge pages and 528 MB on small pages.
/// They are allocated before the first measurement.
#[derive(Default)]
pub(crate) struct Memory {
    pieces: [Vec<Vec<f32>>; 2],
}

impl Memory {
    /// Returns the speed of each method in bytes per second. All threads read at the same time, and
    /// each of them reads different arrays. The methods differ in the size of the pages, in how far
    /// ahead they prefetch, and in whether a thread reads an array from start to end or reads four
    /// parts of it at the same time.
    pub(crate) fn read(&mut self) -> Vec<f64> {
        /// Number of elements in all arrays on huge pages, and in all arrays on small pages. If it
        /// were a power of two, the parts of an array that are read at the same time would compete
        /// for the same cache sets.
        const NUMBERS: usize = 132_000_000;
        type Sum = fn(&[f32], usize) -> u32;
        const WAYS: [(Sum, usize); 5] = [
            (sum_of_bits::<1>, 0),
            (sum_of_bits::<1>, 4096),
            (sum_of_bits::<1>, 8192),
            (sum_of_bits::<1>, 16384),
            (sum_of_bits::<4>, 0),
        ];
        /// Number of elements in an array on small pages. Such an array takes 480 kB, which is less
        /// than a huge page.
        const SMALL: usize = 120_000;
        let threads = rayon::current_num_threads();
        if self.pieces[0].is_empty() {
            let huge = || vec_of_ones(kernels::zeros(NUMBERS / threads)); // requests huge pages
            let small = || vec_of_ones(vec![0.0; SMALL]);
            self.pieces = [
                (0..threads).map(|_| huge()).collect(),
                (0..NUMBERS / SMALL).map(|_| small()).collect(),
            ];
        }
        let mut speeds = Vec::new();
        for pieces in &self.pieces {
            let bytes = 4 * pieces.iter().map(Vec::len).sum::<usize>();
            for (sum, ahead) in WAYS {
                let of_thread = pieces.len().div_ceil(threads);
                let pass = || {
                    pieces.par_chunks(of_thread).for_each(|part| {
                        for piece in part {
                            black_box(sum(piece, ahead));
                        }
                    });
                };
                let seconds = sustained(|| Some(time(pass))).expect("it can't fail");
                speeds.push(bytes as f64 / seconds);
            }
        }
        speeds
    }
}

/// Fills an array with ones. This makes the operating system allocate memory for its pages, because
/// all pages that have never been written refer to the same page of zeros.
fn vec_of_ones(mut zeros: Vec<f32>) -> Vec<f32> {
    zeros.fill(1.0);
    zeros
}

/// Returns the sum of the bit patterns of `numbers` as integers. `S` parts of the array are read
/// alternately, one chunk at a time. Each cache line is prefetched twice: `ahead` bytes in advance,
/// and again at a quarter of this distance.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn sum_of_bits<const S: usize>(numbers: &[f32], ahead: usize) -> u32 {
    let mut lanes = [0u32; 64];
    let (chunks, rest) = numbers.as_chunks::<64>();
    let mut add = |chunk: &[f32; 64]| {
        // The prefetch also runs if `ahead` is 0. A branch that skips it would make the compiler
        // generate gather instructions for AVX-512, which are six times slower.
        chunk.chunks(16).for_each(|line| ask(line.as_ptr(), ahead));
        for (lane, number) in lanes.iter_mut().zip(chunk) {
            *lane = lane.wrapping_add(number.to_bits());
        }
    };
    let part = chunks.len() / S;
    for i in 0..part {
        for s in 0..S {
            add(&chunks[s * part + i]);
        }
    }
    chunks[S * part..].iter().for_each(add);
    let bits = lanes.into_iter().chain(rest.iter().map(|x| x.to_bits()));
    bits.fold(0, u32::wrapping_add)
}

#[inline(always)]
fn ask(at: *const f32, ahead: usize) {
    let at = at.cast::<i8>();
    let (far, near) = (at.wrapping_add(ahead), at.wrapping_add(ahead / 4));
    #[cfg(target_arch = "x86_64")]
    // SAFETY: Prefetch instructions accept any address. They never fault and never change memory.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T1>(far);
        _mm_prefetch::<_MM_HINT_T0>(near);
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (far, near);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_is_read_once() {
        for n in [0, 1, 63, 64, 200, 1000] {
            let numbers: Vec<f32> = (1..=n).map(f32::from_bits).collect();
            for ahead in [0, 4096] {
                assert_eq!(sum_of_bits::<1>(&numbers, ahead), n * (n + 1) / 2);
                assert_eq!(sum_of_bits::<4>(&numbers, ahead), n * (n + 1) / 2);
            }
        }
    }
}
