//! The count of passes, by which threads and kept memory know whether one is in progress.

use std::sync::atomic::{AtomicUsize, Ordering};

/// The number of passes that have begun plus the number that have ended: odd while one is in
/// progress.
/// There is one at a time that keeps threads awake; another inside it or beside it just runs.
pub(crate) static PASSES: AtomicUsize = AtomicUsize::new(0);

/// Whether a pass keeps threads awake now.
pub(crate) fn in_progress() -> bool {
    !PASSES.load(Ordering::Relaxed).is_multiple_of(2)
}
