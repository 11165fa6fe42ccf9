//! Output buffers that go from step to step: while a [`KeepBuffers`] lives, what is recycled is
//! handed out again, so that a training step maps and clears no memory, whatever allocator the
//! program has.
//!
//! Without one, buffers come from the allocator and go back to it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::huge_pages::room;

/// Numbers from which on a buffer is kept: the allocator is fast with less.
const SMALLEST: usize = 4 * 1024;

/// Keeps recycled buffers as long as it lives; there may be several.
#[derive(Debug)]
pub struct KeepBuffers(());

#[derive(Debug)]
struct Pool {
    /// How many [`KeepBuffers`] live.
    keepers: usize,
    /// Counted by [`KeepBuffers::end_step`].
    step: u64,
    /// Buffers that nobody uses, and the step in which they were recycled.
    free: Vec<(Vec<f32>, u64)>,
}

static POOL: Mutex<Pool> = Mutex::new(Pool {
    keepers: 0,
    step: 0,
    free: Vec::new(),
});

fn pool() -> MutexGuard<'static, Pool> {
    POOL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl KeepBuffers {
    /// Buffers are kept from now on.
    #[allow(clippy::new_without_default)] // it changes what others do
    pub fn new() -> Self {
        pool().keepers += 1;
        Self(())
    }

    /// Gives buffers back to the allocator that two steps have not used: no more is held than they
    /// needed.
    pub fn end_step(&self) {
        let mut pool = pool();
        pool.step += 1;
        let oldest = pool.step.saturating_sub(2);
        pool.free.retain(|&(_, step)| step >= oldest);
    }
}

impl Drop for KeepBuffers {
    fn drop(&mut self) {
        let mut pool = pool();
        pool.keepers -= 1;
        if pool.keepers == 0 {
            pool.free = Vec::new();
        }
    }
}

/// A vector with room for `n` numbers, or for up to an eighth more; some of an earlier use may be
/// in it.
pub fn buffer(n: usize) -> Vec<f32> {
    if n >= SMALLEST {
        let mut pool = pool();
        let fits = |(free, _): &(Vec<f32>, u64)| (n..=n + n / 8).contains(&free.capacity());
        // The youngest is the likeliest to be in a cache.
        if let Some(at) = pool.free.iter().rposition(fits) {
            let mut buffer = pool.free.remove(at).0;
            buffer.truncate(n);
            return buffer;
        }
    }
    room(n)
}

/// Lets [`buffer`] hand out this memory again.
pub fn recycle(buffer: Vec<f32>) {
    if buffer.capacity() < SMALLEST {
        return;
    }
    let mut pool = pool();
    if pool.keepers > 0 {
        let step = pool.step;
        pool.free.push((buffer, step));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One test, as the pool is one.
    #[test]
    fn buffers_are_kept_while_a_keeper_lives_and_not_longer_than_two_steps() {
        const N: usize = 12_345;
        let free = || {
            pool()
                .free
                .iter()
                .filter(|(free, _)| free.capacity() == N)
                .count()
        };
        recycle(Vec::with_capacity(N));
        assert_eq!(free(), 0);
        let keeper = KeepBuffers::new();
        recycle(vec![1.0; N]);
        let reused = buffer(N - 100);
        assert_eq!((reused.len(), reused.capacity(), free()), (N - 100, N, 0));
        recycle(reused);
        assert_ne!(buffer(N / 2).capacity(), N);
        keeper.end_step();
        keeper.end_step();
        assert_eq!(free(), 1);
        keeper.end_step();
        assert_eq!(free(), 0);
        recycle(vec![1.0; N]);
        drop(keeper);
        assert_eq!(free(), 0);
    }
}
