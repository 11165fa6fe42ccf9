//! A pass inside rayon's pool, whose threads stay awake from one operation to the next, and for
//! some milliseconds after the last.
//!
//! A model's pass is hundreds of short parallel loops in quick succession, and waking a sleeping
//! thread takes longer than a small product. Results don't change.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rayon::Yield;

use super::{buffers, team};
use crate::threads::passes::PASSES;

/// Number of times that a thread polls for loops of the team before it tries once to steal a job
/// from rayon's queues.
const POLLS_PER_STEAL: usize = 8;

/// Time without work after which a thread stops polling. It then behaves as any thread of rayon: it
/// sleeps, or returns to the job that it interrupted to look for work.
const IDLE_TIMEOUT: Duration = Duration::from_millis(5);

/// Time between two polls beyond which a thread assumes that the system preempted it because other
/// processes are competing for the CPUs. A polling thread that has to wait for its turn among them
/// starts later than a sleeping thread that is woken.
const PREEMPTED_AFTER: Duration = Duration::from_micros(200);

/// Number of passes after a preemption during which no thread keeps polling once a pass has ended.
const PASSES_AFTER_PREEMPTION: usize = 512;

/// Value of [`PASSES`] until which threads don't keep polling, because of a preemption.
static NO_POLLING_UNTIL: AtomicUsize = AtomicUsize::new(0);

/// Threads that look for work.
static LOOKING: AtomicUsize = AtomicUsize::new(0);

/// Calls to stay awake that no thread has answered yet, because all are busy or blocked.
static UNANSWERED: AtomicUsize = AtomicUsize::new(0);

/// The most unanswered calls, with which threads are not called any more: those that are blocked
/// for good would collect them.
const MAX_UNANSWERED: usize = 10_000;

thread_local! {
    /// Whether this thread runs a pass or looks for work of one.
    /// It takes up other work while it waits; if a pass among that waited as well, passes would
    /// pile up on its stack.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `pass` on a thread of the pool while the other threads look for its work without sleeping.
/// They continue for 5 ms after it, unless other programs want the processors. They start
/// immediately on tasks of [`for_each`](crate::for_each).
///
/// It waits for no thread that is busy with something else.
pub fn awake<R: Send>(pass: impl FnOnce() -> R + Send) -> R {
    if INSIDE.get() {
        return pass();
    }
    let from_outside = rayon::current_thread_index().is_none();
    rayon::scope(|_| {
        let Some(this) = begin() else { return pass() };
        let own = rayon::current_thread_index();
        let _over = OnDrop(|| {
            PASSES.fetch_add(1, Ordering::Release);
            buffers::end_pass();
            if from_outside {
                // This thread's next work is the caller's next pass.
                call_threads(move |index| {
                    if Some(index) == own {
                        look_for_work(this);
                    }
                });
            }
        });
        INSIDE.set(true);
        let _outside = OnDrop(|| INSIDE.set(false));
        call_threads(move |index| {
            // A thread that was busy all the time may return to its own waiting job.
            if Some(index) != own && PASSES.load(Ordering::Acquire) == this {
                look_for_work(this);
            }
        });
        pass()
    })
}

/// True if this thread runs a pass or looks for work of one, and all others look for it as well.
pub(crate) fn is_with_all() -> bool {
    INSIDE.get() && LOOKING.load(Ordering::Relaxed) + 1 >= rayon::current_num_threads()
}

/// The number of a pass that begins to keep threads awake, unless another does already.
fn begin() -> Option<usize> {
    let before = PASSES.load(Ordering::Relaxed);
    let begun = before.is_multiple_of(2)
        && (PASSES.compare_exchange(before, before + 1, Ordering::Acquire, Ordering::Relaxed))
            .is_ok();
    begun.then_some(before + 1)
}

/// Has all threads of the pool run `look` with their index, as soon as they have nothing else to
/// do.
fn call_threads(look: impl Fn(usize) + Send + Sync + 'static) {
    let threads = rayon::current_num_threads();
    if threads == 1 || UNANSWERED.load(Ordering::Relaxed) >= MAX_UNANSWERED {
        return;
    }
    UNANSWERED.fetch_add(threads, Ordering::Relaxed);
    rayon::spawn_broadcast(move |thread| {
        UNANSWERED.fetch_sub(1, Ordering::Relaxed);
        if !INSIDE.replace(true) {
            LOOKING.fetch_add(1, Ordering::Relaxed);
            let _outside = OnDrop(|| {
                LOOKING.fetch_sub(1, Ordering::Relaxed);
                INSIDE.set(false);
            });
            look(thread.index());
        }
    });
}

/// Runs when it is dropped, also in a panic.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Does the work of a pass until another pass begins, which calls this function again, or until
/// there was no work for a while.
fn look_for_work(pass: usize) {
    let mut idle_since = Instant::now();
    let mut last_look = idle_since;
    loop {
        let ended = match PASSES.load(Ordering::Acquire) {
            now if now == pass => false,
            now if now == pass + 1 => true,
            _ => return,
        };
        if ended && pass < NO_POLLING_UNTIL.load(Ordering::Relaxed) {
            return;
        }
        let helped = (0..POLLS_PER_STEAL).any(|_| {
            std::hint::spin_loop();
            team::help()
        });
        if helped || rayon::yield_now() == Some(Yield::Executed) {
            idle_since = Instant::now();
            last_look = idle_since;
            continue;
        }
        let now = Instant::now();
        if ended && now - last_look > PREEMPTED_AFTER {
            NO_POLLING_UNTIL.store(pass + 2 * PASSES_AFTER_PREEMPTION, Ordering::Relaxed);
            return;
        }
        last_look = now;
        if now - idle_since > IDLE_TIMEOUT {
            return;
        }
        if ended {
            std::thread::yield_now();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;

    use rayon::prelude::*;

    use super::*;

    #[test]
    fn passes_inside_and_beside_each_other_end_with_their_results() {
        let sum = |n: u64| awake(|| (0..n).into_par_iter().map(|i| awake(|| i)).sum::<u64>());
        let sums: Vec<u64> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| sum(1000))).collect();
            threads
                .into_iter()
                .map(|t| t.join().expect("no panic"))
                .collect()
        });
        assert_eq!(sums, [499_500; 4]);
    }

    #[test]
    fn passes_do_not_pile_up_on_a_thread_while_another_is_busy() {
        const PASSES: usize = 1000;
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
        let (busy, passes) = (AtomicBool::new(false), AtomicUsize::new(0));
        let (lowest, highest) = (AtomicUsize::new(usize::MAX), AtomicUsize::new(0));
        let pass = |local: u8| {
            let depth = (&raw const local).addr(); // in the thread's stack
            lowest.fetch_min(depth, Ordering::Relaxed);
            highest.fetch_max(depth, Ordering::Relaxed);
            passes.fetch_add(1, Ordering::Relaxed);
        };
        pool.expect("two threads").scope(|scope| {
            scope.spawn(|_| {
                busy.store(true, Ordering::Relaxed);
                while passes.load(Ordering::Relaxed) < PASSES {
                    std::hint::spin_loop();
                }
            });
            while !busy.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
            let tasks = (0..PASSES).into_par_iter().with_max_len(1);
            tasks.for_each(|_| awake(|| pass(0)));
        });
        let depth = highest.into_inner() - lowest.into_inner();
        assert!(depth < 256 << 10, "{depth} bytes of the stack");
    }

    #[test]
    fn a_pass_does_not_wait_for_a_thread_that_waits_for_it() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build();
        let (pass_over, blocked) = mpsc::channel();
        let (begins, begun) = mpsc::channel();
        let sum = pool.expect("three threads").scope(move |scope| {
            scope.spawn(move |_| {
                begins.send(()).expect("the other task waits");
                blocked.recv().expect("the pass ends");
            });
            begun.recv().expect("the other task begins");
            let sum: u64 = awake(|| (0..1000u64).into_par_iter().sum());
            pass_over.send(()).expect("the other task still waits");
            sum
        });
        assert_eq!(sum, 499_500);
    }

    #[test]
    fn a_thread_that_is_called_in_the_middle_of_a_job_goes_back_to_it() {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build();
        let pool = pool.expect("two threads");
        // True if the pass called the thread, which happens unless another test's pass is in
        // progress.
        let called_in_a_job = || {
            let [begun, in_pass, called, done] = [const { AtomicBool::new(false) }; 4];
            let wait_for = |flag: &AtomicBool| {
                while !flag.load(Ordering::Acquire) {
                    std::hint::spin_loop();
                }
            };
            pool.scope(|scope| {
                scope.spawn(|_| {
                    begun.store(true, Ordering::Release);
                    wait_for(&in_pass);
                    let executed = rayon::yield_local() == Some(Yield::Executed);
                    called.store(executed, Ordering::Relaxed);
                    done.store(true, Ordering::Release);
                });
                wait_for(&begun);
                awake(|| {
                    in_pass.store(true, Ordering::Release);
                    wait_for(&done);
                });
            });
            called.into_inner()
        };
        let rounds = 0..1000;
        assert!(
            rounds
                .map(|_| std::thread::sleep(IDLE_TIMEOUT))
                .any(|()| called_in_a_job())
        );
    }

    #[test]
    fn a_panic_lets_the_threads_go() {
        let result = std::panic::catch_unwind(|| awake(|| panic!("on purpose")));
        assert!(result.is_err());
        assert_eq!(awake(|| 7), 7);
    }
}
