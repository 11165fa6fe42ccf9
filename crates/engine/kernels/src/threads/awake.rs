//! The function `awake`, which keeps rayon's threads awake while it runs a pass, such as the
//! forward pass of a model.
//!
//! A pass consists of hundreds of short parallel loops in quick succession. Waking a sleeping
//! thread takes longer than computing a small matrix product. Between the loops, and for a few
//! milliseconds after the pass, the threads therefore poll for work instead of sleeping. Polling
//! doesn't change the results of the computation.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rayon::Yield;

use super::{buffers, team};
use crate::threads::passes::PASSES;

/// How often an idle thread checks for a parallel loop of this crate before it tries to steal a job
/// from rayon's queues. It tries to steal once after every `POLLS_PER_STEAL` checks.
const POLLS_PER_STEAL: usize = 8;

/// Time without work after which a thread stops polling. It then behaves like any other thread of
/// rayon: it sleeps, or it returns to the job that it interrupted to look for work.
const IDLE_TIMEOUT: Duration = Duration::from_millis(5);

/// Longest time between two polls that a thread regards as normal. If more time passes, the thread
/// assumes that the operating system has preempted it because other processes are competing for the
/// CPUs. Polling is then a disadvantage, because a preempted thread has to wait for its turn and
/// starts later than a sleeping thread that is woken.
const PREEMPTED_AFTER: Duration = Duration::from_micros(200);

/// Number of passes for which polling between passes is suspended after the operating system has
/// preempted a polling thread. The threads then still poll for work while a pass, such as the
/// forward pass of a model, is in progress, but they stop polling as soon as it ends.
const PASSES_AFTER_PREEMPTION: usize = 512;

/// Value that the counter [`PASSES`] must reach before threads resume polling for work between
/// passes. When the operating system preempts a polling thread, this variable is set to the value
/// that the counter will have after [`PASSES_AFTER_PREEMPTION`] more passes. Until then, polling
/// between passes is suspended.
static NO_POLLING_UNTIL: AtomicUsize = AtomicUsize::new(0);

/// Number of threads that are polling for work.
static POLLING_THREADS: AtomicUsize = AtomicUsize::new(0);

/// Number of requests to which threads of rayon's pool haven't responded yet, because they are busy
/// or blocked. Each request asks one thread to stay awake and poll for the work of a pass.
static UNANSWERED_CALLS: AtomicUsize = AtomicUsize::new(0);

/// Number of unanswered requests at which `call_threads` stops making new ones. Without this limit,
/// requests to threads that are blocked forever would accumulate.
const MAX_UNANSWERED_CALLS: usize = 10_000;

thread_local! {
    /// Whether this thread is running a pass or polling for the work of a pass. If another pass
    /// begins on such a thread, the inner pass runs without asking other threads to poll. Passes
    /// can be nested in this way because a waiting thread may execute other jobs, which may contain
    /// passes. If the inner passes also waited and executed further jobs, the calls would be nested
    /// deeper and deeper on the thread's stack.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `pass` on a thread of rayon's pool and returns its result. Meanwhile, the other threads of
/// the pool poll for work instead of sleeping, so they can start running tasks of
/// [`for_each`](crate::for_each) immediately.
///
/// The threads keep polling for 5 ms after the pass, unless other processes are competing for the
/// CPUs. A pass never waits for a thread that is busy with another job. A pass inside another pass,
/// or concurrent with one, computes the same result but doesn't wake any threads.
pub fn awake<R: Send>(pass: impl FnOnce() -> R + Send) -> R {
    if INSIDE.get() {
        return pass();
    }
    let from_outside = rayon::current_thread_index().is_none();
    rayon::scope(|_| {
        let Some(this) = begin() else { return pass() };
        let own_index = rayon::current_thread_index();
        let _over = OnDrop(|| {
            PASSES.fetch_add(1, Ordering::Release);
            buffers::end_pass();
            if from_outside {
                // The pass was started by a thread outside of the pool, so rayon ran it on one of
                // the pool's threads. This pool thread has nothing to do until the next pass
                // begins, so it also polls for work in the meantime.
                call_threads(move |index| {
                    if Some(index) == own_index {
                        look_for_work(this);
                    }
                });
            }
        });
        INSIDE.set(true);
        let _outside = OnDrop(|| INSIDE.set(false));
        call_threads(move |index| {
            // A thread may respond to the request so late that the pass has already ended. It then
            // doesn't look for work, because it may have interrupted another job, to which it
            // should return immediately.
            if Some(index) != own_index && PASSES.load(Ordering::Acquire) == this {
                look_for_work(this);
            }
        });
        pass()
    })
}

/// Returns true if this thread and all other threads of rayon's pool are taking part in a pass.
/// This means that one of them is running the pass and the others are polling for work.
pub(crate) fn is_with_all() -> bool {
    INSIDE.get() && POLLING_THREADS.load(Ordering::Relaxed) + 1 >= rayon::current_num_threads()
}

/// Begins a pass that keeps threads awake, and returns the new value of the counter [`PASSES`].
/// Returns `None` if another such pass is already in progress.
fn begin() -> Option<usize> {
    let before = PASSES.load(Ordering::Relaxed);
    let begun = before.is_multiple_of(2)
        && (PASSES.compare_exchange(before, before + 1, Ordering::Acquire, Ordering::Relaxed))
            .is_ok();
    begun.then_some(before + 1)
}

/// Asks each thread of rayon's pool to call `look` with the thread's index as soon as the thread
/// has no other work. This is how a pass keeps the threads awake: `look` polls for work.
fn call_threads(look: impl Fn(usize) + Send + Sync + 'static) {
    let threads = rayon::current_num_threads();
    if threads == 1 || UNANSWERED_CALLS.load(Ordering::Relaxed) >= MAX_UNANSWERED_CALLS {
        return;
    }
    UNANSWERED_CALLS.fetch_add(threads, Ordering::Relaxed);
    rayon::spawn_broadcast(move |thread| {
        UNANSWERED_CALLS.fetch_sub(1, Ordering::Relaxed);
        if !INSIDE.replace(true) {
            POLLING_THREADS.fetch_add(1, Ordering::Relaxed);
            let _outside = OnDrop(|| {
                POLLING_THREADS.fetch_sub(1, Ordering::Relaxed);
                INSIDE.set(false);
            });
            look(thread.index());
        }
    });
}

/// A guard that calls a function when it is dropped, including when a panic unwinds the stack.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Polls for tasks of the given pass, such as the forward pass of a model, and runs them. This is
/// what the threads that help with a pass do instead of sleeping. Returns when there has been no
/// work for [`IDLE_TIMEOUT`], or when another pass begins, because that pass asks the threads
/// again. Once the given pass has ended, this function also returns if a thread has recently been
/// preempted.
fn look_for_work(pass: usize) {
    let mut idle_since = Instant::now();
    let mut last_poll = idle_since;
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
            last_poll = idle_since;
            continue;
        }
        let now = Instant::now();
        if ended && now - last_poll > PREEMPTED_AFTER {
            NO_POLLING_UNTIL.store(pass + 2 * PASSES_AFTER_PREEMPTION, Ordering::Relaxed);
            return;
        }
        last_poll = now;
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
            // This test checks that passes don't nest deeper and deeper on a thread's stack while
            // the other thread is busy. The address of this local variable shows how much of its
            // stack the thread is using.
            let depth = (&raw const local).addr();
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
        // Begins a pass (a call of `awake`) while the pool's other thread is busy with a job, and
        // returns whether that thread joined the pass before it finished its job. A single attempt
        // may fail by chance: while the pass of another test is in progress, a new pass doesn't
        // call any threads.
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
