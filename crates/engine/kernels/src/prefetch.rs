//! Asking for memory before it is read, where that helps.
//!
//! Intel's processors stop fetching ahead at the end of a page of 4 KiB; asked by the program, they read a tenth to a half faster.
//! AMD's Zen 3 reads a quarter faster if a thread reads several rows of weights side by side, each in pages of its own, and a tenth faster again if it asks for each a few lines ahead; Zen 4 a tenth with both.
//! Single lines that are known to be read are asked for on all.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{__cpuid, _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

use multiversion::multiversion;

/// Rows of weights that a thread reads side by side, each from another part of its task.
pub(crate) const STREAMS: usize = 4;

/// How many bytes ahead of its reading a loop asks for each of [`STREAMS`] panels.
#[cfg(target_arch = "x86_64")]
const NEAR: usize = 512;

/// Numbers of a cache line.
pub(crate) const LINE: usize = 16;

/// How many bytes ahead of its reading a loop asks for memory that it reads in order, and does much with.
#[cfg(target_arch = "x86_64")]
const FAR: usize = 8192;

/// As `FAR`, for a loop that does little else than read: 0 where asking was not found to help.
#[cfg(target_arch = "x86_64")]
pub(crate) fn distance() -> usize {
    static OF_THIS: OnceLock<usize> = OnceLock::new();
    *OF_THIS.get_or_init(|| {
        let vendor = __cpuid(0);
        let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
        if name.as_flattened() == b"GenuineIntel" {
            FAR
        } else {
            0
        }
    })
}

/// As [`distance`], for panels of 8 and 4 bits that a loop with VNNI reads one at a time: 2 KiB where it is 0 (measured on Zen 4).
#[cfg(target_arch = "x86_64")]
pub(crate) fn distance_of_panels() -> usize {
    distance().max(2048)
}

/// Whether a loop reads [`STREAMS`] rows of weights side by side.
#[cfg(target_arch = "x86_64")]
pub(crate) fn side_by_side() -> bool {
    distance() == 0 && is_x86_feature_detected!("avx2")
}

/// As [`side_by_side`], for panels of 8 and 4 bits: with VNNI, one at a time is as fast in 8 bits and faster in 4 (measured on Zen 4).
#[cfg(target_arch = "x86_64")]
pub(crate) fn panels_side_by_side() -> bool {
    side_by_side() && !is_x86_feature_detected!("avx512vnni")
}

/// For memory that is read in order: asks for the line `ahead` bytes after `at` into the second cache, and for the one at a quarter of that into the first, which has room for few requests at a time.
///
/// For 0 it is the line itself, without a branch: with one, compilers gather what [`sum_of_words`] reads for AVX-512, at a sixth of the speed.
#[inline(always)]
pub(crate) fn stream<T>(at: *const T, ahead: usize) {
    far_line(at, ahead);
    line(at, ahead / 4);
}

/// Asks for what a loop over T panels of weights reads after `at`.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn panel<const T: usize, B>(at: *const B) {
    match T {
        1 => stream(at, FAR),
        _ => line(at, NEAR),
    }
}

/// Asks for the line of memory `ahead` bytes after `at`, which may be anywhere, into the first cache.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn line<T>(at: *const T, ahead: usize) {
    // SAFETY: a prefetch reads nothing and never faults, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast::<i8>().wrapping_add(ahead)) };
}

/// As [`line()`], into the second cache.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) fn far_line<T>(at: *const T, ahead: usize) {
    // SAFETY: a prefetch reads nothing and never faults, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast::<i8>().wrapping_add(ahead)) };
}

/// Nothing, on processors whose own prefetching is left alone.
#[cfg(not(target_arch = "x86_64"))]
mod none {
    pub(crate) fn distance() -> usize {
        0
    }
    pub(crate) fn side_by_side() -> bool {
        false
    }
    pub(crate) fn panels_side_by_side() -> bool {
        false
    }
    pub(crate) fn line<T>(_at: *const T, _ahead: usize) {}
    pub(crate) fn far_line<T>(_at: *const T, _ahead: usize) {}
}
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use none::*;

/// The sum of `words`, read in wide loads in S parts side by side: what a bench times to know how fast memory can be read.
///
/// Each line is asked for so many bytes `ahead` of its reading, and again at a quarter of them.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
pub fn sum_of_words<const S: usize>(words: &[u64], ahead: usize) -> u64 {
    let mut lanes = [0u64; 32];
    let (chunks, rest) = words.as_chunks::<32>();
    let mut add = |chunk: &[u64; 32]| {
        chunk.chunks(8).for_each(|l| stream(l.as_ptr(), ahead));
        for (lane, word) in lanes.iter_mut().zip(chunk) {
            *lane = lane.wrapping_add(*word);
        }
    };
    let part = chunks.len() / S;
    for i in 0..part {
        for s in 0..S {
            add(&chunks[s * part + i]);
        }
    }
    chunks[S * part..].iter().for_each(add);
    let words = lanes.iter().chain(rest);
    words.fold(0, |sum, word| sum.wrapping_add(*word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_word_is_read_once() {
        for n in [0, 1, 31, 32, 100, 1000] {
            let words: Vec<u64> = (1..=n).collect();
            for ahead in [0, 4096] {
                assert_eq!(sum_of_words::<1>(&words, ahead), n * (n + 1) / 2);
                assert_eq!(sum_of_words::<4>(&words, ahead), n * (n + 1) / 2);
            }
        }
    }
}
