//! Requests for memory on x86-64, and their distance.

use std::arch::x86_64::{__cpuid, _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
use std::sync::OnceLock;

/// Bytes ahead of its reading at which a loop asks for each of [`STREAMS`](super::STREAMS) panels.
const NEAR: usize = 512;

/// Bytes ahead of its reading at which a loop asks for memory that it reads in order, and does much
/// with.
const FAR: usize = 8192;

/// `FAR` for a loop that does little else than read: 0 where asking was not found to help.
pub(crate) fn distance() -> usize {
    static OF_THIS: OnceLock<usize> = OnceLock::new();
    *OF_THIS.get_or_init(|| {
        #[allow(unused_unsafe, reason = "a safe function since Rust 1.94")]
        // SAFETY: every x86-64 processor has the instruction CPUID.
        let vendor = unsafe { __cpuid(0) };
        let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
        if name.as_flattened() == b"GenuineIntel" {
            FAR
        } else {
            0
        }
    })
}

/// [`distance`] for panels of 8 and 4 bits that a loop with VNNI reads one at a time: 2 KiB
/// where it is 0 (measured on Zen 4).
pub(crate) fn distance_of_panels() -> usize {
    distance().max(2048)
}

/// True if a loop reads [`STREAMS`](super::STREAMS) rows of weights side by side.
pub(crate) fn side_by_side() -> bool {
    distance() == 0 && is_x86_feature_detected!("avx2")
}

/// [`side_by_side`] for panels of 8 and 4 bits: with VNNI, one at a time is as fast in 8 bits
/// and faster in 4 (measured on Zen 4).
pub(crate) fn panels_side_by_side() -> bool {
    side_by_side() && !is_x86_feature_detected!("avx512vnni")
}

/// For memory that is read in order: asks for the line `ahead` bytes after `at` into the second
/// cache, and for the one at a quarter of that into the first, which has room for few requests at a
/// time.
#[inline(always)]
pub(crate) fn stream<T>(at: *const T, ahead: usize) {
    far_line(at, ahead);
    line(at, ahead / 4);
}

/// Prefetches the data that a loop over T panels of weights reads after `at`.
#[inline(always)]
pub(crate) fn panel<const T: usize, B>(at: *const B) {
    match T {
        1 => stream(at, FAR),
        _ => line(at, NEAR),
    }
}

/// Asks for the line of memory `ahead` bytes after `at`, which may be anywhere, into the first
/// cache.
#[inline(always)]
pub(crate) fn line<T>(at: *const T, ahead: usize) {
    // SAFETY: a prefetch reads nothing and never faults, for any address.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast::<i8>().wrapping_add(ahead)) };
}

/// [`line()`] into the second cache.
#[inline(always)]
pub(crate) fn far_line<T>(at: *const T, ahead: usize) {
    // SAFETY: a prefetch reads nothing and never faults, for any address.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast::<i8>().wrapping_add(ahead)) };
}
