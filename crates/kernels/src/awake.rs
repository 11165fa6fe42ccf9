//! A pass inside rayon's pool whose threads stay awake from one operation to the next.
//!
//! A model's pass is hundreds of short parallel loops, and a thread that fell asleep between two of them takes longer to wake than a small product takes.
//! What is computed doesn't change.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rayon::Yield;

/// After so long without work, threads sleep as rayon has them do.
const PATIENCE: Duration = Duration::from_millis(5);

/// Whether some pass keeps threads awake; one inside it, or beside it, does without.
static AWAKE: AtomicBool = AtomicBool::new(false);

thread_local! {
    /// Whether this thread keeps others awake, or is kept awake itself.
    /// Waiting for them to end, it takes up other work; if a pass among that waited for them again, passes would pile up on its stack.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `pass` on a thread of the pool, while the other threads look for its work without sleeping.
pub fn awake<R: Send>(pass: impl FnOnce() -> R + Send) -> R {
    /// Ends the waiting, also if the pass panics.
    struct Done<'a>(&'a AtomicBool);
    impl Drop for Done<'_> {
        fn drop(&mut self) {
            self.0.store(true, Ordering::Release);
            AWAKE.store(false, Ordering::Release);
        }
    }
    struct Inside;
    impl Drop for Inside {
        fn drop(&mut self) {
            INSIDE.set(false);
        }
    }

    rayon::scope(|_| {
        let alone = rayon::current_num_threads() == 1;
        if alone || INSIDE.get() || AWAKE.swap(true, Ordering::Acquire) {
            return pass();
        }
        INSIDE.set(true);
        let _inside = Inside;
        let over = AtomicBool::new(false);
        rayon::scope(|scope| {
            let _done = Done(&over);
            scope.spawn_broadcast(|_, _| {
                if !INSIDE.replace(true) {
                    let _inside = Inside;
                    wait_for_work(&over);
                }
            });
            pass()
        })
    })
}

/// Does what work there is, until it is over or there has been none for a while.
fn wait_for_work(over: &AtomicBool) {
    let mut idle_since = Instant::now();
    while !over.load(Ordering::Acquire) {
        if rayon::yield_now() == Some(Yield::Executed) {
            idle_since = Instant::now();
            continue;
        }
        (0..64).for_each(|_| std::hint::spin_loop());
        if idle_since.elapsed() > PATIENCE {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicUsize;

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
    fn a_panic_lets_the_threads_go() {
        let result = std::panic::catch_unwind(|| awake(|| panic!("on purpose")));
        assert!(result.is_err());
        assert_eq!(awake(|| 7), 7);
    }
}
