//! The innermost loop of a matrix product: a small block of `c` that stays in registers while a
//! panel of `a` meets a panel of `b`.
//!
//! One text for all instruction sets, which differ in how many numbers a register has and in how
//! many registers there are.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use ndarray::ArrayView2;

use crate::prefetch::{self, LINE};
use crate::register::Register;

/// The summand of a product.
#[derive(Clone, Copy)]
pub(crate) struct Start<'a> {
    /// The factor of `c`, which is not read, and may be uninitialised, if this is 0
    pub(crate) times: f32,
    /// In place of `c` a row of numbers, the same for each of its rows: the bias of a layer
    pub(crate) row: Option<&'a [f32]>,
}

impl Start<'_> {
    /// `times` times `c`.
    pub(crate) fn times(times: f32) -> Self {
        Self { times, row: None }
    }

    /// For the columns from `j` on.
    pub(crate) fn at_column(self, j: usize) -> Self {
        let row = self.row.map(|row| &row[j..]);
        Self { row, ..self }
    }
}

/// Some rows of `a`, packed or where they stand.
#[derive(Clone, Copy)]
pub(crate) struct RowPanel {
    pub(crate) start: *const f32,
    /// At most [`Kernel::ROWS`]
    pub(crate) rows: usize,
    pub(crate) layout: Layout,
}

/// The order of the numbers of `a`, with the distance of its rows or columns.
#[derive(Clone, Copy)]
pub(crate) enum Layout {
    /// Those of a row side by side; of the wide kernels only AMX reads them
    Rows(usize),
    /// Those of a column side by side
    Columns(usize),
    /// Packed by columns, [`Kernel::ROWS`] from column to column
    Packed,
}

impl Layout {
    /// None if neither rows nor columns are contiguous.
    pub(crate) fn of<T>(a: &ArrayView2<T>) -> Option<Self> {
        match *a.strides() {
            [1, along] if along > 1 => Some(Self::Columns(along as usize)),
            [down, 1] if down > 0 => Some(Self::Rows(down as usize)),
            _ => None,
        }
    }
}

/// Some columns of `b`.
#[derive(Clone, Copy)]
pub(crate) struct ColumnPanel {
    pub(crate) start: *const f32,
    /// The panel that is prefetched into the second cache meanwhile, a line with each four steps,
    /// if the kernel is wide
    pub(crate) next: *const f32,
}

/// The columns of `b` that rows of `a` are multiplied with, and the place of the product.
///
/// Read field by field, as it was written: a load of several fields would wait for their stores.
pub(crate) struct Block<'a> {
    pub(crate) b: ColumnPanel,
    /// The inner dimension
    pub(crate) depth: usize,
    /// From row to row of `c`
    pub(crate) stride: isize,
    pub(crate) start: Start<'a>,
    /// The columns of `c`, 1 to [`Kernel::COLUMNS`]
    pub(crate) columns: usize,
}

/// The inner dimension of a panel at most.
pub(crate) const DEPTH: usize = 384;
/// From one row of a panel to the next: no multiple of 4 KiB, which would put all rows into the
/// same few lines of the first cache.
pub(crate) const ROW_STRIDE: usize = DEPTH + 16;

/// Steps of the inner dimension that are written out one after the other.
const UNROLLED: usize = 4;
/// A quarter of a line with each step of the inner dimension: a block of columns is cached when ten
/// panels of rows have met the one before.
pub(crate) const NEXT: usize = LINE / UNROLLED;
/// How many steps of the inner dimension ahead a column of `a` or a row of `b` is prefetched, read
/// or packed: they may lie pages apart, where no processor looks ahead.
pub(crate) const STEPS_AHEAD: usize = 16;

/// The loop for one instruction set.
pub(crate) trait Kernel {
    /// Rows of `c` that fit the registers
    const ROWS: usize;
    /// Columns of `c` that do
    const COLUMNS: usize;
    /// True if a register is a line of the cache
    const WIDE: bool = Self::COLUMNS == 2 * LINE;
    /// Columns that a task processes before its next rows: 400 KB of panels of `b`, and the same
    /// amount prefetched; or 100 KB, because processors without wide registers may have a second
    /// cache of 512 KB
    const WIDTH: usize = if Self::WIDE { 256 } else { 64 };
    /// Numbers of the inner dimension that share a lane: 2, if they are pairs of bf16
    const NUMBERS: usize;
    /// Steps of the inner dimension that the kernel takes at once: panels are filled up with 0, and
    /// if it is more than one, those of `a` are packed by rows
    #[cfg(target_arch = "x86_64")]
    const STEPS: usize = 1;

    /// Called by a thread before it runs the kernel, and [`Self::end`] after it.
    ///
    /// # Safety
    /// The CPU must have the instructions.
    unsafe fn begin() {}

    /// # Safety
    /// As [`Self::begin`].
    unsafe fn end() {}

    /// `c = start + a b` for the columns of a block.
    ///
    /// Each element's sum runs along the inner dimension, in order, and `start` is added at its
    /// end.
    ///
    /// # Safety
    /// `a` has `depth` columns and `b` starts with (`depth`, [`Self::COLUMNS`]) row-major; `c` can
    /// be written, and read if `start` reads it; a row of `start` has as many columns as the block;
    /// the CPU has the instructions.
    unsafe fn run(a: RowPanel, c: *mut f32, block: &Block<'_>);
}

/// The ways in which a kernel reads `a`, as in [`Layout`].
const ROWS: u8 = 0;
const COLUMNS: u8 = 1;
const PACKED: u8 = 2;

/// Rows of a wide kernel: with two registers of columns each, all 32 registers except those needed
/// by a step.
const WIDE_ROWS: usize = 14;

/// How a kernel multiplies.
pub(crate) trait Multiply<V> {
    /// `sum + a b`
    ///
    /// # Safety
    /// The CPU must have the instructions.
    unsafe fn add_product(sum: V, a: V, b: V) -> V;
}

/// Lanes of f32.
pub(crate) struct OfF32;

impl<V: Register> Multiply<V> for OfF32 {
    #[inline(always)]
    unsafe fn add_product(sum: V, a: V, b: V) -> V {
        // SAFETY: the caller's promise.
        unsafe { sum.add_product(a, b) }
    }
}

/// Lanes of pairs of bf16, whose two products are added.
#[cfg(target_arch = "x86_64")]
pub(crate) struct OfPairs;

#[cfg(target_arch = "x86_64")]
impl Multiply<__m512> for OfPairs {
    #[inline(always)]
    unsafe fn add_product(sum: __m512, a: __m512, b: __m512) -> __m512 {
        // SAFETY: the caller's promise; pairs and lanes have the same bits.
        unsafe {
            let [a, b] = [a, b].map(|lanes| std::mem::transmute::<__m512, __m512bh>(lanes));
            _mm512_dpbf16_ps(sum, a, b)
        }
    }
}

/// A step of the inner dimension: a column of `a`, from whose numbers and to whose neighbour it is
/// so far, meets a row of `b`.
///
/// # Safety
/// Both can be read, `R` numbers and `N` registers.
#[inline(always)]
unsafe fn step<V: Register, M: Multiply<V>, const R: usize, const N: usize, const WAY: u8>(
    a: *const f32,
    (down, along): (usize, usize),
    b: *const f32,
    sums: &mut [[V; N]; R],
) {
    if V::LANES == LINE && WAY == COLUMNS {
        let a = a.wrapping_add(STEPS_AHEAD * along);
        prefetch::line(a, 0);
        prefetch::line(a.wrapping_add(R - 1), 0); // it may reach into a second line
    }
    // SAFETY: the caller's promise.
    unsafe {
        let mut row = [V::splat(0.0); N];
        for (n, row) in row.iter_mut().enumerate() {
            *row = V::load(b.add(n * V::LANES));
        }
        for (r, sums) in sums.iter_mut().enumerate() {
            let a = V::splat(*a.add(r * down));
            for (sum, b) in sums.iter_mut().zip(row) {
                *sum = M::add_product(*sum, a, b);
            }
        }
    }
}

/// [`Kernel::run`] for `R` rows and `N` registers of columns, the last of which may have fewer;
/// `stride_of_a` is from row to row, or from column to column.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn product<V: Register, M: Multiply<V>, const R: usize, const N: usize, const WAY: u8>(
    a: *const f32,
    stride_of_a: usize,
    c: *mut f32,
    &Block {
        b,
        depth,
        stride,
        start,
        columns,
    }: &Block<'_>,
) {
    let strides = match WAY {
        ROWS => (stride_of_a, 1),
        PACKED => (1, WIDE_ROWS),
        _ => (1, stride_of_a),
    };
    for r in 0..R {
        let row = c.wrapping_offset(r as isize * stride);
        for n in 0..N {
            prefetch::line(row, n * size_of::<V>());
        }
    }
    // SAFETY: all offsets are within the caller's promise.
    unsafe {
        let mut sums = [[V::splat(0.0); N]; R];
        let mut k = 0;
        // Several steps together, as no processor has instructions to spare here.
        while k + UNROLLED <= depth {
            if V::LANES == LINE {
                prefetch::far_line(b.next.wrapping_add(NEXT * k), 0);
            }
            for k in k..k + UNROLLED {
                let (a, b) = (a.add(k * strides.1), b.start.add(2 * V::LANES * k));
                step::<V, M, R, N, WAY>(a, strides, b, &mut sums);
            }
            k += UNROLLED;
        }
        for k in k..depth {
            let (a, b) = (a.add(k * strides.1), b.start.add(2 * V::LANES * k));
            step::<V, M, R, N, WAY>(a, strides, b, &mut sums);
        }
        for (r, sums) in sums.into_iter().enumerate() {
            for (n, sum) in sums.into_iter().enumerate() {
                let before = n * V::LANES;
                let lanes = if n + 1 < N {
                    V::LANES
                } else {
                    columns - before
                };
                store_sum(sum, c.offset(r as isize * stride), before, lanes, start);
            }
        }
    }
}

/// Adds the initial summand to a row's sums behind the first `before`, and writes so many lanes.
///
/// # Safety
/// As [`Kernel::run`].
#[inline(always)]
pub(crate) unsafe fn store_sum<V: Register>(
    sum: V,
    row_of_c: *mut f32,
    before: usize,
    lanes: usize,
    start: Start<'_>,
) {
    // SAFETY: the caller's promise.
    unsafe {
        let at = row_of_c.add(before);
        let sum = if let Some(row) = start.row {
            sum.add_product(
                V::splat(1.0),
                V::load_first(row.as_ptr().add(before), lanes),
            )
        } else if start.times != 0.0 {
            sum.add_product(V::splat(start.times), V::load_first(at, lanes))
        } else {
            sum
        };
        sum.store_first(at, lanes);
    }
}

/// A [`Kernel`] of so many rows, those that are left over in the parts that are named; it packs and
/// reads `a` in one `$way` where that does not stand by columns.
macro_rules! kernel {
    ($name:ident, $register:ty, $multiply:ty, $numbers:literal, $rows:expr, [$($part:literal)*], $way:ident, $(#[$features:meta])?) => {
        pub(crate) struct $name;

        impl Kernel for $name {
            const ROWS: usize = $rows;
            const COLUMNS: usize = 2 * <$register>::LANES;
            const NUMBERS: usize = $numbers;

            #[inline]
            unsafe fn run(a: RowPanel, mut c: *mut f32, block: &Block<'_>) {
                $(#[$features])?
                unsafe fn part<const R: usize, const N: usize, const WAY: u8>(
                    a: *const f32,
                    stride_of_a: usize,
                    c: *mut f32,
                    block: &Block<'_>,
                ) {
                    // SAFETY: the caller's promise.
                    unsafe { product::<$register, $multiply, R, N, WAY>(a, stride_of_a, c, block) }
                }
                let narrow = block.columns <= <$register>::LANES;
                let (down, stride, in_place) = match a.layout {
                    Layout::Rows(down) => (down, down, false),
                    Layout::Columns(along) => (1, along, true),
                    Layout::Packed => (1, $rows, false),
                };
                let (mut at, mut rows) = (a.start, a.rows);
                // SAFETY: the caller's promise; parts of rows follow each other.
                unsafe {
                    $(
                        while rows >= $part {
                            match (in_place, narrow) {
                                (false, false) => part::<$part, 2, $way>(at, stride, c, block),
                                (false, true) => part::<$part, 1, $way>(at, stride, c, block),
                                (true, false) => part::<$part, 2, COLUMNS>(at, stride, c, block),
                                (true, true) => part::<$part, 1, COLUMNS>(at, stride, c, block),
                            }
                            at = at.add($part * down);
                            c = c.offset($part * block.stride);
                            rows -= $part;
                        }
                    )*
                }
            }
        }
    };
}

#[cfg(target_arch = "x86_64")]
kernel!(Avx512, __m512, OfF32, 1, WIDE_ROWS, [14 8 4 2 1], PACKED, #[target_feature(enable = "avx512f")]);
#[cfg(target_arch = "x86_64")]
kernel!(Avx512Bf16, __m512, OfPairs, 2, WIDE_ROWS, [14 8 4 2 1], PACKED, #[target_feature(enable = "avx512f,avx512bf16")]);
#[cfg(target_arch = "x86_64")]
kernel!(Avx2, __m256, OfF32, 1, 6, [6 2 1], ROWS, #[target_feature(enable = "avx2,fma")]);
kernel!(Plain, [f32; 4], OfF32, 1, 6, [6 2 1], ROWS,);
