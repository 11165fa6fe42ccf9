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

/// What a product is added to.
#[derive(Clone, Copy)]
pub(crate) struct Start<'a> {
    /// So many times `c`, which is not read, and may be uninitialised, if this is 0
    pub(crate) times: f32,
    /// In place of `c` a row of numbers, the same for each of its rows: the bias of a layer
    pub(crate) row: Option<&'a [f32]>,
}

impl Start<'_> {
    /// So many times `c`.
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

/// How the numbers of `a` stand, with the distance of its rows or columns.
#[derive(Clone, Copy)]
pub(crate) enum Layout {
    /// Those of a row side by side; [`ROW_STRIDE`] from row to row if the kernel is wide
    Rows(usize),
    /// Those of a column side by side
    Columns(usize),
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
    /// What is asked for into the second cache meanwhile, [`NEXT`] numbers a step, if the kernel is
    /// wide
    pub(crate) next: *const f32,
}

/// What rows of `a` are multiplied with and added to.
///
/// It is read field by field, as it was written: a load of several would wait for their stores.
pub(crate) struct Block<'a> {
    pub(crate) b: ColumnPanel,
    /// The inner dimension
    pub(crate) depth: usize,
    /// From row to row of `c`
    pub(crate) stride: isize,
    pub(crate) start: Start<'a>,
}

/// The inner dimension of a panel at most.
pub(crate) const DEPTH: usize = 384;
/// From one row of a panel to the next: no multiple of 4 KiB, which would put all rows into the
/// same few lines of the first cache.
pub(crate) const ROW_STRIDE: usize = DEPTH + 16;

/// How many bytes ahead of its reading a panel of `b` is asked for.
const AHEAD: usize = 6 * 1024;
/// A quarter of a line with each step of the inner dimension: a block of columns is there when ten
/// panels of rows have met the one before.
pub(crate) const NEXT: usize = LINE / 4;
/// How many steps of the inner dimension ahead a column of `a` or a row of `b` is asked for, read
/// or packed: they may lie pages apart, where no processor looks ahead.
pub(crate) const STEPS_AHEAD: usize = 16;

/// The loop for one instruction set.
pub(crate) trait Kernel {
    /// Rows of `c` that fit the registers
    const ROWS: usize;
    /// Columns of `c` that do
    const COLUMNS: usize;
    /// Whether a register is a line of the cache
    const WIDE: bool = Self::COLUMNS == 2 * LINE;
    /// Columns that a task walks through before it goes on to its next rows: 400 KB of panels of
    /// `b`, and as many that are asked for meanwhile; or 100 KB, as processors without wide
    /// registers may have a second cache of 512
    const WIDTH: usize = if Self::WIDE { 256 } else { 64 };

    /// `c = start + a b` for [`Self::COLUMNS`] columns.
    ///
    /// Each element's sum runs along the inner dimension, in order, and `start` is added at its
    /// end.
    ///
    /// # Safety
    /// `a` has `depth` columns and `b` starts with (`depth`, [`Self::COLUMNS`]) row-major; `c` can
    /// be written, and read if `start` reads it; a row of `start` has as many columns; the CPU has
    /// the instructions.
    unsafe fn run(a: RowPanel, c: *mut f32, block: &Block<'_>);
}

/// Numbers of the largest block.
const LARGEST: usize = 14 * 32;

/// The last columns, fewer than the kernel's, by way of a block that has them all.
///
/// # Safety
/// As [`Kernel::run`], for `columns` columns of `c` and of a row of `start`.
pub(crate) unsafe fn edge<K: Kernel>(a: RowPanel, c: *mut f32, block: &Block<'_>, columns: usize) {
    let mut whole = [0.0f32; LARGEST];
    let mut row_of_start = [0.0f32; LARGEST];
    let mut start = block.start;
    if let Some(row) = start.row {
        row_of_start[..columns].copy_from_slice(&row[..columns]);
        start.row = Some(&row_of_start);
    }
    // SAFETY: as the caller's promise says, for as many columns.
    unsafe {
        let row = |r: usize| c.offset(r as isize * block.stride);
        if start.times != 0.0 {
            for (r, whole) in whole.chunks_mut(K::COLUMNS).take(a.rows).enumerate() {
                (whole.as_mut_ptr()).copy_from_nonoverlapping(row(r), columns);
            }
        }
        let wider = Block {
            stride: K::COLUMNS as isize,
            start,
            ..*block
        };
        K::run(a, whole.as_mut_ptr(), &wider);
        for (r, whole) in whole.chunks(K::COLUMNS).take(a.rows).enumerate() {
            row(r).copy_from_nonoverlapping(whole.as_ptr(), columns);
        }
    }
}

/// A step of the inner dimension: a column of `a`, `down` from number to number, meets a row of
/// `b`.
///
/// # Safety
/// Both can be read, `R` numbers and two registers.
#[inline(always)]
unsafe fn step<V: Register, const R: usize>(
    a: *const f32,
    down: usize,
    b: *const f32,
    sums: &mut [[V; 2]; R],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let b = [V::load(b), V::load(b.add(V::LANES))];
        for (r, sums) in sums.iter_mut().enumerate() {
            let a = V::splat(*a.add(r * down));
            *sums = [sums[0].add_product(a, b[0]), sums[1].add_product(a, b[1])];
        }
    }
}

/// As [`Kernel::run`], for `R` rows and two registers of columns; `stride_of_a` is the distance in
/// [`Layout`].
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn product<V: Register, const R: usize, const BY_COLUMNS: bool>(
    a: *const f32,
    stride_of_a: usize,
    c: *mut f32,
    &Block {
        b,
        depth,
        stride,
        start,
    }: &Block<'_>,
) {
    let (down, along) = match BY_COLUMNS {
        true => (1, stride_of_a),
        // As many rows as a wide kernel has leave no register for their distance.
        false if V::LANES == LINE => (ROW_STRIDE, 1),
        false => (stride_of_a, 1),
    };
    for r in 0..R {
        let row = c.wrapping_offset(r as isize * stride);
        prefetch::line(row, 0);
        prefetch::line(row, size_of::<V>());
    }
    // SAFETY: all offsets are inside of what the caller vouches for.
    unsafe {
        let mut sums = [[V::splat(0.0); 2]; R];
        let mut k = 0;
        if V::LANES < LINE {
            // Four steps together, and nothing is asked for ahead: the processor keeps up with what
            // narrow registers read, and has no instruction to spare.
            while k + 4 <= depth {
                for k in k..k + 4 {
                    step(
                        a.add(k * along),
                        down,
                        b.start.add(2 * V::LANES * k),
                        &mut sums,
                    );
                }
                k += 4;
            }
        }
        for k in k..depth {
            let (a, b_row) = (a.wrapping_add(k * along), b.start.add(2 * V::LANES * k));
            if V::LANES == LINE {
                prefetch::far_line(b.next.wrapping_add(NEXT * k), 0);
                // Some way ahead: the second cache is too far away to wait for.
                prefetch::line(b_row, AHEAD);
                prefetch::line(b_row, AHEAD + size_of::<V>());
                if BY_COLUMNS {
                    let a = a.wrapping_add(STEPS_AHEAD * along);
                    prefetch::line(a, 0);
                    prefetch::line(a.wrapping_add(R - 1), 0); // it may reach into a second line
                }
            }
            step(a, down, b_row, &mut sums);
        }
        let one = V::splat(1.0);
        for (r, sums) in sums.into_iter().enumerate() {
            for (half, sum) in sums.into_iter().enumerate() {
                let at = c.offset(r as isize * stride).add(half * V::LANES);
                let sum = if let Some(row) = start.row {
                    sum.add_product(one, V::load(row.as_ptr().add(half * V::LANES)))
                } else if start.times != 0.0 {
                    sum.add_product(V::splat(start.times), V::load(at))
                } else {
                    sum
                };
                sum.store(at);
            }
        }
    }
}

/// A [`Kernel`] of so many rows, those that are left over in the parts that are named.
macro_rules! kernel {
    ($name:ident, $register:ty, $rows:literal, [$($part:literal)*], $(#[$features:meta])?) => {
        pub(crate) struct $name;

        impl Kernel for $name {
            const ROWS: usize = $rows;
            const COLUMNS: usize = 2 * <$register>::LANES;

            #[inline]
            unsafe fn run(a: RowPanel, mut c: *mut f32, block: &Block<'_>) {
                $(#[$features])?
                unsafe fn part<const R: usize, const BY_COLUMNS: bool>(
                    a: *const f32,
                    stride_of_a: usize,
                    c: *mut f32,
                    block: &Block<'_>,
                ) {
                    // SAFETY: the caller's promise.
                    unsafe { product::<$register, R, BY_COLUMNS>(a, stride_of_a, c, block) }
                }
                let (mut at, mut rows) = (a.start, a.rows);
                // SAFETY: the caller's promise; parts of rows follow each other.
                unsafe {
                    $(
                        while rows >= $part {
                            match a.layout {
                                Layout::Rows(down) => {
                                    part::<$part, false>(at, down, c, block);
                                    at = at.add($part * down);
                                }
                                Layout::Columns(along) => {
                                    part::<$part, true>(at, along, c, block);
                                    at = at.add($part);
                                }
                            }
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
kernel!(Avx512, __m512, 14, [14 8 4 2 1], #[target_feature(enable = "avx512f")]);
#[cfg(target_arch = "x86_64")]
kernel!(Avx2, __m256, 6, [6 2 1], #[target_feature(enable = "avx2,fma")]);
kernel!(Plain, [f32; 4], 6, [6 2 1],);
