//! Distribution of the tasks of parallel loops among the threads that [`awake`](fn@super::awake)
//! keeps awake.
//!
//! The thread that starts a loop stores the loop's address in a *slot*. Awake threads poll the
//! slots. When a thread finds a loop, it runs the loop's tasks one after another until none is
//! left.
//!
//! rayon distributes the tasks of a loop by splitting the loop into halves that other threads
//! steal. With 16 threads, this takes longer than running one of a decoder's loops, which are
//! short: for each token, GPT-2 runs about fifty loops, which take about a millisecond in total.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Largest number of loops whose tasks are shared at the same time. If another loop starts while
/// all slots are in use, the thread that starts it runs all of its tasks alone.
const SLOTS: usize = 32;

/// Number of times that a thread checks whether other threads are still running tasks of its loop
/// before it calls `yield_now` once, which lets other processes use the CPU.
const POLLS_PER_YIELD: usize = 64;

static TEAM_SLOTS: [Slot; SLOTS] = [const { Slot::new() }; SLOTS];

/// A value that is aligned to two cache lines, because the CPU fetches lines in pairs. Writing such
/// a value doesn't slow down threads that access neighboring values.
#[repr(align(128))]
struct CachePadded<T>(T);

/// A slot for one loop whose tasks are shared.
struct Slot {
    /// Whether a loop is using this slot.
    used: AtomicBool,
    /// Address of the parallel loop whose tasks other threads can run. It is null if the slot
    /// contains no loop or if all tasks of the loop have been taken.
    tasks: CachePadded<AtomicPtr<Tasks<'static>>>,
    /// Number of threads that may be accessing the loop.
    helpers: CachePadded<AtomicUsize>,
}

struct Tasks<'a> {
    run: &'a (dyn Fn(usize) + Sync),
    count: usize,
    next: CachePadded<AtomicUsize>,
    /// Payload of the first panic in a task.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// Calls `run` once for each index below `count`. The calls are distributed among the calling
/// thread and all threads that call [`help`] in the meantime.
///
/// # Panics
///
/// If a call of `run` panics, this function also panics, but only after all other calls have ended.
pub(crate) fn share(count: usize, run: &(dyn Fn(usize) + Sync)) {
    let tasks = Tasks {
        run,
        count,
        next: CachePadded(AtomicUsize::new(0)),
        panic: Mutex::new(None),
    };
    let free = |slot: &&Slot| !slot.used.swap(true, Ordering::Acquire);
    match slots().find(free) {
        Some(slot) => slot.share(&tasks),
        None => _ = tasks.take(),
    }
    if let Some(panic) = tasks.panic.into_inner().expect("no panic while it is held") {
        resume_unwind(panic);
    }
}

/// Visits each of the slots in which threads publish their parallel loops. If a slot contains a
/// loop, runs tasks of this loop until all of them have been taken by this thread or others.
/// Returns true if this thread has run at least one task.
pub(crate) fn help() -> bool {
    slots().filter(|slot| slot.help()).count() > 0
}

/// Returns an iterator over all slots. The threads of the pool start at different slots, so they
/// help with different loops.
fn slots() -> impl Iterator<Item = &'static Slot> {
    let first = rayon::current_thread_index().unwrap_or(0);
    (first..first + SLOTS).map(|i| &TEAM_SLOTS[i % SLOTS])
}

impl Slot {
    const fn new() -> Self {
        Self {
            used: AtomicBool::new(false),
            tasks: CachePadded(AtomicPtr::new(null_mut())),
            helpers: CachePadded(AtomicUsize::new(0)),
        }
    }

    /// Runs all tasks of a loop with the help of other threads, waits until these threads have
    /// finished, and frees the slot.
    fn share(&self, tasks: &Tasks<'_>) {
        let shared = (&raw const *tasks).cast::<Tasks<'static>>();
        self.tasks.0.store(shared.cast_mut(), Ordering::SeqCst);
        tasks.take();
        self.tasks.0.store(null_mut(), Ordering::SeqCst);
        // The thread that started the loop must not leave this method while another thread (a
        // helper) is still running one of the loop's tasks, so it waits until `helpers` is 0. A
        // helper increments this counter before it reads the address of the loop, so no helper is
        // missed.
        for poll in 1.. {
            if self.helpers.0.load(Ordering::SeqCst) == 0 {
                break;
            }
            match poll % POLLS_PER_YIELD {
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
        self.used.store(false, Ordering::Release);
    }

    /// Runs tasks of the loop in this slot, if there is one. Returns whether this thread has run
    /// any task.
    fn help(&self) -> bool {
        if self.tasks.0.load(Ordering::Relaxed).is_null() {
            return false;
        }
        self.helpers.0.fetch_add(1, Ordering::SeqCst);
        let tasks = self.tasks.0.load(Ordering::SeqCst);
        // SAFETY: The loop that `tasks` points to is valid until this thread decrements `helpers`.
        // The reason is that this thread incremented `helpers` before it read the address, whereas
        // the thread that owns the loop first removes the address from the slot and then waits
        // until `helpers` is 0.
        let helped = unsafe { tasks.as_ref() }.is_some_and(Tasks::take);
        self.helpers.0.fetch_sub(1, Ordering::SeqCst);
        helped
    }
}

impl Tasks<'_> {
    /// Runs tasks of this parallel loop, one after another, until none is left. Several threads
    /// call this method at the same time, and each task is run by only one of them. Returns whether
    /// the calling thread has run any task.
    fn take(&self) -> bool {
        let mut helped = false;
        loop {
            let task = self.next.0.fetch_add(1, Ordering::Relaxed);
            if task >= self.count {
                return helped;
            }
            helped = true;
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| (self.run)(task))) {
                let mut first = self.panic.lock().expect("no panic while it is held");
                first.get_or_insert(panic);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::array::from_fn;
    use std::sync::atomic::AtomicU32;
    use std::thread;

    use super::*;

    /// Runs `work` while `threads` other threads call [`help`] repeatedly.
    fn with_help(threads: usize, work: impl FnOnce() + Send) {
        let ended = AtomicBool::new(false);
        thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while !ended.load(Ordering::Acquire) {
                        help();
                        thread::yield_now();
                    }
                });
            }
            let done = catch_unwind(AssertUnwindSafe(work));
            ended.store(true, Ordering::Release);
            done.unwrap_or_else(|panic| resume_unwind(panic));
        });
    }

    #[test]
    fn each_task_runs_once_also_of_loops_inside_and_beside_each_other() {
        let counts: [[AtomicU32; 7]; 5] = Default::default();
        let rounds = if cfg!(miri) { 3 } else { 500 };
        with_help(3, || {
            thread::scope(|scope| {
                for outer in &counts {
                    scope.spawn(move || {
                        for _ in 0..rounds {
                            share(outer.len(), &|i| {
                                share(3, &|_| _ = outer[i].fetch_add(1, Ordering::Relaxed));
                            });
                        }
                    });
                }
            });
        });
        let counts = counts.map(|outer| outer.map(AtomicU32::into_inner));
        assert_eq!(counts, from_fn(|_| [3 * rounds; 7]));
    }

    #[test]
    fn what_tasks_write_is_there_when_the_loop_is_over() {
        let numbers: [AtomicU32; 64] = from_fn(|_| AtomicU32::new(0));
        with_help(2, || {
            for round in 1..=if cfg!(miri) { 3 } else { 200 } {
                share(64, &|i| numbers[i].store(round, Ordering::Relaxed));
                assert!(numbers.iter().all(|n| n.load(Ordering::Relaxed) == round));
            }
        });
    }

    #[test]
    fn a_panic_reaches_the_loops_thread_after_all_tasks() {
        let ran = AtomicU32::new(0);
        let result = catch_unwind(AssertUnwindSafe(|| {
            with_help(2, || {
                share(20, &|i| {
                    ran.fetch_add(1, Ordering::Relaxed);
                    assert!(i != 3, "on purpose");
                });
            });
        }));
        assert_eq!(
            result.unwrap_err().downcast_ref::<&str>(),
            Some(&"on purpose")
        );
        assert_eq!(ran.into_inner(), 20);
    }

    #[test]
    fn more_loops_than_slots_are_done_all_the_same() {
        fn nested(depth: usize, ran: &AtomicU32) {
            ran.fetch_add(1, Ordering::Relaxed);
            if depth > 0 {
                share(1, &|_| nested(depth - 1, ran));
            }
        }
        let ran = AtomicU32::new(0);
        nested(SLOTS + 5, &ran);
        assert_eq!(ran.into_inner() as usize, SLOTS + 6);
    }
}
