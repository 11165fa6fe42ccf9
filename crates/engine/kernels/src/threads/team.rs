//! The loops of a pass, shared out among its awake threads: one that looks for work finds a loop in
//! a place and takes its tasks one by one.
//!
//! rayon cuts a loop in halves that threads steal from each other, which among 16 threads takes
//! longer than a loop of a token: fifty of them make a token of GPT-2 in a millisecond.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// The most loops shared at the same time; another one runs on its calling thread alone.
const PLACES: usize = 32;

/// Looks at whether the helpers are done, between which their processors go to other programs.
const LOOKS: usize = 64;

static TEAM: [Place; PLACES] = [const { Place::new() }; PLACES];

/// Two cache lines, which are fetched together, for one value.
#[repr(align(128))]
struct CachePadded<T>(T);

/// Where a loop stands while its tasks are taken.
struct Place {
    /// Whether a loop that is not over has this place.
    used: AtomicBool,
    /// The loop, as long as it has tasks that no thread has taken.
    tasks: CachePadded<AtomicPtr<Tasks<'static>>>,
    /// Threads that may be reading the loop.
    helpers: CachePadded<AtomicUsize>,
}

struct Tasks<'a> {
    run: &'a (dyn Fn(usize) + Sync),
    count: usize,
    next: CachePadded<AtomicUsize>,
    /// Of the first task that panicked.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// Runs the tasks 0 to `count`, each once, on this thread and on those that [`help`].
///
/// # Panics
/// If a task does; all have been run then.
pub(crate) fn share(count: usize, run: &(dyn Fn(usize) + Sync)) {
    let tasks = Tasks {
        run,
        count,
        next: CachePadded(AtomicUsize::new(0)),
        panic: Mutex::new(None),
    };
    let free = |place: &&Place| !place.used.swap(true, Ordering::Acquire);
    match places().find(free) {
        Some(place) => place.share(&tasks),
        None => _ = tasks.take(),
    }
    if let Some(panic) = tasks.panic.into_inner().expect("no panic while it is held") {
        resume_unwind(panic);
    }
}

/// Takes tasks of the loops that there are; true if there was one.
pub(crate) fn help() -> bool {
    places().filter(|place| place.help()).count() > 0
}

/// All places, from one on that is another for each thread.
fn places() -> impl Iterator<Item = &'static Place> {
    let first = rayon::current_thread_index().unwrap_or(0);
    (first..first + PLACES).map(|i| &TEAM[i % PLACES])
}

impl Place {
    const fn new() -> Self {
        Self {
            used: AtomicBool::new(false),
            tasks: CachePadded(AtomicPtr::new(null_mut())),
            helpers: CachePadded(AtomicUsize::new(0)),
        }
    }

    /// Runs tasks with the help of others, and leaves the place free.
    fn share(&self, tasks: &Tasks<'_>) {
        let shared = (&raw const *tasks).cast::<Tasks<'static>>();
        self.tasks.0.store(shared.cast_mut(), Ordering::SeqCst);
        tasks.take();
        self.tasks.0.store(null_mut(), Ordering::SeqCst);
        // A helper that has found the loop has registered before.
        for look in 1.. {
            if self.helpers.0.load(Ordering::SeqCst) == 0 {
                break;
            }
            match look % LOOKS {
                0 => std::thread::yield_now(),
                _ => std::hint::spin_loop(),
            }
        }
        self.used.store(false, Ordering::Release);
    }

    /// Takes tasks of the loop in this place, if there is one; true if it had some left.
    fn help(&self) -> bool {
        if self.tasks.0.load(Ordering::Relaxed).is_null() {
            return false;
        }
        self.helpers.0.fetch_add(1, Ordering::SeqCst);
        let tasks = self.tasks.0.load(Ordering::SeqCst);
        // SAFETY: a loop is taken out of its place before its thread waits until no helper is
        // registered, and this one was before it found the loop.
        let helped = unsafe { tasks.as_ref() }.is_some_and(Tasks::take);
        self.helpers.0.fetch_sub(1, Ordering::SeqCst);
        helped
    }
}

impl Tasks<'_> {
    /// Runs tasks until all are taken; true if there was one.
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

    /// Threads help until `work` is done.
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
    fn more_loops_than_places_are_done_all_the_same() {
        fn nested(depth: usize, ran: &AtomicU32) {
            ran.fetch_add(1, Ordering::Relaxed);
            if depth > 0 {
                share(1, &|_| nested(depth - 1, ran));
            }
        }
        let ran = AtomicU32::new(0);
        nested(PLACES + 5, &ran);
        assert_eq!(ran.into_inner() as usize, PLACES + 6);
    }
}
