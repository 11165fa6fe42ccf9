//! The allocator: it keeps large freed blocks for the next request of their size, on huge pages where the system has them.
//!
//! A training step asks for the same hundreds of megabytes as the step before; handing them back and mapping them anew costs a page fault each 4 KiB, which is more than the arithmetic on them.
//! Small requests go to the system's allocator. Large ones come from the system's pages on Linux; elsewhere they are the system allocator's too.
//! It never holds more than a quarter above what the program used at its peak, and gives nothing back below that, unless the system has no more.
//! (The quarter is for blocks of sizes that are not in use at once: without it, the largest is given back and mapped anew each step.)

#![allow(unsafe_code)] // an allocator is

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::pages;

/// Requests from this size on are kept.
const LARGE: usize = 1 << 20;
/// Blocks kept at most; more are given back.
const MOST: usize = 1024;

/// The allocator; a program opts in with the line that the README shows.
pub struct CachingAllocator {
    locked: AtomicBool,
    state: UnsafeCell<State>,
}

// SAFETY: `state` is only touched between taking and releasing `locked`.
unsafe impl Sync for CachingAllocator {}

struct State {
    /// The first `count` are kept blocks, oldest first.
    blocks: [(*mut u8, usize); MOST],
    count: usize,
    /// Bytes of large blocks in use, kept, and in use at most so far
    live: usize,
    kept: usize,
    peak: usize,
}

impl CachingAllocator {
    /// An allocator that keeps nothing yet.
    #[allow(clippy::new_without_default)] // there is one a program, a static
    pub const fn new() -> Self {
        Self {
            locked: AtomicBool::new(false),
            state: UnsafeCell::new(State {
                blocks: [(std::ptr::null_mut(), 0); MOST],
                count: 0,
                live: 0,
                kept: 0,
                peak: 0,
            }),
        }
    }

    /// Runs `f` alone. It must not allocate.
    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        // Some hundreds of requests per step come here, each for a few nanoseconds.
        while self.locked.swap(true, Ordering::Acquire) {
            std::hint::spin_loop();
        }
        // SAFETY: the lock is held, so this is the only reference.
        let result = f(unsafe { &mut *self.state.get() });
        self.locked.store(false, Ordering::Release);
        result
    }

    /// A block of `size` bytes and whether they are known to be zero; null if there is no memory.
    fn take(&self, size: usize) -> (*mut u8, bool) {
        let kept = self.with(|state| state.take(size));
        if let Some(block) = kept {
            return (block, false);
        }
        while let Some((block, size)) = self.with(|state| state.surplus()) {
            // SAFETY: it was a kept block, which nobody uses.
            unsafe { pages::unmap(block, size) };
        }
        let block = self.ask(|| pages::map(size));
        self.with(|state| match block.is_null() {
            true => state.live -= size,
            false => state.peak = state.peak.max(state.live),
        });
        (block, true)
    }

    /// What the system gives; as long as it gives nothing, kept blocks go back to it, the oldest first.
    fn ask(&self, system: impl Fn() -> *mut u8) -> *mut u8 {
        loop {
            let block = system();
            if !block.is_null() {
                return block;
            }
            let Some((kept, size)) = self.with(|state| state.oldest()) else {
                return block;
            };
            // SAFETY: it was a kept block, which nobody uses.
            unsafe { pages::unmap(kept, size) };
        }
    }
}

impl State {
    /// Counts `size` bytes as used, and hands out a kept block of just this size.
    fn take(&mut self, size: usize) -> Option<*mut u8> {
        self.live += size;
        // The youngest is the likeliest to be in a cache.
        let at = self.blocks[..self.count]
            .iter()
            .rposition(|&(_, kept)| kept == size)?;
        self.peak = self.peak.max(self.live);
        Some(self.remove(at).0)
    }

    /// A kept block that has to go so that no more is held than a quarter above the peak.
    fn surplus(&mut self) -> Option<(*mut u8, usize)> {
        let peak = self.peak.max(self.live);
        (self.live + self.kept > peak + peak / 4)
            .then(|| self.oldest())
            .flatten()
    }

    /// A kept block that has to go, if there is one.
    fn oldest(&mut self) -> Option<(*mut u8, usize)> {
        (self.count > 0).then(|| self.remove(0))
    }

    fn remove(&mut self, at: usize) -> (*mut u8, usize) {
        let block = self.blocks[at];
        self.blocks.copy_within(at + 1..self.count, at);
        self.count -= 1;
        self.kept -= block.1;
        block
    }

    /// Keeps a block, if there is a place for it.
    fn keep(&mut self, block: *mut u8, size: usize) -> bool {
        self.live -= size;
        if self.count == MOST {
            return false;
        }
        self.blocks[self.count] = (block, size);
        self.count += 1;
        self.kept += size;
        true
    }
}

/// What a request is rounded up to, so that similar ones share blocks: an eighth of a power of two; `None` if it is not ours.
fn large(layout: Layout) -> Option<usize> {
    if layout.size() < LARGE || layout.align() > pages::ALIGN {
        return None;
    }
    let step = (layout.size().checked_next_power_of_two()? / 16).max(pages::SMALLEST);
    layout.size().checked_next_multiple_of(step)
}

// SAFETY: blocks come from the system's allocator or its pages, are as large and aligned as asked,
// and are in one hand at a time: they are removed from the list before they are handed out.
// A request's rounded size follows from its layout alone, so `dealloc` finds what `alloc` used.
unsafe impl GlobalAlloc for CachingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        match large(layout) {
            Some(size) => self.take(size).0,
            // SAFETY: the caller's promise about `layout`.
            None => self.ask(|| unsafe { System.alloc(layout) }),
        }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        let Some(size) = large(layout) else {
            // SAFETY: the caller's promise about `layout`.
            return self.ask(|| unsafe { System.alloc_zeroed(layout) });
        };
        let (block, zero) = self.take(size);
        if !zero && !block.is_null() {
            // SAFETY: the block has at least as many bytes as the layout.
            unsafe { block.write_bytes(0, layout.size()) };
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        match large(layout) {
            Some(size) => {
                if !self.with(|state| state.keep(block, size)) {
                    // SAFETY: `take` mapped this block with this size.
                    unsafe { pages::unmap(block, size) };
                }
            }
            // SAFETY: the caller's promise; `alloc` gave this layout to the system too.
            None => unsafe { System.dealloc(block, layout) },
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // SAFETY: the caller promises that the size, rounded up to the alignment, does not overflow.
        let new_layout = unsafe { Layout::from_size_align_unchecked(new_size, layout.align()) };
        match (large(layout), large(new_layout)) {
            // SAFETY: the caller's promise; both layouts are the system's. A refusal leaves the block as it is.
            (None, None) => self.ask(|| unsafe { System.realloc(block, layout, new_size) }),
            (old, new) if old == new => block,
            // SAFETY: a fresh block of the new size, of which as much is filled as both have.
            _ => unsafe {
                let new = self.alloc(new_layout);
                if !new.is_null() {
                    new.copy_from_nonoverlapping(block, layout.size().min(new_size));
                    self.dealloc(block, layout);
                }
                new
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, 64).expect("a small power of two")
    }

    #[test]
    fn a_freed_block_serves_the_next_request_of_its_size_and_is_zeroed_if_asked() {
        let allocator = CachingAllocator::new();
        let size = 5 << 20;
        // SAFETY: each block is used within its layout and freed with it.
        unsafe {
            let first = allocator.alloc(layout(size));
            first.write_bytes(7, size);
            allocator.dealloc(first, layout(size));
            let second = allocator.alloc_zeroed(layout(size - 100));
            assert_eq!(second, first);
            assert!((0..size - 100).all(|i| *second.add(i) == 0));
            let third = allocator.alloc_zeroed(layout(size));
            assert_ne!(third, second);
            assert!((0..size).all(|i| *third.add(i) == 0));
            allocator.dealloc(second, layout(size - 100));
            allocator.dealloc(third, layout(size));
        }
    }

    #[test]
    fn no_more_is_held_than_a_quarter_above_the_peak() {
        let allocator = CachingAllocator::new();
        for megabytes in [8, 16, 4, 24, 12, 3] {
            let layout = layout(megabytes << 20);
            // SAFETY: the block is not used, and freed with its layout.
            unsafe { allocator.dealloc(allocator.alloc(layout), layout) };
            allocator.with(|state| {
                assert_eq!(state.live, 0);
                assert!(
                    state.kept <= state.peak + state.peak / 4,
                    "{} kept, {} at the peak",
                    state.kept,
                    state.peak
                );
            });
        }
    }

    #[test]
    fn blocks_beyond_the_most_that_are_kept_are_given_back() {
        let allocator = CachingAllocator::new();
        let layout = layout(LARGE);
        // SAFETY: the blocks are not used, and each is freed once with its layout.
        unsafe {
            let blocks: Vec<_> = (0..MOST + 2).map(|_| allocator.alloc(layout)).collect();
            assert!(blocks.iter().all(|block| !block.is_null()));
            for block in blocks {
                allocator.dealloc(block, layout);
            }
        }
        allocator.with(|state| {
            let held = (state.count, state.live, state.kept);
            assert_eq!(held, (MOST, 0, MOST * LARGE));
        });
    }

    #[test]
    fn kept_blocks_go_back_oldest_first_while_the_system_refuses() {
        let allocator = CachingAllocator::new();
        let layouts = [2, 3, 4, 5].map(|megabytes| layout(megabytes << 20));
        // SAFETY: the blocks are not used, and each is freed once with its layout.
        unsafe {
            let blocks = layouts.map(|layout| allocator.alloc(layout));
            for (block, layout) in blocks.into_iter().zip(layouts) {
                allocator.dealloc(block, layout);
            }
        }
        let kept = || {
            allocator.with(|state| {
                let sizes = state.blocks[..state.count]
                    .iter()
                    .map(|block| block.1 >> 20);
                (sizes.sum::<usize>(), state.kept >> 20)
            })
        };
        assert_eq!(kept(), (14, 14));
        let room = std::ptr::dangling_mut::<u8>();
        let block = allocator.ask(|| match kept().0 {
            10..=14 => std::ptr::null_mut(),
            _ => room,
        });
        assert_eq!((block, kept()), (room, (9, 9)));
        // SAFETY: no block comes of it.
        let block = unsafe { allocator.alloc(layout(1 << 60)) };
        assert!(block.is_null(), "a machine with a petabyte");
        assert_eq!(kept(), (0, 0));
    }

    #[test]
    fn a_request_that_fails_does_not_count_for_the_peak() {
        let allocator = CachingAllocator::new();
        // SAFETY: no block comes of it.
        let block = unsafe { allocator.alloc(layout(1 << 60)) };
        assert!(block.is_null(), "a machine with a petabyte");
        allocator.with(|state| assert_eq!((state.live, state.peak), (0, 0)));
    }

    #[test]
    fn growing_and_shrinking_keeps_the_bytes() {
        let allocator = CachingAllocator::new();
        let sizes = [100, 2 << 20, (2 << 20) + 5, 9 << 20, 3 << 20, 50];
        // SAFETY: each block is used within its current layout and freed with its last.
        unsafe {
            let mut block = allocator.alloc(layout(sizes[0]));
            (0..50).for_each(|i| *block.add(i) = i as u8);
            for pair in sizes.windows(2) {
                block = allocator.realloc(block, layout(pair[0]), pair[1]);
                assert!((0..50).all(|i| *block.add(i) == i as u8), "{pair:?}");
            }
            allocator.dealloc(block, layout(sizes[5]));
        }
    }

    #[test]
    fn blocks_are_aligned_as_asked() {
        let allocator = CachingAllocator::new();
        for align in [1, 64, 4096, 1 << 16] {
            let layout = Layout::from_size_align(3 << 20, align).expect("a power of two");
            // SAFETY: the block is not used, and freed with its layout.
            unsafe {
                let block = allocator.alloc(layout);
                assert!(block.addr().is_multiple_of(align));
                allocator.dealloc(block, layout);
            }
        }
    }
}
