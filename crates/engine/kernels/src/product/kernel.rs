//! The micro-kernels of the matrix product. A micro-kernel multiplies a row panel of `A` by a
//! column panel of `B` and keeps the sums of its tile of `C` in vector registers
//! ([`product`](super) explains these terms).
//!
//! The code is generic over the type of the vector registers, so all instruction sets share it. The
//! size of a tile depends on the number of vector registers that the instruction set provides and
//! on the number of lanes in each of them.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use ndarray::ArrayView2;

use crate::prefetch::{self, LINE};
use crate::register::Register;

/// The initial value of the matrix `C` in a product `C = start + A B`: either a multiple of the
/// previous contents of `C` or a row that is added to each row of the product.
#[derive(Clone, Copy)]
pub(crate) struct Start<'a> {
    /// Factor by which the previous contents of `C` are multiplied. If it is 0, `C` isn't read and
    /// may be uninitialized.
    pub(crate) beta: f32,
    /// Row that is added to each row of the product, such as the bias of a linear layer. If there
    /// is a row, the previous contents of `C` are ignored, and `beta` must be 0.
    pub(crate) row: Option<&'a [f32]>,
}

impl Start<'_> {
    /// Returns the initial value `beta * C`.
    pub(crate) fn beta(beta: f32) -> Self {
        Self { beta, row: None }
    }

    /// Returns the part of this initial value that applies to the columns of `C` from index `j`
    /// onward. A task that computes only these columns uses it.
    pub(crate) fn at_column(self, j: usize) -> Self {
        let row = self.row.map(|row| &row[j..]);
        Self { row, ..self }
    }
}

/// Rows of `A` that a micro-kernel reads, either from a packed panel or directly from the matrix.
#[derive(Clone, Copy)]
pub(crate) struct RowPanel {
    pub(crate) start: *const f32,
    /// Number of rows, from 1 to [`Kernel::ROWS`].
    pub(crate) rows: usize,
    pub(crate) layout: Layout,
}

/// The order in which the values of a row panel are stored. The variants measure the distance
/// between consecutive rows or columns in lanes of 32 bits.
#[derive(Clone, Copy)]
pub(crate) enum Layout {
    /// The values of each row are contiguous. The variant contains the distance between the
    /// beginnings of consecutive rows. Of the kernels with wide registers ([`Kernel::WIDE`]), only
    /// the AMX kernel supports this layout.
    Rows(usize),
    /// The values of each column are contiguous. The variant contains the distance between the
    /// beginnings of consecutive columns.
    Columns(usize),
    /// The values of each column are contiguous, and the beginnings of consecutive columns are
    /// [`Kernel::ROWS`] lanes apart. The compiler knows this distance, so it generates fewer
    /// instructions than for [`Self::Columns`].
    Packed,
}

impl Layout {
    /// Returns the memory layout of the matrix `a`, so that a micro-kernel can read its rows
    /// without packing them first. Returns `None` if neither the rows nor the columns of `a` are
    /// contiguous.
    pub(crate) fn of<T>(a: &ArrayView2<T>) -> Option<Self> {
        match *a.strides() {
            [1, along] if along > 1 => Some(Self::Columns(along as usize)),
            [down, 1] if down > 0 => Some(Self::Rows(down as usize)),
            _ => None,
        }
    }
}

/// A packed panel of `B` with [`Kernel::COLUMNS`] columns, which is stored row by row.
#[derive(Clone, Copy)]
pub(crate) struct ColumnPanel {
    pub(crate) start: *const f32,
    /// Address from which the kernel prefetches data that it will need later, usually a part of a
    /// later column panel. While a kernel with wide registers multiplies the current panel, it
    /// prefetches memory from this address onward into the L2 cache, one cache line every four
    /// steps.
    pub(crate) next: *const f32,
}

/// The arguments of a micro-kernel ([`Kernel::run`]) other than the row panel of `A` and the
/// address of the tile of `C`.
///
/// The fields of this struct must be read one by one. The caller writes them one by one shortly
/// before the micro-kernel reads them. If the kernel loaded several of these fields with one wide
/// instruction, the CPU would first have to wait until all of the writes have reached the cache.
pub(crate) struct Block<'a> {
    pub(crate) b: ColumnPanel,
    /// Number of steps along the inner dimension, at most [`DEPTH`].
    pub(crate) depth: usize,
    /// Distance between rows of `C`, in `f32` values.
    pub(crate) stride: isize,
    pub(crate) start: Start<'a>,
    /// Number of columns of the tile of `C`, from 1 to [`Kernel::COLUMNS`].
    pub(crate) columns: usize,
}

/// Largest number of steps in a block of the inner dimension (`KC` in BLIS). It determines the
/// order in which the products are added, so changing it changes the last bits of results.
pub(crate) const DEPTH: usize = 384;
/// Distance, in lanes, between the beginnings of consecutive rows in a panel that is stored row by
/// row. It is greater than [`DEPTH`] because `DEPTH` is a multiple of 128. Rows at a distance that
/// is a multiple of a large power of two would compete for the same few lines of the L1 cache.
pub(crate) const ROW_STRIDE: usize = DEPTH + 16;

/// Number of steps along the inner dimension that a micro-kernel executes in each iteration of its
/// main loop. In other words, the loop is unrolled this many times.
const UNROLL: usize = 4;
/// Number of `f32` values that a kernel prefetches per step along the inner dimension, from a
/// column panel that it will need later. It is a quarter of a cache line, because the kernel
/// prefetches one line every four steps. By the time the kernel has multiplied eight row panels by
/// the current block of [`Kernel::COLUMN_BLOCK`] columns, it has prefetched the entire next block.
pub(crate) const PREFETCH_PER_STEP: usize = LINE / UNROLL;
/// Number of steps after which a prefetched column of `A` or row of `B` is used. For example, while
/// step 0 is executed, the data of step 16 is prefetched. The hardware prefetcher wouldn't load
/// this data, because consecutive columns or rows may be on different memory pages.
pub(crate) const STEPS_AHEAD: usize = 16;

/// A micro-kernel for one instruction set.
pub(crate) trait Kernel {
    /// Number of rows of the register tile (`MR` in BLIS).
    const ROWS: usize;
    /// Number of columns of the register tile (`NR` in BLIS).
    const COLUMNS: usize;
    /// Whether a vector register of this kernel is as large as a cache line (64 bytes), as with
    /// AVX-512. In this case, a tile of `C` is two cache lines wide.
    const WIDE: bool = Self::COLUMNS == 2 * LINE;
    /// Number of columns in a block of `B`. A task multiplies all of its rows of `A` by one block
    /// before it continues with the next block. A block of 256 columns occupies 400 KB of the L2
    /// cache, and the next block, which is prefetched in the meantime, occupies another 400 KB.
    /// Kernels with narrower registers use blocks of 64 columns (100 KB), because they run on CPUs
    /// whose L2 cache may be as small as 512 KB.
    const COLUMN_BLOCK: usize = if Self::WIDE { 256 } else { 64 };
    /// Number of values along the inner dimension that are stored in one 32-bit lane. It is 1 for
    /// `f32` and 2 for bf16.
    const VALUES_PER_LANE: usize;
    /// Number of steps along the inner dimension that a single instruction of the kernel executes.
    /// It is 16 for AMX and 1 for all other kernels. Panels are padded with zeros to a multiple of
    /// this number of steps. If the number is greater than 1, `A` is packed row by row.
    #[cfg(target_arch = "x86_64")]
    const STEP_MULTIPLE: usize = 1;

    /// Prepares the calling thread for calls of [`Self::run`], if the instruction set requires it.
    /// For example, AMX requires that the tile registers are configured. After the last call of
    /// `run`, the thread must call [`Self::end`].
    ///
    /// # Safety
    ///
    /// The CPU must support the instruction set of the kernel.
    unsafe fn begin() {}

    /// Ends the use of this kernel on the calling thread by undoing the effects of [`Self::begin`].
    ///
    /// # Safety
    ///
    /// The CPU must support the instruction set of the kernel.
    unsafe fn end() {}

    /// Computes `C = start + A B` for a row panel of `A` and a column panel of `B`.
    ///
    /// For each element of `C`, the products are added in the order of the inner dimension.
    /// Finally, the initial value in `block.start` is added to the sum of the products.
    ///
    /// # Safety
    ///
    /// - The row panel `a` must contain `block.depth` readable columns.
    /// - The panel `block.b` must contain `block.depth` rows of [`Self::COLUMNS`] readable values.
    /// - `c` must be writable for `a.rows` rows and `block.columns` columns. It must be initialized
    ///   if `block.start` refers to its previous contents.
    /// - If `block.start` contains a row, this row must have at least `block.columns` values.
    /// - The CPU must support the instruction set of the kernel.
    unsafe fn run(a: RowPanel, c: *mut f32, block: &Block<'_>);
}

/// Value of the const parameter `WAY` that selects the variant of a micro-kernel for row panels of
/// `A` in the layout [`Layout::Rows`].
const ROWS: u8 = 0;
/// Value of the const parameter `WAY` that selects the variant of a micro-kernel for row panels of
/// `A` in the layout [`Layout::Columns`].
const COLUMNS: u8 = 1;
/// Value of the const parameter `WAY` that selects the variant of a micro-kernel for row panels of
/// `A` in the layout [`Layout::Packed`].
const PACKED: u8 = 2;

/// Number of rows in a tile of the AVX-512 kernels. A tile is two registers wide, so the sums of 14
/// rows occupy 28 of the 32 registers. The remaining four registers hold the operands of a step.
const WIDE_ROWS: usize = 14;

/// The operation with which a micro-kernel multiplies two vector registers of type `V` and adds the
/// result to a third one. Its implementations differ in what a lane contains: an `f32` or two bf16
/// values.
pub(crate) trait Multiply<V> {
    /// Returns `sum + a * b` in each lane.
    ///
    /// # Safety
    ///
    /// The CPU must support the instruction set of the register.
    unsafe fn add_product(sum: V, a: V, b: V) -> V;
}

/// Multiplication of lanes that contain an `f32`.
pub(crate) struct OfF32;

impl<V: Register> Multiply<V> for OfF32 {
    #[inline(always)]
    unsafe fn add_product(sum: V, a: V, b: V) -> V {
        // SAFETY: The caller guarantees that the CPU supports the instruction set.
        unsafe { sum.add_product(a, b) }
    }
}

/// Multiplication of lanes that contain two bf16 values each. Both products of a lane are added to
/// the `f32` sum in that lane.
#[cfg(target_arch = "x86_64")]
pub(crate) struct OfPairs;

#[cfg(target_arch = "x86_64")]
impl Multiply<__m512> for OfPairs {
    #[inline(always)]
    unsafe fn add_product(sum: __m512, a: __m512, b: __m512) -> __m512 {
        // SAFETY: The caller guarantees that the CPU supports AVX512-BF16. The conversion from
        // `__m512` to `__m512bh` is valid because both types have 512 bits, and all combinations of
        // bits are valid.
        unsafe {
            let [a, b] = [a, b].map(|lanes| std::mem::transmute::<__m512, __m512bh>(lanes));
            _mm512_dpbf16_ps(sum, a, b)
        }
    }
}

/// Executes one step of a micro-kernel: multiplies a column of `R` values of `A` by a row of `B`
/// that occupies `N` vector registers, and adds the products to the `R * N` registers in `sums`.
/// `a` points to the column of `A`, and `b` points to the row of `B`. In `A`, consecutive rows are
/// `down` lanes apart, and consecutive columns are `along` lanes apart.
///
/// # Safety
///
/// `R` values of the column at `a` and the values for `N` registers at `b` must be readable, and
/// the CPU must support the instruction set of the register type `V`.
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
        prefetch::line(a.wrapping_add(R - 1), 0); // The column may extend into a second line.
    }
    // SAFETY: The caller guarantees that the `R` values of the column at `a` and the `N` registers
    // of the row at `b` are readable, and that the CPU supports the instruction set of `V`.
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

/// Implements the micro-kernel [`Kernel::run`] for a tile of `C` that is `R` rows high and `N`
/// vector registers wide. If `C` has fewer columns than the tile, only the last register of each
/// row may be incomplete. `stride_of_a` is the distance between consecutive rows of `a` if `WAY` is
/// `ROWS`, and the distance between consecutive columns if `WAY` is `COLUMNS`.
///
/// # Safety
///
/// The safety requirements of [`Kernel::run`] apply.
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
    // SAFETY: The caller guarantees that the panels of `A` and `B` are readable, that the tile of
    // `C` is writable and that the CPU supports the instruction set. All offsets stay within the
    // panels and the tile.
    unsafe {
        let mut sums = [[V::splat(0.0); N]; R];
        let mut k = 0;
        // Each iteration executes several steps to reduce the overhead of the loop, because the
        // arithmetic of the micro-kernel leaves the CPU hardly any time for other instructions.
        while k + UNROLL <= depth {
            if V::LANES == LINE {
                prefetch::far_line(b.next.wrapping_add(PREFETCH_PER_STEP * k), 0);
            }
            for k in k..k + UNROLL {
                let (a, b) = (a.add(k * strides.1), b.start.add(2 * V::LANES * k));
                step::<V, M, R, N, WAY>(a, strides, b, &mut sums);
            }
            k += UNROLL;
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

/// Stores a vector register of sums, which a micro-kernel has computed, in a row of the matrix `C`:
/// adds the initial value `start` to `sum` and writes the first `lanes` lanes of the result to
/// `row_of_c`, beginning at column `before`.
///
/// # Safety
///
/// In the row `row_of_c` of `C`, the `lanes` columns that begin at column `before` must be
/// writable. They must be initialized if `start` refers to the previous contents of `C`. If `start`
/// contains a row, such as a bias, this row must have values for the same columns. The CPU must
/// support the instruction set of the register type `V`.
#[inline(always)]
pub(crate) unsafe fn store_sum<V: Register>(
    sum: V,
    row_of_c: *mut f32,
    before: usize,
    lanes: usize,
    start: Start<'_>,
) {
    // SAFETY: The caller guarantees that the `lanes` columns of `row_of_c` that begin at column
    // `before` are writable, that all values to which `start` refers are initialized, and that the
    // CPU supports the instruction set.
    unsafe {
        let at = row_of_c.add(before);
        let sum = if let Some(row) = start.row {
            sum.add_product(
                V::splat(1.0),
                V::load_first(row.as_ptr().add(before), lanes),
            )
        } else if start.beta != 0.0 {
            sum.add_product(V::splat(start.beta), V::load_first(at, lanes))
        } else {
            sum
        };
        sum.store_first(at, lanes);
    }
}

/// Defines a [`Kernel`] for row panels of `$rows` rows. A panel with fewer rows is divided into
/// parts whose sizes are taken from the given list. For example, with the list `[6 2 1]`, five rows
/// are divided into parts of 2, 2 and 1. The kernel is compiled for two layouts of row panels,
/// `COLUMNS` and `$way`.
macro_rules! kernel {
    ($name:ident, $register:ty, $multiply:ty, $numbers:literal, $rows:expr, [$($part:literal)*], $way:ident, $(#[$features:meta])?) => {
        pub(crate) struct $name;

        impl Kernel for $name {
            const ROWS: usize = $rows;
            const COLUMNS: usize = 2 * <$register>::LANES;
            const VALUES_PER_LANE: usize = $numbers;

            #[inline]
            unsafe fn run(a: RowPanel, mut c: *mut f32, block: &Block<'_>) {
                $(#[$features])?
                unsafe fn part<const R: usize, const N: usize, const WAY: u8>(
                    a: *const f32,
                    stride_of_a: usize,
                    c: *mut f32,
                    block: &Block<'_>,
                ) {
                    // SAFETY: The caller guarantees that the panels are readable, that the tile of
                    // `C` is writable and that the CPU supports the instruction set.
                    unsafe { product::<$register, $multiply, R, N, WAY>(a, stride_of_a, c, block) }
                }
                let narrow = block.columns <= <$register>::LANES;
                let (down, stride, in_place) = match a.layout {
                    Layout::Rows(down) => (down, down, false),
                    Layout::Columns(along) => (1, along, true),
                    Layout::Packed => (1, $rows, false),
                };
                let (mut at, mut rows) = (a.start, a.rows);
                // SAFETY: The caller guarantees that all rows of the row panel are readable and
                // that the same number of rows of `c` is writable. After each part, the loop
                // advances `at` and `c` by the number of rows in this part, so no part extends
                // beyond the panel.
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
