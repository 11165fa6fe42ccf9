//! Memory that is reused from pass to pass, so that neither a training step nor the next forward
//! pass maps and clears memory, with any allocator.
//!
//! It holds no more than the last two passes used, no more than it has handed out, and nothing when
//! a second or two have gone by without a pass.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::threads::huge_pages::room;
use crate::threads::passes;

/// Numbers from which on a buffer is kept: the allocator is fast with less.
pub(crate) const SMALLEST: usize = 4 * 1024;

/// The time without a use after which all memory is given back, and the most until that is noticed.
const IDLE: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Pool {
    /// Passes that recycled something.
    passes: u64,
    /// Unused buffers, and the pass in which they were recycled.
    free: Vec<(Vec<f32>, u64)>,
    /// Buffers that were taken or recycled; unchanged since the last check: the pool is idle.
    uses: u64,
    /// The amount of memory handed out and not yet returned. Other memory isn't kept, so a program
    /// that recycles its own arrays doesn't accumulate them.
    lent: usize,
    /// Whether a thread waits to give the memory back.
    watched: bool,
}

static POOL: Mutex<Pool> = Mutex::new(Pool::new());

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pool {
    const fn new() -> Self {
        Self {
            passes: 0,
            free: Vec::new(),
            uses: 0,
            lent: 0,
            watched: false,
        }
    }

    /// One with room for `n` numbers, or for up to an eighth more; the youngest, which is the
    /// likeliest to be in a cache.
    fn take(&mut self, n: usize) -> Option<Vec<f32>> {
        self.uses += 1;
        let fits = |(free, _): &(Vec<f32>, u64)| (n..=n + n / 8).contains(&free.capacity());
        let at = self.free.iter().rposition(fits)?;
        Some(self.free.remove(at).0)
    }

    fn put(&mut self, buffer: Vec<f32>) {
        self.uses += 1;
        let is_lent = buffer.capacity() <= self.lent;
        self.lent = self.lent.saturating_sub(buffer.capacity());
        if is_lent {
            self.free.push((buffer, self.passes));
        }
    }

    /// Frees memory that this pass and the previous one have not used. Passes that recycled
    /// nothing, such as a weight update, don't count.
    fn end_pass(&mut self) {
        if self.free.iter().any(|&(_, pass)| pass == self.passes) {
            let before = self.passes.saturating_sub(1);
            self.free.retain(|&(_, pass)| pass >= before);
            self.passes += 1;
        }
    }

    /// All buffers, if there were no more uses than at the look before.
    fn unused(&mut self, uses: &mut u64) -> Option<Vec<(Vec<f32>, u64)>> {
        let before = std::mem::replace(uses, self.uses);
        (before == *uses).then(|| {
            self.lent = 0;
            std::mem::take(&mut self.free)
        })
    }
}

/// Call at the end of each pass.
pub(crate) fn end_pass() {
    pool().end_pass();
}

/// A vector with room for `n` numbers, or for up to an eighth more; some of an earlier use may be
/// in it.
pub fn buffer(n: usize) -> Vec<f32> {
    if n < SMALLEST {
        let mut buffer = room(n);
        buffer.truncate(n);
        return buffer;
    }
    let kept = pool().take(n);
    let mut buffer = kept.unwrap_or_else(|| room(n));
    pool().lent += buffer.capacity();
    buffer.truncate(n);
    buffer
}

/// Lets [`buffer`] hand out this memory again.
pub fn recycle(buffer: Vec<f32>) {
    if buffer.capacity() < SMALLEST {
        return;
    }
    let mut pool = pool();
    if !pool.watched {
        let watch = thread::Builder::new().name("buffers".to_owned());
        pool.watched = watch.spawn(give_back_when_idle).is_ok();
    }
    if pool.watched {
        pool.put(buffer);
    }
}

/// Waits until nothing is computed any more, and lets go of all memory.
fn give_back_when_idle() {
    let mut uses = 0;
    loop {
        thread::sleep(IDLE);
        let mut pool = pool();
        if passes::in_progress() {
            continue;
        }
        if let Some(buffers) = pool.unused(&mut uses) {
            pool.watched = false;
            drop(pool); // nobody waits for the system to take the memory
            return drop(buffers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_handed_out_again_for_as_many_numbers_or_a_few_less() {
        const N: usize = 12_345; // which no other test has
        let mut first = buffer(N);
        first.resize(N, 1.0);
        recycle(first);
        let reused = buffer(N - 100);
        assert_eq!((reused.len(), reused.capacity()), (N - 100, N));
        recycle(reused);
        assert_ne!(buffer(N / 2).capacity(), N);
    }

    #[test]
    fn buffers_are_kept_for_two_passes_and_while_something_is_computed() {
        let mut pool = Pool::new();
        let n = |pool: &Pool| pool.free.len();
        pool.put(vec![1.0; 30]);
        assert_eq!(n(&pool), 0, "it was never handed out");
        pool.lent = 50;
        pool.put(vec![1.0; 10]);
        pool.end_pass();
        for _ in 0..3 {
            pool.end_pass(); // which recycled nothing
        }
        pool.put(vec![1.0; 20]);
        pool.end_pass();
        assert_eq!(n(&pool), 2);
        pool.put(vec![1.0; 20]);
        pool.end_pass();
        assert_eq!(n(&pool), 2, "memory unused for two passes is freed");
        let mut uses = 0;
        assert!(pool.unused(&mut uses).is_none());
        pool.take(20);
        assert!(pool.unused(&mut uses).is_none());
        assert_eq!(pool.unused(&mut uses).map(|free| free.len()), Some(1));
        assert_eq!(n(&pool), 0);
    }
}
