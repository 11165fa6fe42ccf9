//! The registers of AVX-512 (`__m512`) and AVX2 (`__m256`).

use std::arch::x86_64::*;

use super::{Register, Square};
use crate::elementwise::transpose::{four_columns_of_8, four_columns_of_16};
use crate::weight::Weight;

/// Implements the trait [`Register`] for a vector register type such as `__m256`. The arguments are
/// the intrinsics of the instruction set that load, store and multiply such registers. Methods that
/// are passed as the last arguments override the default methods of the trait.
macro_rules! register {
    ($register:ty, $lanes:literal, $splat:ident, $load:ident, $load_weights:ident, $store:ident,
     $add_product:ident
     $(, $first:item)*) => {
        impl Register for $register {
            const LANES: usize = $lanes;

            #[inline(always)]
            unsafe fn splat(x: f32) -> Self {
                // SAFETY: The caller guarantees that the CPU supports the instruction set.
                unsafe { $splat(x) }
            }
            #[inline(always)]
            unsafe fn load(at: *const f32) -> Self {
                // SAFETY: The caller guarantees that `LANES` values are readable at `at` and that
                // the CPU supports the instruction set.
                unsafe { $load(at) }
            }
            #[inline(always)]
            unsafe fn load_weights<W: Weight>(at: *const W) -> Self {
                // SAFETY: The caller guarantees that `LANES` weights are readable at `at` and that
                // the CPU supports the instruction set.
                unsafe { W::$load_weights(at) }
            }
            #[inline(always)]
            unsafe fn store(self, at: *mut f32) {
                // SAFETY: The caller guarantees that `LANES` values are writable at `at` and that
                // the CPU supports the instruction set.
                unsafe { $store(at, self) }
            }
            #[inline(always)]
            unsafe fn add_product(self, a: Self, b: Self) -> Self {
                // SAFETY: The caller guarantees that the CPU supports the instruction set.
                unsafe { $add_product(a, b, self) }
            }
            $(#[inline(always)] $first)*
        }
    };
}

register!(
    __m512,
    16,
    _mm512_set1_ps,
    _mm512_loadu_ps,
    load16,
    _mm512_storeu_ps,
    _mm512_fmadd_ps,
    unsafe fn load_first(at: *const f32, n: usize) -> Self {
        // SAFETY: The caller guarantees that the CPU supports AVX-512F and that `n` values are
        // readable at `at`. The mask excludes all other lanes.
        unsafe { _mm512_maskz_loadu_ps(first(n), at) }
    },
    unsafe fn store_first(self, at: *mut f32, n: usize) {
        // SAFETY: The caller guarantees that the CPU supports AVX-512F and that `n` values are
        // writable at `at`. The mask excludes all other lanes.
        unsafe { _mm512_mask_storeu_ps(at, first(n), self) }
    }
);

/// Returns a mask for AVX-512 instructions that selects the first `n` of the 16 lanes of a vector
/// register, where `1 <= n <= 16`.
#[inline(always)]
fn first(n: usize) -> __mmask16 {
    (0xffff_u32 >> (16 - n)) as __mmask16
}

register!(
    __m256,
    8,
    _mm256_set1_ps,
    _mm256_loadu_ps,
    load8,
    _mm256_storeu_ps,
    _mm256_fmadd_ps
);

/// Implements the trait [`Square`], which transposes a square block of values, for a vector
/// register type. `$four_columns` is the function that reads four columns of a block from memory
/// into registers.
macro_rules! square {
    ($register:ty, $lanes:literal, $four_columns:ident) => {
        impl Square for $register {
            type Columns = [Self; $lanes];

            #[inline(always)]
            unsafe fn columns(from: *const f32, distance: isize) -> Self::Columns {
                // SAFETY: The caller guarantees that `LANES` values are readable in each of the
                // `LANES` rows and that the CPU supports the instruction set.
                unsafe {
                    let mut columns = [Self::splat(0.0); $lanes];
                    for (quad, columns) in columns.as_chunks_mut().0.iter_mut().enumerate() {
                        let from = from.add(4 * quad);
                        *columns =
                            $four_columns(|r| from.wrapping_byte_offset(r as isize * distance));
                    }
                    columns
                }
            }
        }
    };
}

square!(__m512, 16, four_columns_of_16);
square!(__m256, 8, four_columns_of_8);
