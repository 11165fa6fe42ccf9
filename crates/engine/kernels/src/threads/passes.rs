//! A counter of the beginnings and ends of passes, such as the forward passes of a model. Its value
//! is odd while a pass is in progress.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Number of passes that have begun plus the number of passes that have ended. It is therefore odd
/// while a pass is in progress.
///
/// Only one pass at a time keeps threads awake and is counted. If another pass runs inside this
/// pass, or at the same time on another thread, the counter doesn't change.
pub(crate) static PASSES: AtomicUsize = AtomicUsize::new(0);

/// Returns whether a pass that keeps threads awake is in progress.
pub(crate) fn in_progress() -> bool {
    !PASSES.load(Ordering::Relaxed).is_multiple_of(2)
}
