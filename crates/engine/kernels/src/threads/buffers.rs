//! A pool of buffers, which lets each pass reuse the memory of the previous passes.
//!
//! Without the pool, each training step would ask the operating system for new memory, which the
//! system has to map and clear. The pool works with any allocator. It contains only buffers that
//! were used in the last two passes, and never more memory than it has handed out. One or two
//! seconds after the last pass, it frees all of its memory.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::threads::huge_pages::room;
use crate::threads::passes;

/// Smallest number of values in a buffer that the pool keeps. Smaller buffers are freed, because
/// allocating new ones is fast.
pub(crate) const SMALLEST: usize = 4 * 1024;

/// Interval at which a thread checks whether the pool is idle. If no buffer has been taken or
/// recycled since the previous check, the memory of the pool is freed.
const IDLE: Duration = Duration::from_secs(1);

#[derive(Debug)]
struct Pool {
    /// Number of passes so far in which buffers were recycled.
    passes: u64,
    /// Buffers that are free to be handed out again. Each is stored with the value that `passes`
    /// had when the buffer was recycled, so that buffers that haven't been used for two passes can
    /// be freed.
    free: Vec<(Vec<f32>, u64)>,
    /// Number of buffers that have been taken or recycled so far. If this number hasn't changed
    /// since the last check, the pool is idle.
    uses: u64,
    /// Number of values in buffers that have been handed out and not yet recycled. The pool takes
    /// back at most this many values, so it doesn't keep growing if a program also recycles arrays
    /// that don't come from the pool.
    lent: usize,
    /// Whether a background thread is running that waits until the pool is idle and then frees the
    /// pool's memory.
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

    /// Takes a buffer with a capacity between `n` and `n + n / 8` out of the pool and returns it.
    /// Returns `None` if there is no such buffer. If there are several, the most recently recycled
    /// buffer is returned, because it is the most likely one to be in a cache.
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

    /// Ends a pass by freeing the buffers that were used neither in this pass nor in the previous
    /// one. A pass that recycles no buffers, such as one that only updates the weights, isn't
    /// counted.
    fn end_pass(&mut self) {
        if self.free.iter().any(|&(_, pass)| pass == self.passes) {
            let before = self.passes.saturating_sub(1);
            self.free.retain(|&(_, pass)| pass >= before);
            self.passes += 1;
        }
    }

    /// If the pool is idle, removes all free buffers from it and returns them. Otherwise, returns
    /// `None`. The pool is idle if its number of uses still equals `uses`, which means that no
    /// buffer has been taken or recycled since the previous call. Each call stores the current
    /// number of uses in `uses`, so that the next call can compare it.
    fn unused(&mut self, uses: &mut u64) -> Option<Vec<(Vec<f32>, u64)>> {
        let before = std::mem::replace(uses, self.uses);
        (before == *uses).then(|| {
            self.lent = 0;
            std::mem::take(&mut self.free)
        })
    }
}

/// Tells the pool that a pass has ended.
pub(crate) fn end_pass() {
    pool().end_pass();
}

/// Returns a vector with space for at least `n` values. The vector is empty or, if its memory comes
/// from a recycled buffer, may contain up to `n` values from the earlier use.
///
/// The capacity of the vector may exceed `n` by up to an eighth. Pass the vector to [`recycle`]
/// after its last use, so that its memory can be used again.
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

/// Gives a buffer back to the pool, so that [`buffer`] can hand it out again. Small buffers are
/// freed instead. The pool never takes back more memory than it has handed out, so the excess is
/// also freed if a program recycles buffers that don't come from the pool.
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

/// Waits until the pool is idle and no pass is in progress, and then frees all its buffers.
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
            // Freeing a large buffer takes some time, because the operating system reclaims its
            // memory. The lock of the pool is therefore released first, so that other threads don't
            // have to wait for it.
            drop(pool);
            return drop(buffers);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_handed_out_again_for_as_many_numbers_or_a_few_less() {
        const N: usize = 12_345; // No other test uses this length.
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
            pool.end_pass(); // These passes recycle nothing.
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
