//! Registers of f32, for loops that are written once for all instruction sets.

#[cfg(target_arch = "x86_64")]
mod x86;

use crate::elementwise::math;

/// A register of f32; its functions ask that the CPU has its instructions, and that what they read
/// or write can be.
pub(crate) trait Register: Copy {
    const LANES: usize;
    unsafe fn splat(x: f32) -> Self;
    unsafe fn load(at: *const f32) -> Self;
    unsafe fn store(self, at: *mut f32);
    /// `self + a b`
    unsafe fn add_product(self, a: Self, b: Self) -> Self;

    /// The first `n` lanes, 1 to all; the others are 0.
    #[inline(always)]
    unsafe fn load_first(at: *const f32, n: usize) -> Self {
        // SAFETY: the caller's promise; no register has more lanes.
        unsafe {
            if n == Self::LANES {
                return Self::load(at);
            }
            let mut lanes = [0.0f32; 16];
            lanes.as_mut_ptr().copy_from_nonoverlapping(at, n);
            Self::load(lanes.as_ptr())
        }
    }
    /// Stores the first `n` lanes, 1 to all.
    #[inline(always)]
    unsafe fn store_first(self, at: *mut f32, n: usize) {
        // SAFETY: the caller's promise; no register has more lanes.
        unsafe {
            if n == Self::LANES {
                return self.store(at);
            }
            let mut lanes = [0.0f32; 16];
            self.store(lanes.as_mut_ptr());
            at.copy_from_nonoverlapping(lanes.as_ptr(), n);
        }
    }
}

/// A register whose columns can be gathered from as many rows as it has lanes.
pub(crate) trait Square: Register {
    type Columns: AsRef<[Self]>;

    /// Returns the columns of a square of numbers, whose rows are `distance` bytes apart.
    ///
    /// # Safety
    /// The square can be read.
    unsafe fn columns(from: *const f32, distance: isize) -> Self::Columns;
}

impl Square for [f32; 4] {
    type Columns = [Self; 4];

    #[inline(always)]
    unsafe fn columns(from: *const f32, distance: isize) -> Self::Columns {
        let number = |l: usize, k: usize| {
            let row = from.wrapping_byte_offset(l as isize * distance);
            // SAFETY: the caller's promise.
            unsafe { row.add(k).read_unaligned() }
        };
        std::array::from_fn(|k| std::array::from_fn(|l| number(l, k)))
    }
}

/// Lanes that the compiler makes registers of on other processors.
impl Register for [f32; 4] {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        [x; 4]
    }
    #[inline(always)]
    unsafe fn load(at: *const f32) -> Self {
        // SAFETY: the caller's promise.
        unsafe { at.cast::<Self>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f32) {
        // SAFETY: the caller's promise.
        unsafe { at.cast::<Self>().write_unaligned(self) }
    }
    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        std::array::from_fn(|l| {
            math::add_product(self[l], a[l], b[l], cfg!(target_arch = "aarch64"))
        })
    }
}
