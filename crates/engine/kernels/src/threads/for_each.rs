//! Parallel loops over tasks, and counters that help to find loops with too few tasks.

use std::mem::ManuallyDrop;
use std::sync::atomic::{AtomicUsize, Ordering};

use rayon::prelude::*;

use super::{awake, team};

static LOOPS: AtomicUsize = AtomicUsize::new(0);
static FEWEST: AtomicUsize = AtomicUsize::new(usize::MAX);

/// Statistics about the parallel loops that [`for_each`] has run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoopCounts {
    /// Number of loops whose tasks were distributed among several threads.
    pub loops: usize,
    /// The smallest number of tasks in any of the counted loops, or `None` if no loops were
    /// counted. If this number is smaller than the number of threads, some of the threads had
    /// nothing to do in that loop.
    pub fewest_tasks: Option<usize>,
}

/// Returns statistics about the loops that [`for_each`] has run on several threads since the
/// previous call of `loop_counts`, and resets the counters. The whole process shares the same
/// counters.
pub fn loop_counts() -> LoopCounts {
    let fewest = FEWEST.swap(usize::MAX, Ordering::Relaxed);
    LoopCounts {
        loops: LOOPS.swap(0, Ordering::Relaxed),
        fewest_tasks: (fewest < usize::MAX).then_some(fewest),
    }
}

/// Calls `f` once for each task on the threads of rayon's pool and waits until all calls have
/// returned. If there is only one task or one thread, all calls happen on the calling thread.
///
/// ```
/// let mut numbers = [1, 2, 3, 4, 5];
/// kernels::for_each(numbers.chunks_mut(2).collect(), |part: &mut [i32]| part.reverse());
/// assert_eq!(numbers, [2, 1, 4, 3, 5]);
/// ```
///
/// # Panics
///
/// Panics if a call of `f` panics.
pub fn for_each<T: Send>(tasks: Vec<T>, f: impl Fn(T) + Sync + Send) {
    if tasks.len() <= 1 || rayon::current_num_threads() == 1 {
        return tasks.into_iter().for_each(f);
    }
    let mut tasks = ManuallyDrop::new(tasks);
    let (count, room) = (tasks.len(), tasks.capacity());
    let start = Start(tasks.as_mut_ptr());
    // SAFETY: `share` calls this function once for each index below `count`.
    share(count, &|i| f(unsafe { start.take(i) }));
    // SAFETY: `start.0` and `room` are the pointer and the capacity of the original vector of
    // tasks. The length is 0 because all tasks have been moved out, so only the memory of the
    // vector is freed.
    drop(unsafe { Vec::from_raw_parts(start.0, 0, room) });
}

/// Runs a parallel loop: calls `run` once for each index below `count`, using several threads. This
/// part of [`for_each`] isn't generic, so it is compiled only once and not for each type of task.
fn share(count: usize, run: &(dyn Fn(usize) + Sync)) {
    LOOPS.fetch_add(1, Ordering::Relaxed);
    FEWEST.fetch_min(count, Ordering::Relaxed);
    match awake::is_with_all() {
        true => team::share(count, run),
        // With a maximum length of 1, rayon makes each task a separate job. Otherwise, it would
        // combine the tasks into about two jobs per thread, and threads that finish early would
        // have to wait for the others.
        false => (0..count).into_par_iter().with_max_len(1).for_each(run),
    }
}

/// The address of the first task in a parallel loop's list of tasks. The threads share this
/// address, and each task is moved out of the list by exactly one of them.
struct Start<T>(*mut T);

// SAFETY: Threads share only the address. Each task is moved to a single thread, for which `T:
// Send` is sufficient.
unsafe impl<T: Send> Sync for Start<T> {}

impl<T> Start<T> {
    /// Moves out the task with the index `i`.
    ///
    /// # Safety
    ///
    /// A task with the index `i` must exist in the list, and this method must not be called more
    /// than once for the same index, because the task would then be moved out twice.
    unsafe fn take(&self, i: usize) -> T {
        // SAFETY: The caller guarantees that the task with the index `i` exists and hasn't been
        // moved out of the list yet.
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
        let shared = loop_counts(); // The counters include the loops of other tests.
        assert!(
            shared.loops >= 2 && shared.fewest_tasks <= Some(3),
            "{shared:?}"
        );
    }
}
