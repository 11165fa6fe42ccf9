//! A loop over tasks that all threads share, and counters of such loops, to find loops that can't
//! scale.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::{awake, team};

static LOOPS: AtomicUsize = AtomicUsize::new(0);
static FEWEST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Loops whose work was shared out among threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopCounts {
    /// Their number
    pub loops: usize,
    /// Tasks of the loop with the fewest; `None` without a loop
    pub fewest_tasks: Option<usize>,
}

/// Returns what [`for_each`] has shared out since this was called last, in the whole process.
pub fn loop_counts() -> LoopCounts {
    let fewest = FEWEST.swap(usize::MAX, Ordering::Relaxed);
    LoopCounts {
        loops: LOOPS.swap(0, Ordering::Relaxed),
        fewest_tasks: (fewest < usize::MAX).then_some(fewest),
    }
}

/// Runs `f` on each task, on any free thread of rayon's pool; a single task runs on the calling
/// thread.
///
/// ```
/// let mut numbers = [1, 2, 3, 4, 5];
/// kernels::for_each(numbers.chunks_mut(2).collect(), |part: &mut [i32]| part.reverse());
/// assert_eq!(numbers, [2, 1, 4, 3, 5]);
/// ```
///
/// # Panics
/// If `f` does.
pub fn for_each<T: Send>(tasks: Vec<T>, f: impl Fn(T) + Sync + Send) {
    if tasks.len() <= 1 || rayon::current_num_threads() == 1 {
        return tasks.into_iter().for_each(f);
    }
    let mut tasks = ManuallyDrop::new(tasks);
    let (count, room) = (tasks.len(), tasks.capacity());
    let start = Start(tasks.as_mut_ptr());
    // SAFETY: each index below the count comes once.
    share(count, &|i| f(unsafe { start.take(i) }));
    // SAFETY: the vector's own memory, out of which all tasks have been moved.
    drop(unsafe { Vec::from_raw_parts(start.0, 0, room) });
}

/// Runs the tasks 0 to `count`, each once; compiled once, for tasks of any kind.
fn share(count: usize, run: &(dyn Fn(usize) + Sync)) {
    LOOPS.fetch_add(1, Ordering::Relaxed);
    FEWEST.fetch_min(count, Ordering::Relaxed);
    match awake::is_with_all() {
        true => team::share(count, run),
        // Otherwise rayon makes two tasks per thread, and the first to finish waits for the others.
        false => (0..count).into_par_iter().with_max_len(1).for_each(run),
    }
}

/// The first of some tasks, each of which one thread moves out.
struct Start<T>(*mut T);

// SAFETY: threads share where the tasks are, and each task goes to one of them.
unsafe impl<T: Send> Sync for Start<T> {}

impl<T> Start<T> {
    /// # Safety
    /// The task must be there, and each is taken once.
    unsafe fn take(&self, i: usize) -> T {
        // SAFETY: the caller's promise.
        unsafe { self.0.add(i).read() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::threads::awake::awake;

    #[test]
    fn tasks_that_own_memory_are_each_run_once_in_a_pass_and_without() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build();
        let sum = AtomicUsize::new(0);
        let run = || {
            let tasks: Vec<_> = (0..100).map(|i| vec![i; 3]).collect();
            for_each(tasks, |task| _ = sum.fetch_add(task[2], Ordering::Relaxed));
        };
        pool.expect("three threads").install(|| {
            run();
            awake(run);
        });
        assert_eq!(sum.into_inner(), 2 * 4950);
    }

    #[test]
    fn loops_and_the_fewest_tasks_are_counted() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
        pool.expect("two threads").install(|| {
            for_each(vec![(); 5], drop);
            for_each(vec![(); 3], drop);
        });
        let shared = loop_counts(); // including the loops of other tests
        assert!(
            shared.loops >= 2 && shared.fewest_tasks <= Some(3),
            "{shared:?}"
        );
    }
}
