//! The operands of a matrix product in the order in which its kernel reads them, in memory that
//! each thread keeps.

use std::cell::Cell;
use std::thread::LocalKey;

use ndarray::{ArrayView1, ArrayView2, ArrayViewMut2, Axis, ShapeBuilder, s};

use crate::elementwise::transpose::transpose;
use crate::prefetch::{self, LINE};
use crate::product::kernel::{DEPTH, Kernel, Layout, ROW_STRIDE, STEPS_AHEAD};
#[cfg(target_arch = "x86_64")]
use crate::product::pairs::{pair_up, room_for_pairs};
use crate::threads::buffers::{buffer, recycle};
use crate::threads::for_each;
use crate::weight::Weight;

/// A few rows of `x`, one after another, in the form in which a kernel reads them.
pub(crate) struct Rows {
    pub(crate) lanes: Vec<f32>,
    /// Number of rows
    pub(crate) count: usize,
    /// Number of lanes in a row
    pub(crate) length: usize,
}

/// Numbers whose packing is not worth a second thread.
const SMALL: usize = 1 << 15;

/// Numbers of `b` that are packed at a time at most, 16 MiB.
pub(crate) const PACKED: usize = 1 << 22;
/// Numbers of `b`, 2 MiB, whose panels each thread keeps.
const FEW: usize = 1 << 19;

/// A cache line, so that no register is loaded from two.
#[derive(Clone, Copy)]
#[repr(align(64))]
pub(crate) struct Line(#[expect(dead_code, reason = "read as numbers")] [f32; LINE]);

thread_local! {
    /// A thread's panels of `a`, and of a small `b`, kept from product to product.
    pub(crate) static A_PANELS: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
    /// Rows of `a` as pairs of bf16, on their way to panels.
    #[cfg(target_arch = "x86_64")]
    static PAIRS: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
    static B_PANELS: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
    /// A part of a matrix on its way to its transpose.
    pub(crate) static BLOCK: Cell<Vec<Line>> = const { Cell::new(Vec::new()) };
}

/// Room for `n` numbers, taken out of the thread's place for it: a thread that waits inside may do
/// another product meanwhile.
pub(crate) fn with_panels<R>(
    key: &'static LocalKey<Cell<Vec<Line>>>,
    n: usize,
    f: impl FnOnce(&mut [f32]) -> R,
) -> R {
    let mut lines = key.take();
    if lines.len() * LINE < n {
        lines.resize(n.div_ceil(LINE), Line([0.0; LINE]));
    }
    // SAFETY: a line is nothing but its numbers.
    let numbers =
        unsafe { std::slice::from_raw_parts_mut(lines.as_mut_ptr().cast(), LINE * lines.len()) };
    let result = f(numbers);
    key.set(lines);
    result
}

/// Space for the panels of `b`; large ones are reused by later products on any thread.
pub(crate) fn with_b_panels(n: usize, f: impl FnOnce(&mut [f32])) {
    if n <= FEW {
        return with_panels(&B_PANELS, n, f);
    }
    let mut room = buffer(PACKED + LINE); // one size for all, of which pages are taken as needed
    let before = room.as_ptr().align_offset(size_of::<Line>());
    if room.len() < before + n {
        room.resize(before + n, 0.0);
    }
    f(&mut room[before..]);
    recycle(room);
}

/// Packs `b` into panels of [`DEPTH`] rows and the kernel's columns, each row-major, first across
/// and then down; missing columns of the last panel are 0.
pub(crate) fn pack_columns<K: Kernel, B: Weight>(
    b: &ArrayView2<B>,
    panels: &mut [f32],
    many: bool,
) {
    let across = b.ncols().div_ceil(K::COLUMNS);
    let depth = DEPTH * K::NUMBERS;
    let count = across * b.nrows().div_ceil(depth);
    let pack = |(i, panel): (usize, &mut [f32])| {
        let (k, j) = (i / across * depth, i % across * K::COLUMNS);
        let rows = k..b.nrows().min(k + depth);
        let b = b.slice(s![rows, j..b.ncols().min(j + K::COLUMNS)]);
        #[cfg(target_arch = "x86_64")]
        if K::NUMBERS == 2 {
            return pack_pairs::<K, B>(&b, panel);
        }
        if b.ncols() == K::COLUMNS && b.strides()[0] == 1 {
            return pack_transpose(b.reversed_axes(), &mut panel[..b.len()]);
        }
        // Of a row some rows ahead the line with its last number; the one with its first, if it is
        // another, came with the panel before.
        let ahead = STEPS_AHEAD as isize * b.strides()[0] + b.ncols() as isize - 1;
        for (b, row) in b.rows().into_iter().zip(panel.chunks_exact_mut(K::COLUMNS)) {
            prefetch::line(b.as_ptr().wrapping_offset(ahead), 0);
            if let Some(b) = b.as_slice().and_then(|b| b.get(..K::COLUMNS)) {
                B::widen(b, row); // of a length that the compiler knows: no call
                continue;
            }
            let (row, rest) = row.split_at_mut(b.len());
            copy(b, row);
            rest.fill(0.0);
        }
    };
    if many && b.len() > SMALL {
        let panels = panels.chunks_exact_mut(DEPTH * K::COLUMNS);
        for_each(panels.take(count).enumerate().collect(), pack);
    } else {
        let panels = panels.chunks_exact_mut(DEPTH * K::COLUMNS);
        panels.take(count).enumerate().for_each(pack);
    }
}

/// A panel of pairs.
#[cfg(target_arch = "x86_64")]
fn pack_pairs<K: Kernel, B: Weight>(b: &ArrayView2<B>, panel: &mut [f32]) {
    with_panels(&BLOCK, room_for_pairs(K::COLUMNS), |room| {
        // SAFETY: only a processor with the instructions has a kernel of pairs.
        let pairs = unsafe { pair_up(&b.t(), room) };
        let steps = pairs.ncols();
        let panel = &mut panel[..steps.next_multiple_of(K::STEPS) * K::COLUMNS];
        let (panel, beyond) = panel.split_at_mut(steps * K::COLUMNS);
        beyond.fill(0.0);
        let panel = ArrayViewMut2::from_shape((steps, K::COLUMNS), panel).expect("as many");
        let (mut to, mut rest) = panel.split_at(Axis(1), pairs.nrows());
        rest.fill(0.0);
        match pairs.strides()[1] {
            // SAFETY: the panel is borrowed for writing.
            1 => unsafe { transpose(&pairs, to.raw_view_mut()) },
            _ => to.assign(&pairs.t()),
        }
    });
}

/// Panels of `a` in pairs: by columns, or, for a kernel of several steps, by rows of whole steps.
#[cfg(target_arch = "x86_64")]
pub(crate) fn pack_rows_of_pairs<K: Kernel, A: Weight>(
    a: &ArrayView2<A>,
    panels: &mut [f32],
) -> RowPanels {
    let (rows, length) = (a.nrows(), a.ncols().div_ceil(K::NUMBERS));
    if K::STEPS == 1 {
        return with_panels(&PAIRS, room_for_pairs(rows), |room| {
            // SAFETY: only a processor with the instructions has a kernel of pairs.
            let pairs = unsafe { pair_up(a, room) };
            pack_rows::<K, f32>(&pairs, panels, None)
        });
    }
    if a.strides()[1] == 1 {
        // SAFETY: as above.
        unsafe { pair_up(a, panels) };
    } else {
        with_panels(&PAIRS, room_for_pairs(rows), |room| {
            let shape = (rows, length).strides((ROW_STRIDE, 1));
            let mut to = ArrayViewMut2::from_shape(shape, &mut *panels).expect("panels have room");
            // SAFETY: as above; the panels are borrowed for writing.
            unsafe { transpose(&pair_up(a, room).t(), to.raw_view_mut()) };
        });
    }
    for row in panels.chunks_exact_mut(ROW_STRIDE).take(rows) {
        row[length..length.next_multiple_of(K::STEPS)].fill(0.0);
    }
    RowPanels {
        start: panels.as_ptr(),
        stride: K::ROWS * ROW_STRIDE,
        layout: Layout::Rows(ROW_STRIDE),
    }
}

/// Rows, each of which becomes a column of the panel.
fn pack_transpose<B: Weight>(rows: ArrayView2<B>, panel: &mut [f32]) {
    let (count, len) = rows.dim();
    let mut panel = ArrayViewMut2::from_shape((len, count), panel).expect("as many elements");
    let mut pack = |rows: &ArrayView2<f32>| {
        // SAFETY: the panel is borrowed for writing.
        unsafe { transpose(rows, panel.raw_view_mut()) };
    };
    if let Some(rows) = B::as_f32(rows) {
        return pack(&rows);
    }
    with_panels(&BLOCK, count * len, |block| {
        let block = &mut block[..count * len];
        for (row, wide) in rows.rows().into_iter().zip(block.chunks_exact_mut(len)) {
            copy(row, wide);
        }
        pack(&ArrayView2::from_shape((count, len), block).expect("as many elements"));
    });
}

/// The panels of `a`.
pub(crate) struct RowPanels {
    pub(crate) start: *const f32,
    /// From panel to panel
    pub(crate) stride: usize,
    /// The order in each
    pub(crate) layout: Layout,
}

/// Numbers that [`pack_rows`] needs for so many rows: for all panels, and for one that is not
/// turned yet.
pub(crate) fn room_for_rows<K: Kernel>(rows: usize) -> usize {
    (rows.next_multiple_of(K::ROWS) + K::ROWS) * ROW_STRIDE
}

/// Packs `a` (rows, at most [`DEPTH`]) into panels of the kernel's rows: by columns for a wide
/// kernel, otherwise along its contiguous dimension. With `in_place`, f32 numbers are read
/// directly.
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
                    Some(part) => A::widen(part, to), // of a length that the compiler knows
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
                // SAFETY: the panel is borrowed for writing.
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
