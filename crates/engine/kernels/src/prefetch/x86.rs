//! Prefetch instructions and prefetch distances of x86-64.

use std::arch::x86_64::{__cpuid, _MM_HINT_T0, _MM_HINT_T1, _mm_prefetch};
use std::sync::OnceLock;

/// Prefetch distance in bytes for a loop that reads [`STREAMS`](super::STREAMS) weight panels
/// concurrently. In each panel, the loop prefetches the data that follows the current position by
/// this distance.
const NEAR: usize = 512;

/// Prefetch distance in bytes for a loop that reads its data sequentially, as a single stream.
const FAR: usize = 8192;

/// Returns the prefetch distance in bytes for loops whose speed is limited by reading data from
/// memory. The distance is [`FAR`] on Intel CPUs. On other CPUs, it is 0, which means that these
/// loops don't prefetch, because prefetching wasn't found to make them faster there.
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

/// Returns the prefetch distance in bytes for a VNNI kernel that reads int8 or int4 panels one at a
/// time. On CPUs for which [`distance`] returns 0, the distance is 2 KiB, which is based on
/// measurements on Zen 4.
pub(crate) fn distance_of_panels() -> usize {
    distance().max(2048)
}

/// Returns whether a loop should read [`STREAMS`](super::STREAMS) streams of weights concurrently
/// instead of prefetching a single stream far ahead.
pub(crate) fn side_by_side() -> bool {
    distance() == 0 && is_x86_feature_detected!("avx2")
}

/// Returns whether a loop should read [`STREAMS`](super::STREAMS) int8 or int4 panels concurrently.
/// The result is `false` on CPUs with VNNI. According to measurements on Zen 4, reading one panel
/// at a time is as fast for int8 and faster for int4 on such CPUs.
pub(crate) fn panels_side_by_side() -> bool {
    side_by_side() && !is_x86_feature_detected!("avx512vnni")
}

/// Prefetches data for a loop that reads it sequentially and has reached the address `at`. The
/// cache line `ahead` bytes after `at` is loaded into the L2 cache. Only the cache line `ahead / 4`
/// bytes after `at` is loaded into the L1 cache, because this cache supports only a few outstanding
/// requests.
#[inline(always)]
pub(crate) fn stream<T>(at: *const T, ahead: usize) {
    far_line(at, ahead);
    line(at, ahead / 4);
}

/// Prefetches weights that follow the address `at` in a panel. The prefetch distance depends on
/// `T`, the number of panels that the loop reads concurrently.
#[inline(always)]
pub(crate) fn panel<const T: usize, B>(at: *const B) {
    match T {
        1 => stream(at, FAR),
        _ => line(at, NEAR),
    }
}

/// Prefetches the cache line `ahead` bytes after `at` into the L1 cache. The address doesn't need
/// to be valid.
#[inline(always)]
pub(crate) fn line<T>(at: *const T, ahead: usize) {
    // SAFETY: A prefetch instruction has no visible effect and never faults, even if the address is
    // invalid.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast::<i8>().wrapping_add(ahead)) };
}

/// Prefetches the cache line `ahead` bytes after `at` into the L2 cache. The address doesn't need
/// to be valid.
#[inline(always)]
pub(crate) fn far_line<T>(at: *const T, ahead: usize) {
    // SAFETY: A prefetch instruction has no visible effect and never faults, even if the address is
    // invalid.
    unsafe { _mm_prefetch::<_MM_HINT_T1>(at.cast::<i8>().wrapping_add(ahead)) };
}
