//! A product in tiles: which part of the matrices a task takes, and in which order it walks through
//! them.

use std::mem::MaybeUninit;

use ndarray::{ArrayRef2, ArrayView2, ArrayViewMut2, Axis, s};

use crate::elementwise::transpose::transpose;
use crate::prefetch::{self, LINE};
use crate::product::kernel::{Block, ColumnPanel, DEPTH, Kernel, Layout, NEXT, RowPanel, Start};
#[cfg(target_arch = "x86_64")]
use crate::product::pack::pack_rows_of_pairs;
use crate::product::pack::{
    A_PANELS, BLOCK, PACKED, RowPanels, pack_columns, pack_rows, room_for_rows, with_b_panels,
    with_panels,
};
use crate::threads::for_each;
use crate::weight::Weight;

/// Rows of a task at most: its panels of `a`, 220 KB, stay in the second cache beside
/// [`Kernel::WIDTH`] columns of `b`.
const ROWS: usize = 140;
/// The fewest columns of a task if there are too few rows for all threads: each task packs its rows
/// of `a` again.
const FEWEST_COLUMNS: usize = 256;
/// The inner dimension of `b` that is packed at a time at most.
const DEEPEST: usize = 10 * DEPTH;
/// Tasks per thread, to balance other load on the machine.
const TASKS_PER_THREAD: usize = 3;
/// Tasks a thread of which one more or less doesn't matter.
const MANY_TASKS: usize = 8;
/// Numbers of `a`, 512 KB, that a core's cache holds beside all else: its rows or columns need not
/// be packed.
const CACHED: usize = 1 << 17;
/// Numbers of 4 KiB: rows that are a multiple of it apart share the lines of the first cache.
const PAGE: usize = 1024;
/// From this many columns of `b` on, packing the columns of `a` pays: a panel's rows are part of a
/// cache line that is read again for each panel.
const WORTH_PACKING: usize = 256;
/// Multiplications of a task at least: handing it out takes some microseconds.
const TASK: usize = 1 << 18;

/// Bytes that a thread packs at a time of a `b` of (inner, columns), and keeps; for memory
/// estimates.
pub fn packed_bytes(inner: usize, columns: usize) -> usize {
    let deep = inner.clamp(1, DEEPEST).next_multiple_of(DEPTH);
    let wide = columns.min(PACKED).next_multiple_of(64); // as many as a kernel has at most
    size_of::<f32>() * deep.saturating_mul(wide).min(PACKED)
}

/// The threads of a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The caller already works in parallel.
    One,
    /// Rayon's pool.
    Pool,
}

/// `c = start + a b` by this kernel.
///
/// # Safety
/// `c` must be initialised if `start` reads it; the CPU must have the kernel's instructions.
pub(crate) unsafe fn multiply_by<K: Kernel, A: Weight, B: Weight>(
    a: &ArrayRef2<A>,
    b: &ArrayRef2<B>,
    start: Start<'_>,
    mut c: ArrayViewMut2<MaybeUninit<f32>>,
    threads: Threads,
) {
    let ((m, n), inner) = (c.dim(), a.ncols().div_ceil(K::NUMBERS));
    let many = match threads {
        Threads::One => 1,
        Threads::Pool => rayon::current_num_threads().min((m * n * inner / TASK).max(1)),
    };
    let numbers = |k: usize| (k * K::NUMBERS).min(a.ncols());
    let deep = inner.clamp(1, DEEPEST);
    let wide = (PACKED / deep.next_multiple_of(DEPTH) / K::COLUMNS * K::COLUMNS).min(n);
    let room = deep.next_multiple_of(DEPTH) * wide.next_multiple_of(K::COLUMNS);
    with_b_panels(room, |panels| {
        for j in (0..n).step_by(wide) {
            // Once even without an inner dimension, for the initial summand.
            for k in (0..inner.max(1)).step_by(deep) {
                let (columns, depths) = (j..n.min(j + wide), numbers(k)..numbers(k + deep));
                let a = a.slice(s![.., depths.clone()]);
                let b = b.slice(s![depths, columns.clone()]);
                let start = match k {
                    0 => start.at_column(j),
                    _ => Start::times(1.0),
                };
                pack_columns::<K, B>(&b, panels, many > 1);
                let c = c.slice_mut(s![.., columns]);
                // SAFETY: the caller's promise; a product may add to the results of the previous
                // one.
                unsafe { share_out::<K, A>(&a, panels, start, c, many) };
            }
        }
    });
}

/// Tasks of some rows, and of some columns where the rows are too few for so many threads.
///
/// # Safety
/// As [`multiply_by`].
unsafe fn share_out<K: Kernel, A: Weight>(
    a: &ArrayView2<A>,
    b: &[f32],
    start: Start<'_>,
    mut c: ArrayViewMut2<MaybeUninit<f32>>,
    many: usize,
) {
    let (m, n) = c.dim();
    let panels = m.div_ceil(K::ROWS);
    let (down, across) = grid::<K>(panels, n, many);
    // SAFETY: the caller's promise, for each part of `c`.
    let work = |(a, j, c)| unsafe { task::<K, A>(a, b, n, j, start, c) };
    if (down, across) == (1, 1) {
        return work((a.view(), 0, c));
    }
    let columns = n.div_ceil(across).next_multiple_of(K::COLUMNS);
    // Of equal size: a thread that has less to do waits for the others.
    let row = |i: usize| (i * panels / down * K::ROWS).min(m);
    let mut tasks = Vec::with_capacity(down * across);
    for j in (0..n).step_by(columns) {
        let (mut part, rest) = c.split_at(Axis(1), columns.min(n - j));
        c = rest;
        for i in 0..down {
            let (here, rest) = part.split_at(Axis(0), row(i + 1) - row(i));
            part = rest;
            tasks.push((a.slice(s![row(i)..row(i + 1), ..]), j, here));
        }
    }
    if many == 1 {
        tasks.into_iter().for_each(work);
    } else {
        for_each(tasks, work);
    }
}

/// Tasks down and across for so many panels of rows, `n` columns and threads: as many for each
/// thread, and only as many across as it takes, because each packs its rows again.
fn grid<K: Kernel>(panels: usize, n: usize, many: usize) -> (usize, usize) {
    let down = panels.div_ceil(ROWS / K::ROWS);
    if many == 1 || down >= MANY_TASKS * many {
        return (down, 1);
    }
    let down = down.next_multiple_of(many).min(panels);
    let across = (many * TASKS_PER_THREAD).div_ceil(down);
    (down, across.min(n / FEWEST_COLUMNS).max(1))
}

/// Multiplies some rows of `a` with the columns of `b` from `j` on, of `n` packed columns. If the
/// rows of `c` are not contiguous, the result goes through a block, because kernels store whole
/// registers.
///
/// # Safety
/// As [`multiply_by`].
unsafe fn task<K: Kernel, A: Weight>(
    a: ArrayView2<A>,
    b: &[f32],
    n: usize,
    j: usize,
    start: Start<'_>,
    mut c: ArrayViewMut2<MaybeUninit<f32>>,
) {
    let (m, columns) = c.dim();
    if columns > 1 && c.strides()[1] != 1 {
        return with_panels(&BLOCK, m * columns, |block| {
            let block = &mut block[..m * columns];
            let mut block = ArrayViewMut2::from_shape((m, columns), block).expect("as many");
            // SAFETY: the caller's promise; `c` is read only if the start reads it.
            unsafe {
                if start.times != 0.0 {
                    block.assign(&c.raw_view().cast().deref_into_view());
                }
                let view = block.raw_view_mut().cast().deref_into_view_mut();
                task::<K, A>(a, b, n, j, start, view);
                if c.strides()[0] == 1 {
                    return transpose(&block, c.reversed_axes().raw_view_mut().cast());
                }
            }
            c.zip_mut_with(&block, |c, &x| _ = c.write(x));
        });
    }
    let inner = a.ncols().div_ceil(K::NUMBERS);
    let stride = c.strides()[0];
    let c = c.as_mut_ptr().cast::<f32>();
    let panels_across = n.div_ceil(K::COLUMNS);
    let in_place = in_place::<K, A>(&a, columns);
    let panel = |k: usize, at: usize| {
        let index = k / DEPTH * panels_across + (j + at) / K::COLUMNS;
        b[index * DEPTH * K::COLUMNS..].as_ptr()
    };
    let looks_ahead = K::WIDE && prefetch::distance() > 0;
    with_panels(&A_PANELS, room_for_rows::<K>(m), |a_panels| {
        // SAFETY: the caller's promise.
        unsafe { K::begin() };
        for k in (0..inner.max(1)).step_by(DEPTH) {
            let depth = DEPTH.min(inner - k);
            let start = if k == 0 { start } else { Start::times(1.0) };
            let numbers = k * K::NUMBERS..a.ncols().min((k + depth) * K::NUMBERS);
            let a = a.slice(s![.., numbers]);
            let panels = pack_rows_of::<K, A>(&a, a_panels, in_place);
            for across in (0..columns).step_by(K::WIDTH) {
                // Row after row of panels of `a` meets these columns; meanwhile the next ones come
                // from the third cache, some lines with each block of `c`.
                let (next_k, next_at) = match across + K::WIDTH {
                    at if at < columns => (k, at),
                    _ => (k + DEPTH, 0),
                };
                let mut next = (looks_ahead && depth == DEPTH && next_k < inner)
                    .then(|| panel(next_k, next_at));
                for i in (0..m).step_by(K::ROWS) {
                    let a = RowPanel {
                        start: panels.start.wrapping_add(i / K::ROWS * panels.stride),
                        rows: K::ROWS.min(m - i),
                        layout: panels.layout,
                    };
                    for at in (across..columns.min(across + K::WIDTH)).step_by(K::COLUMNS) {
                        let start_of_b = panel(k, at);
                        let b = ColumnPanel {
                            start: start_of_b,
                            next: next.unwrap_or(start_of_b),
                        };
                        next = next.map(|next| next.wrapping_add(DEPTH * NEXT));
                        // SAFETY: the panels have the kernel's layout, `c` has these rows and
                        // columns, and the caller vouches for the rest.
                        unsafe {
                            let c = c.offset(i as isize * stride).add(at);
                            let block = Block {
                                b,
                                depth,
                                stride,
                                start: start.at_column(j + at),
                                columns: K::COLUMNS.min(columns - at),
                            };
                            K::run(a, c, &block);
                        }
                    }
                }
            }
        }
        // SAFETY: the caller's promise.
        unsafe { K::end() };
    });
}

/// The panels of `a`, of pairs if the kernel multiplies them.
fn pack_rows_of<K: Kernel, A: Weight>(
    a: &ArrayView2<A>,
    panels: &mut [f32],
    in_place: Option<Layout>,
) -> RowPanels {
    #[cfg(target_arch = "x86_64")]
    if K::NUMBERS == 2 {
        return pack_rows_of_pairs::<K, A>(a, panels);
    }
    pack_rows::<K, A>(a, panels, in_place)
}

/// The order in which the kernel reads `a` where it is, for so many columns of `b`; none if it is
/// better packed.
fn in_place<K: Kernel, A>(a: &ArrayView2<A>, columns: usize) -> Option<Layout> {
    let layout = Layout::of(a)?;
    let stays = match layout {
        Layout::Rows(down) => !K::WIDE && a.nrows() * down <= CACHED && !down.is_multiple_of(PAGE),
        Layout::Columns(along) => {
            let cached = a.ncols() * along <= CACHED;
            if K::WIDE {
                // Columns whose distance isn't a whole number of cache lines, as with a vocabulary
                // of 50257, spread over the first cache.
                cached || !along.is_multiple_of(LINE)
            } else {
                cached && columns < WORTH_PACKING
            }
        }
        Layout::Packed => true,
    };
    stays.then_some(layout)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::product::kernel::Plain;

    #[test]
    fn threads_have_about_as_much_to_do_as_each_other() {
        for (m, n) in [
            (192_usize, 512),
            (256, 768),
            (768, 768),
            (1024, 768),
            (1024, 3072),
            (2048, 2048),
        ] {
            for many in [2, 4, 8, 16] {
                let panels = m.div_ceil(Plain::ROWS);
                let (down, across) = grid::<Plain>(panels, n, many);
                let rows = (0..down).map(|i| (i + 1) * panels / down - i * panels / down);
                let mut threads = vec![0; many];
                for rows in rows.flat_map(|rows| vec![rows; across]) {
                    *threads.iter_mut().min().expect("a thread") += rows;
                }
                let (most, all) = (threads.iter().max().expect("a thread"), panels * across);
                assert!(
                    most * many * 4 <= all * 5,
                    "{m} x {n}: {down} x {across} tasks, {threads:?}"
                );
            }
        }
    }
}
