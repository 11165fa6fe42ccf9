//! The counter from which threads and the pool of buffers learn whether a pass is in progress.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of passes that have begun plus the number of passes that have ended. It is odd while a
/// pass is in progress.
///
/// Only one pass at a time keeps threads awake and is counted. Passes inside it or concurrent with
/// it run without changing the counter.
pub(crate) static PASSES: AtomicUsize = AtomicUsize::new(0);

/// Returns whether a pass that keeps threads awake is in progress.
pub(crate) fn in_progress() -> bool {
    !PASSES.load(Ordering::Relaxed).is_multiple_of(2)
}
