//! Prefetch instructions and prefetch distances of x86-64.

use std::arch::x86_64::{__cpuid, _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
use std::sync::OnceLock;

/// Prefetch distance within each panel, in bytes, for a loop that reads [`STREAMS`](super::STREAMS)
/// panels concurrently.
const NEAR: usize = 512;

/// Prefetch distance, in bytes, for data that a loop reads as a single sequential stream.
const FAR: usize = 8192;

/// Returns the prefetch distance, in bytes, for loops whose speed is limited by reading memory. It
/// is [`FAR`] on Intel CPUs. On all others, it is 0, which means that these loops don't prefetch,
/// because prefetching wasn't found to help there.
pub(crate) fn distance() -> usize {
    static OF_THIS: OnceLock<usize> = OnceLock::new();
    *OF_THIS.get_or_init(|| {
        #[allow(unused_unsafe, reason = "a safe function since Rust 1.94")]
        // SAFETY: Every x86-64 CPU has the CPUID instruction.
        let vendor = unsafe { __cpuid(0) };
        let name = [vendor.ebx, vendor.edx, vendor.ecx].map(u32::to_le_bytes);
        if name.as_flattened() == b"GenuineIntel" {
            FAR
        } else {
            0
        }
    })
}

/// Returns the prefetch distance, in bytes, for int8 and int4 panels that a VNNI kernel reads one
/// at a time. On CPUs for which [`distance`] returns 0, it is 2 KiB, based on measurements on Zen
/// 4.
pub(crate) fn distance_of_panels() -> usize {
    distance().max(2048)
}

/// Returns whether a loop should read [`STREAMS`](super::STREAMS) rows of weights concurrently.
pub(crate) fn side_by_side() -> bool {
    distance() == 0 && is_x86_feature_detected!("avx2")
}

/// Returns whether a loop should read [`STREAMS`](super::STREAMS) int8 or int4 panels concurrently.
/// It shouldn't on CPUs with VNNI, where reading one panel at a time is as fast for int8 and faster
/// for int4, according to measurements on Zen 4.
pub(crate) fn panels_side_by_side() -> bool {
    side_by_side() && !is_x86_feature_detected!("avx512vnni")
}

/// Prefetches data that a loop reads sequentially. The cache line `ahead` bytes after `at` is
/// loaded into the L2 cache. The cache line at a quarter of this distance is loaded into the L1
/// cache, which supports only a few outstanding requests.
#[inline(always)]
pub(crate) fn stream<T>(at: *const T, ahead: usize) {
    far_line(at, ahead);
    line(at, ahead / 4);
}

/// Prefetches weights that follow `at` in a panel. The prefetch distance suits a loop that reads
/// `T` panels concurrently.
#[inline(always)]
pub(crate) fn panel<const T: usize, B>(at: *const B) {
    match T {
        1 => stream(at, FAR),
        _ => line(at, NEAR),
    }
}

/// Prefetches the cache line `ahead` bytes after `at` into the L1 cache. Any address is allowed.
#[inline(always)]
pub(crate) fn line<T>(at: *const T, ahead: usize) {
    // SAFETY: A prefetch instruction has no visible effect and never faults, even if the address is
    // invalid.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast::<i8>().wrapping_add(ahead)) };
}

/// Prefetches the cache line `ahead` bytes after `at` into the L2 cache. Any address is allowed.
#[inline(always)]
pub(crate) fn far_line<T>(at: *const T, ahead: usize) {
    // SAFETY: A prefetch instruction has no visible effect and never faults, even if the address is
    // invalid.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast::<i8>().wrapping_add(ahead)) };
}
