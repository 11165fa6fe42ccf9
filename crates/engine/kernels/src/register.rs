//! A trait for vector registers of `f32` values. A kernel that uses this trait needs to be written
//! only once for all instruction sets.
//!
//! [`Register`] is implemented for `__m512` (AVX-512), `__m256` (AVX2) and `[f32; 4]`, which the
//! compiler translates to the instructions that every CPU of the target has.

#[cfg(target_arch = "x86_64")]
mod x86;

use crate::elementwise::math;
use crate::weight::Weight;

/// A vector register with [`LANES`](Self::LANES) lanes of 32 bits, which usually contain `f32`
/// values.
///
/// # Safety
///
/// The methods may only be called if the CPU supports the instruction set of the register. Pointers
/// passed to `load`, `load_weights` and `store` must be valid for `LANES` values, and pointers
/// passed to `load_first` and `store_first` must be valid for `n` values. The pointers don't need
/// to be aligned.
pub(crate) trait Register: Copy {
    const LANES: usize;
    unsafe fn splat(x: f32) -> Self;
    unsafe fn load(at: *const f32) -> Self;
    unsafe fn store(self, at: *mut f32);
    /// Loads `LANES` weights and converts them to `f32`.
    unsafe fn load_weights<W: Weight>(at: *const W) -> Self;
    /// Returns `self + a * b` in each lane. The result is rounded only once if the instruction set
    /// has a fused multiply-add.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;

    /// Loads `n` values into the first `n` lanes and sets the other lanes to 0, where
    /// `1 <= n <= LANES`.
    #[inline(always)]
    unsafe fn load_first(at: *const f32, n: usize) -> Self {
        // SAFETY: The caller guarantees that `n` values are readable at `at` and that `n` is at
        // most `LANES`. The array `lanes` is large enough, because the widest register has 16
        // lanes.
        unsafe {
            if n == Self::LANES {
                return Self::load(at);
            }
            let mut lanes = [0.0f32; 16];
            lanes.as_mut_ptr().copy_from_nonoverlapping(at, n);
            Self::load(lanes.as_ptr())
        }
    }
    /// Stores the first `n` lanes, where `1 <= n <= LANES`.
    #[inline(always)]
    unsafe fn store_first(self, at: *mut f32, n: usize) {
        // SAFETY: The caller guarantees that `n` values are writable at `at` and that `n` is at
        // most `LANES`. The array `lanes` is large enough, because the widest register has 16
        // lanes.
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

/// A vector register type that can load a block of `LANES` x `LANES` values into `LANES` registers
/// and transpose it.
pub(crate) trait Square: Register {
    type Columns: AsRef<[Self]>;

    /// Loads a block of `LANES` x `LANES` values whose rows are `distance` bytes apart and returns
    /// its columns. Lane `l` of column `k` contains element `k` of row `l`.
    ///
    /// # Safety
    ///
    /// `LANES` values must be readable in each of the `LANES` rows, and the CPU must support the
    /// instruction set of the register.
    unsafe fn columns(from: *const f32, distance: isize) -> Self::Columns;
}

impl Square for [f32; 4] {
    type Columns = [Self; 4];

    #[inline(always)]
    unsafe fn columns(from: *const f32, distance: isize) -> Self::Columns {
        let number = |l: usize, k: usize| {
            let row = from.wrapping_byte_offset(l as isize * distance);
            // SAFETY: The caller guarantees that `LANES` values are readable in each of the `LANES`
            // rows.
            unsafe { row.add(k).read_unaligned() }
        };
        std::array::from_fn(|k| std::array::from_fn(|l| number(l, k)))
    }
}

/// The register of the portable kernels. It requires only instructions that are available on every
/// CPU of the compilation target.
impl Register for [f32; 4] {
    const LANES: usize = 4;

    #[inline(always)]
    unsafe fn splat(x: f32) -> Self {
        [x; 4]
    }
    #[inline(always)]
    unsafe fn load(at: *const f32) -> Self {
        // SAFETY: The caller guarantees that 4 values are readable at `at`.
        unsafe { at.cast::<Self>().read_unaligned() }
    }
    #[inline(always)]
    unsafe fn load_weights<W: Weight>(at: *const W) -> Self {
        // SAFETY: The caller guarantees that 4 weights are readable at `at`.
        let weights = unsafe { at.cast::<[W; 4]>().read_unaligned() };
        std::array::from_fn(|l| weights[l].value())
    }
    #[inline(always)]
    unsafe fn store(self, at: *mut f32) {
        // SAFETY: The caller guarantees that 4 values are writable at `at`.
        unsafe { at.cast::<Self>().write_unaligned(self) }
    }
    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        std::array::from_fn(|l| {
            math::add_product(self[l], a[l], b[l], cfg!(target_arch = "aarch64"))
        })
    }
}
