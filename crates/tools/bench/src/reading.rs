//! Measures how fast the machine reads memory, by adding up the bit patterns of large arrays.
//! Several methods are used, because no single method is the fastest on every processor.

#![allow(unsafe_code)] // needed for prefetching and for the functions that `multiversion` generates

use std::hint::black_box;

use multiversion::multiversion;
use rayon::prelude::*;

use crate::clock::{sustained, time};

/// The arrays that are read to measure the speed. They consist of 528 MB on huge pages and 528 MB
/// on small pages, which are allocated before the first measurement.
#[derive(Default)]
pub(crate) struct Memory {
    pieces: [Vec<Vec<f32>>; 2],
}

impl Memory {
    /// Returns the speed of each method in bytes per second. All threads read different arrays at
    /// the same time. The methods differ in three respects: the size of the memory pages, how far
    /// ahead data is prefetched, and whether a thread reads each array from start to end or reads
    /// four parts of it alternately.
    pub(crate) fn read(&mut self) -> Vec<f64> {
        /// Total number of `f32` elements in the arrays on huge pages. The arrays on small pages
        /// have the same total number of elements. This number must not be a power of two.
        /// Otherwise, the four parts of an array that some methods read alternately would compete
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
        /// Number of elements in an array on small pages. Such an array occupies 480 kB, because it
        /// must be smaller than a huge page.
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

/// Fills an array with ones. Until memory is written for the first time, the operating system can
/// map all of its pages to the same page of zeros. Writing to the array makes the system allocate
/// separate pages, so that the measurement really reads memory.
fn vec_of_ones(mut zeros: Vec<f32>) -> Vec<f32> {
    zeros.fill(1.0);
    zeros
}

/// Interprets the bits of each element of `numbers` as an integer, and returns the wrapping sum of
/// these integers. The array is divided into `S` parts, and the function reads one chunk from each
/// part in turn. It prefetches each cache line twice: first when it is `ahead` bytes before this
/// line, and again at a quarter of this distance.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn sum_of_bits<const S: usize>(numbers: &[f32], ahead: usize) -> u32 {
    let mut lanes = [0u32; 64];
    let (chunks, rest) = numbers.as_chunks::<64>();
    let mut add = |chunk: &[f32; 64]| {
        // If `ahead` is 0, prefetching has no effect, but it isn't skipped. If there were a branch
        // to skip it, the compiler would generate gather instructions for AVX-512, which are six
        // times slower.
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
