//! How work is shared out among threads, counted for whoever looks for what can't scale.

use std::sync::atomic::{AtomicUsize, Ordering};

static LOOPS: AtomicUsize = AtomicUsize::new(0);
static FEWEST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Loops whose work was shared out among threads.
///
/// ```
/// kernels::count_tasks(5);
/// kernels::count_tasks(3);
/// let shared = kernels::shared_out();
/// assert_eq!((shared.loops, shared.fewest_tasks), (2, Some(3)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedOut {
    /// Their number
    pub loops: usize,
    /// Tasks of the loop with the fewest; `None` without a loop
    pub fewest_tasks: Option<usize>,
}

/// Counts a loop of so many tasks; one alone is not shared out.
pub fn count_tasks(tasks: usize) {
    if tasks > 1 {
        LOOPS.fetch_add(1, Ordering::Relaxed);
        FEWEST.fetch_min(tasks, Ordering::Relaxed);
    }
}

/// Returns what was shared out since it was called last, in the whole process.
pub fn shared_out() -> SharedOut {
    let fewest = FEWEST.swap(usize::MAX, Ordering::Relaxed);
    SharedOut {
        loops: LOOPS.swap(0, Ordering::Relaxed),
        fewest_tasks: (fewest < usize::MAX).then_some(fewest),
    }
}
