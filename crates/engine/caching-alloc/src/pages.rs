//! Where large blocks come from: pages straight from Linux, elsewhere the system's allocator. It keeps nothing.

#![allow(unsafe_code)] // an allocator is

pub(crate) use system::{ALIGN, SMALLEST, map, unmap};

/// Pages straight from Linux, in huge ones if it may.
#[cfg(all(target_os = "linux", target_pointer_width = "64"))]
mod system {
    use std::ffi::{c_int, c_void};
    use std::ptr::null_mut;

    /// Of a huge page on x86-64 and most others; a system with larger ones takes small ones here.
    pub(crate) const ALIGN: usize = 2 << 20;
    pub(crate) const SMALLEST: usize = 64 << 10;

    const READ_WRITE: c_int = 1 | 2;
    const PRIVATE_ANONYMOUS: c_int = 0x02 | 0x20;
    const HUGE_PAGES: c_int = 14;

    // The C library that std links anyway.
    unsafe extern "C" {
        fn mmap(
            at: *mut c_void,
            length: usize,
            protection: c_int,
            flags: c_int,
            file: c_int,
            offset: i64,
        ) -> *mut c_void;
        fn munmap(at: *mut c_void, length: usize) -> c_int;
        fn madvise(at: *mut c_void, length: usize, advice: c_int) -> c_int;
    }

    /// `size` bytes of zeros, aligned to [`ALIGN`]; null if there are none.
    pub(crate) fn map(size: usize) -> *mut u8 {
        let Some(length) = size.checked_add(ALIGN) else {
            return null_mut();
        };
        // SAFETY: a new private mapping anywhere touches nothing that exists; of it, the parts before
        // and after an aligned piece are given back, and the advice concerns that piece alone.
        unsafe {
            let start = mmap(null_mut(), length, READ_WRITE, PRIVATE_ANONYMOUS, -1, 0).cast::<u8>();
            if start.addr() == usize::MAX {
                return null_mut();
            }
            let before = start.addr().next_multiple_of(ALIGN) - start.addr();
            let block = start.add(before);
            if before > 0 {
                munmap(start.cast(), before);
            }
            munmap(block.add(size).cast(), length - before - size);
            if size >= ALIGN {
                // A system without huge pages says no, and small pages it is.
                madvise(block.cast(), size, HUGE_PAGES);
            }
            block
        }
    }

    /// # Safety
    /// `block` and `size` must be those of an earlier [`map`], and nobody may use it any more.
    pub(crate) unsafe fn unmap(block: *mut u8, size: usize) {
        // SAFETY: the caller's promise.
        unsafe { munmap(block.cast(), size) };
    }
}

/// Elsewhere, blocks of the system's allocator.
#[cfg(not(all(target_os = "linux", target_pointer_width = "64")))]
mod system {
    use std::alloc::{GlobalAlloc, Layout, System};

    pub(crate) const ALIGN: usize = 64;
    pub(crate) const SMALLEST: usize = 64 << 10;

    /// `size` bytes of zeros, aligned to [`ALIGN`]; null if there are none.
    pub(crate) fn map(size: usize) -> *mut u8 {
        match Layout::from_size_align(size, ALIGN) {
            // SAFETY: the size is not zero, as only large requests come here.
            Ok(layout) => unsafe { System.alloc_zeroed(layout) },
            Err(_) => std::ptr::null_mut(),
        }
    }

    /// # Safety
    /// `block` and `size` must be those of an earlier [`map`], and nobody may use it any more.
    pub(crate) unsafe fn unmap(block: *mut u8, size: usize) {
        if let Ok(layout) = Layout::from_size_align(size, ALIGN) {
            // SAFETY: the caller's promise: `map` used this layout.
            unsafe { System.dealloc(block, layout) };
        }
    }
}
