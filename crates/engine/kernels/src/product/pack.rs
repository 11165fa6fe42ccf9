//! Packing of the operands of a product into the panels that a micro-kernel reads, and management
//! of the panels' memory. [`product`](super) explains the terms.

use std::cell::Cell;
use std::ops::Range;
use std::thread::LocalKey;

use ndarray::{ArrayRef2, ArrayView1, ArrayView2, ArrayViewMut2, Axis, ShapeBuilder, s};

use crate::elementwise::transpose::transpose;
use crate::prefetch::{self, LINE};
use crate::product::kernel::{DEPTH, Kernel, Layout, ROW_STRIDE, STEPS_AHEAD};
#[cfg(target_arch = "x86_64")]
use crate::product::pairs::{pair_up, room_for_pairs};
use crate::threads::buffers::{buffer, recycle};
use crate::threads::for_each;
use crate::weight::Weight;

/// A left operand with few rows, stored in the format that the kernels in the module `few_rows`
/// expect.
pub(crate) struct Rows {
    pub(crate) lanes: Vec<f32>,
    /// Number of rows of the operand.
    pub(crate) count: usize,
    /// Number of 32-bit lanes in which a row of the operand is stored. A lane contains either one
    /// `f32` value or two bf16 values.
    pub(crate) length: usize,
}

/// Number of values of `B` above which several threads share the work of packing them.
const MIN_PARALLEL_VALUES: usize = 1 << 15;

/// Largest number of values of `B` that are packed at a time. Their panels occupy 16 MiB.
pub(crate) const MAX_PACKED_VALUES: usize = 1 << 22;
/// Maximum number of packed values of `B` for which a thread uses its own buffer, which it keeps
/// for later products. The buffer occupies at most 2 MiB per thread.
const MAX_THREAD_LOCAL_VALUES: usize = 1 << 19;

/// The contents of a cache line. A vector of cache lines is aligned in memory in such a way that
/// loading a vector register never accesses two lines.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Line(#[expect(dead_code, reason = "read as numbers")] [f32; LINE]);

thread_local! {
    /// Memory for the panels into which a thread packs `A`. Each thread keeps it for later
    /// products, so that packing doesn't allocate memory each time. `B_PANELS` has the same purpose
    /// for small matrices `B`.
    pub(crate) static A_PANELS: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
    /// Memory for rows of `A` that have been rounded to pairs of bf16 values and are about to be
    /// packed.
    #[cfg(target_arch = "x86_64")]
    static PAIRS: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
    static B_PANELS: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
    /// Memory for temporary copies of parts of a matrix, such as rows that are about to be
    /// transposed.
    pub(crate) static BLOCK: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Calls `f` with a slice of at least `n` values from the thread-local buffer `key`. The initial
/// contents of the slice are unspecified.
///
/// While `f` runs, `key` contains an empty buffer, because `f` is using the original one. This is
/// safe even if `f` waits for other threads and this thread computes another matrix product in the
/// meantime: that product allocates a new buffer.
pub(crate) fn with_panels<R>(
    key: &'static LocalKey<Cell<Vec<Line>>>,
    n: usize,
    f: impl FnOnce(&mut [f32]) -> R,
) -> R {
    let mut lines = key.take();
    if lines.len() * LINE < n {
        lines.resize(n.div_ceil(LINE), Line([0.0; LINE]));
    }
    // SAFETY: A [`Line`] consists of `LINE` values of type `f32` without padding, so the slice
    // covers exactly the memory of the lines.
    let numbers =
        unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), LINE * lines.len()) };
    let result = f(numbers);
    key.set(lines);
    result
}

/// Calls `f` with a slice of at least `n` values for panels of `B`. The initial contents of the
/// slice are unspecified.
///
/// If `n` is small, the slice is part of memory that the thread keeps for later products.
/// Otherwise, the memory comes from the pool of [`buffer`], so that later products on any thread
/// can reuse it.
pub(crate) fn with_b_panels(n: usize, f: impl FnOnce(&mut [f32])) {
    if n <= MAX_THREAD_LOCAL_VALUES {
        return with_panels(&B_PANELS, n, f);
    }
    // All large buffers are requested with the same size, so that a buffer of one product can be
    // reused by any other product. A buffer that is larger than necessary wastes no memory, because
    // the operating system provides only those pages to which a product writes.
    let mut room = buffer(MAX_PACKED_VALUES + LINE);
    let before = room.as_ptr().align_offset(size_of::<Line>());
    if room.len() < before + n {
        room.resize(before + n, 0.0);
    }
    f(&mut room[before..]);
    recycle(room);
}

/// The right operand of a product, whose values can be packed into column panels.
pub(crate) trait RightOperand: Sync {
    /// Packs the given rows and columns of this operand into a column panel, row by row. There must
    /// be at most [`Kernel::COLUMNS`] columns. If there are fewer, the rest of each row of the
    /// panel is filled with zeros.
    fn pack_panel<K: Kernel>(&self, rows: Range<usize>, columns: Range<usize>, panel: &mut [f32]);
}

/// Packs the given rows and columns of `b` into column panels. Each panel contains up to [`DEPTH`]
/// steps along the inner dimension and [`Kernel::COLUMNS`] columns.
///
/// The panels for the first `DEPTH` steps are stored first, from left to right, followed by the
/// panels for the next `DEPTH` steps, and so on. If `many` is true and there are enough values, the
/// threads of the pool share the work. Otherwise, the calling thread packs all panels.
pub(crate) fn pack_columns<K: Kernel>(
    b: &(impl RightOperand + ?Sized),
    rows: Range<usize>,
    columns: Range<usize>,
    panels: &mut [f32],
    many: bool,
) {
    let across = columns.len().div_ceil(K::COLUMNS);
    let depth = DEPTH * K::VALUES_PER_LANE;
    let count = across * rows.len().div_ceil(depth);
    let pack = |(i, panel): (usize, &mut [f32])| {
        let k = rows.start + i / across * depth;
        let j = columns.start + i % across * K::COLUMNS;
        let (rows, columns) = (
            k..rows.end.min(k + depth),
            j..columns.end.min(j + K::COLUMNS),
        );
        b.pack_panel::<K>(rows, columns, panel);
    };
    let large = rows.len() * columns.len() > MIN_PARALLEL_VALUES;
    let panels = panels
        .chunks_exact_mut(DEPTH * K::COLUMNS)
        .take(count)
        .enumerate();
    match many && large {
        true => for_each(panels.collect(), pack),
        false => panels.for_each(pack),
    }
}

impl<B: Weight> RightOperand for ArrayRef2<B> {
    fn pack_panel<K: Kernel>(&self, rows: Range<usize>, columns: Range<usize>, panel: &mut [f32]) {
        let b = self.slice(s![rows, columns]);
        #[cfg(target_arch = "x86_64")]
        if K::VALUES_PER_LANE == 2 {
            return pack_pairs::<K, B>(&b, panel);
        }
        if b.ncols() == K::COLUMNS
            && b.strides()[0] == 1
            && let Some(rows) = B::as_f32(b.reversed_axes())
        {
            return pack_transpose(&rows, &mut panel[..b.len()]);
        }
        // While a row of `B` is packed, the row that follows `STEPS_AHEAD` rows later is
        // prefetched. It is enough to prefetch the cache line that contains the last value that
        // this panel needs from that row. If the first value is in an earlier line, that line was
        // already prefetched for the panel on the left.
        let ahead = STEPS_AHEAD as isize * b.strides()[0] + b.ncols() as isize - 1;
        for (b, row) in b.rows().into_iter().zip(panel.chunks_exact_mut(K::COLUMNS)) {
            prefetch::line(b.as_ptr().wrapping_offset(ahead), 0);
            if let Some(b) = b.as_slice().and_then(|b| b.get(..K::COLUMNS)) {
                // `get` has returned exactly `K::COLUMNS` values. Because the compiler knows this
                // length, it inlines the loop that converts the values to `f32`.
                B::widen(b, row);
                continue;
            }
            let (row, rest) = row.split_at_mut(b.len());
            copy(b, row);
            rest.fill(0.0);
        }
    }
}

/// Packs a column panel for a kernel that multiplies pairs of bf16 values.
#[cfg(target_arch = "x86_64")]
fn pack_pairs<K: Kernel, B: Weight>(b: &ArrayView2<B>, panel: &mut [f32]) {
    with_panels(&BLOCK, room_for_pairs(K::COLUMNS), |room| {
        // SAFETY: Kernels that multiply pairs of bf16 values are used only if the CPU supports
        // AVX512-BF16 and AVX512-BW.
        let pairs = unsafe { pair_up(&b.t(), room) };
        let steps = pairs.ncols();
        let panel = &mut panel[..steps.next_multiple_of(K::STEP_MULTIPLE) * K::COLUMNS];
        let (panel, beyond) = panel.split_at_mut(steps * K::COLUMNS);
        beyond.fill(0.0);
        let panel = ArrayViewMut2::from_shape((steps, K::COLUMNS), panel).expect("as many");
        let (mut to, mut rest) = panel.split_at(Axis(1), pairs.nrows());
        rest.fill(0.0);
        match pairs.strides()[1] {
            // SAFETY: `to` is a mutable borrow of the column panel's memory, so it doesn't overlap
            // `pairs`, the source of the transposition.
            1 => unsafe { transpose(&pairs, to.raw_view_mut()) },
            _ => to.assign(&pairs.t()),
        }
    });
}

/// Rounds the values of `a` to bf16 and packs pairs of neighboring values into row panels. If a
/// single instruction of the kernel executes several steps along the inner dimension, as with AMX,
/// each panel is stored row by row. Otherwise, it is stored column by column.
#[cfg(target_arch = "x86_64")]
pub(crate) fn pack_rows_of_pairs<K: Kernel, A: Weight>(
    a: &ArrayView2<A>,
    panels: &mut [f32],
) -> RowPanels {
    let (rows, length) = (a.nrows(), a.ncols().div_ceil(K::VALUES_PER_LANE));
    if K::STEP_MULTIPLE == 1 {
        return with_panels(&PAIRS, room_for_pairs(rows), |room| {
            // SAFETY: Kernels that multiply pairs of bf16 values are used only if the CPU supports
            // AVX512-BF16 and AVX512-BW.
            let pairs = unsafe { pair_up(a, room) };
            pack_rows::<K, f32>(&pairs, panels, None)
        });
    }
    if a.strides()[1] == 1 {
        // SAFETY: Kernels that multiply pairs of bf16 values are used only if the CPU supports
        // AVX512-BF16 and AVX512-BW.
        unsafe { pair_up(a, panels) };
    } else {
        with_panels(&PAIRS, room_for_pairs(rows), |room| {
            let shape = (rows, length).strides((ROW_STRIDE, 1));
            let mut to = ArrayViewMut2::from_shape(shape, &mut *panels).expect("panels have room");
            // SAFETY: Kernels that multiply pairs of bf16 values are used only if the CPU supports
            // AVX512-BF16 and AVX512-BW. The transposition writes to `to`, a mutable borrow of the
            // panels, which doesn't overlap its source, the memory in `room`.
            unsafe { transpose(&pair_up(a, room).t(), to.raw_view_mut()) };
        });
    }
    for row in panels.chunks_exact_mut(ROW_STRIDE).take(rows) {
        row[length..length.next_multiple_of(K::STEP_MULTIPLE)].fill(0.0);
    }
    RowPanels {
        start: panels.as_ptr(),
        stride: K::ROWS * ROW_STRIDE,
        layout: Layout::Rows(ROW_STRIDE),
    }
}

/// Packs a part of `B` whose columns are contiguous into a column panel, by transposing it. The
/// argument `rows` is the transpose of this part, so each of its rows is a column of `B`.
fn pack_transpose(rows: &ArrayView2<f32>, panel: &mut [f32]) {
    let (count, len) = rows.dim();
    let mut panel = ArrayViewMut2::from_shape((len, count), panel).expect("as many elements");
    // SAFETY: `panel` is a mutable borrow, so it doesn't overlap `rows`.
    unsafe { transpose(rows, panel.raw_view_mut()) };
}

/// The row panels of `A`, which are either packed copies of its rows or the rows themselves.
pub(crate) struct RowPanels {
    pub(crate) start: *const f32,
    /// Distance between the beginnings of consecutive panels, in lanes.
    pub(crate) stride: usize,
    /// Layout of each panel.
    pub(crate) layout: Layout,
}

/// Returns the size, in `f32` values, of the buffer that [`pack_rows`] needs to pack `rows` rows of
/// `A`. The buffer includes space for one additional panel, in which rows are stored temporarily
/// before they are transposed.
pub(crate) fn room_for_rows<K: Kernel>(rows: usize) -> usize {
    (rows.next_multiple_of(K::ROWS) + K::ROWS) * ROW_STRIDE
}

/// Packs the rows of `a`, which must have at most [`DEPTH`] columns, into row panels.
///
/// The panels are stored column by column if the kernel is wide ([`Kernel::WIDE`]) or the columns
/// of `a` are contiguous, and otherwise row by row. However, if `in_place` contains a layout and
/// the elements of `a` are `f32`, nothing is copied. In this case, the kernel reads `a` directly:
/// the returned panels refer to the memory of `a`, whose layout is `in_place`.
pub(crate) fn pack_rows<K: Kernel, A: Weight>(
    a: &ArrayView2<A>,
    panels: &mut [f32],
    in_place: Option<Layout>,
) -> RowPanels {
    if let (Some(layout), Some(a)) = (in_place, A::as_f32(*a)) {
        return RowPanels {
            start: a.as_ptr(),
            stride: match layout {
                Layout::Rows(down) => K::ROWS * down,
                _ => K::ROWS,
            },
            layout,
        };
    }
    let by_columns = matches!(Layout::of(a), Some(Layout::Columns(_)));
    let size = K::ROWS * ROW_STRIDE;
    let (panels, rows_of_one) = panels.split_at_mut(panels.len() - size);
    if by_columns {
        for (k, column) in a.columns().into_iter().enumerate() {
            let ahead = STEPS_AHEAD * a.strides()[1] as usize;
            for at in (0..column.len()).step_by(LINE) {
                prefetch::line(column.as_ptr().wrapping_add(ahead + at), 0);
            }
            let column = column.to_slice().expect("a contiguous column");
            for (part, panel) in column.chunks(K::ROWS).zip(panels.chunks_exact_mut(size)) {
                let to = &mut panel[k * K::ROWS..][..K::ROWS];
                match part.get(..K::ROWS) {
                    // The compiler knows the length of this slice.
                    Some(part) => A::widen(part, to),
                    None => A::widen(part, &mut to[..part.len()]),
                }
            }
        }
    } else {
        let parts = a.axis_chunks_iter(Axis(0), K::ROWS);
        for (a, panel) in parts.zip(panels.chunks_exact_mut(size)) {
            let in_rows = |panel: &mut [f32]| {
                for (row, to) in a.rows().into_iter().zip(panel.chunks_exact_mut(ROW_STRIDE)) {
                    copy(row, &mut to[..row.len()]);
                }
            };
            if !K::WIDE {
                in_rows(panel);
                continue;
            }
            let (rows, depth) = a.dim();
            let columns = (depth, rows).strides((K::ROWS, 1));
            let columns = ArrayViewMut2::from_shape(columns, panel).expect("a panel has room");
            let turn = |a: &ArrayView2<f32>, mut columns: ArrayViewMut2<f32>| {
                // SAFETY: `columns` is a mutable borrow of the row panel's memory, so it doesn't
                // overlap `a`, the source of the transposition.
                unsafe { transpose(a, columns.raw_view_mut()) };
            };
            match A::as_f32(a).filter(|a| a.strides()[1] == 1) {
                Some(a) => turn(&a, columns),
                None => {
                    in_rows(rows_of_one);
                    let a = (rows, depth).strides((ROW_STRIDE, 1));
                    let a = ArrayView2::from_shape(a, rows_of_one).expect("a panel has room");
                    turn(&a, columns);
                }
            }
        }
    }
    RowPanels {
        start: panels.as_ptr(),
        stride: size,
        layout: match by_columns {
            _ if K::WIDE => Layout::Packed,
            true => Layout::Columns(K::ROWS),
            false => Layout::Rows(ROW_STRIDE),
        },
    }
}

fn copy<T: Weight>(from: ArrayView1<T>, to: &mut [f32]) {
    match from.as_slice() {
        Some(from) => T::widen(from, to),
        None => (to.iter_mut().zip(from)).for_each(|(to, x)| *to = x.value()),
    }
}
