//! The loops around the micro-kernel. They divide a product into tasks for the threads, and each
//! task into panels ([`product`](super) explains the terms).
//!
//! The function `multiply_by` packs a block of `B` into column panels, which all threads share, and
//! `run_tasks` divides the corresponding columns of `C` into tasks. Each call of `task` packs the
//! rows of `A` that it needs into row panels, for at most 384 steps along the inner dimension at a
//! time, and multiplies each row panel by the column panels.

use std::mem::MaybeUninit;

use ndarray::{ArrayRef2, ArrayView2, ArrayViewMut2, Axis, s};

use crate::elementwise::transpose::transpose;
use crate::prefetch::{self, LINE};
use crate::product::kernel::{
    Block, ColumnPanel, DEPTH, Kernel, Layout, PREFETCH_PER_STEP, RowPanel, Start,
};
#[cfg(target_arch = "x86_64")]
use crate::product::pack::pack_rows_of_pairs;
use crate::product::pack::{
    A_PANELS, BLOCK, MAX_PACKED_VALUES, RightOperand, RowPanels, pack_columns, pack_rows,
    room_for_rows, with_b_panels, with_panels,
};
use crate::threads::for_each;
use crate::weight::Weight;

/// Largest number of rows of `A` in a task. The row panels of a task occupy about 220 KB, so they
/// fit in the L2 cache together with [`Kernel::COLUMN_BLOCK`] columns of `B`.
const ROWS: usize = 140;
/// Smallest number of columns in a task if the columns of `C` are divided because there are too few
/// rows to keep all threads busy. Each task packs its own rows of `A`, so narrower tasks would pack
/// the same rows more often.
const MIN_TASK_COLUMNS: usize = 256;
/// Largest number of steps along the inner dimension of a product for which `B` is packed at a
/// time. A longer inner dimension is divided into parts, whose products are added to `C` one after
/// another.
const MAX_PACKED_DEPTH: usize = 10 * DEPTH;
/// Number of tasks per thread for a product with few rows. If there are several tasks per thread,
/// idle threads can take over work from threads that share a core with another process.
const TASKS_PER_THREAD: usize = 3;
/// Number of tasks per thread that is large enough to balance the work. With this many tasks, it
/// makes no noticeable difference if some threads run one task more than others.
const ENOUGH_TASKS: usize = 8;
/// Maximum number of values of `A` that fit in a core's cache together with the other data of a
/// task. This many values occupy 512 KB. If `A` has no more values, micro-kernels that support its
/// layout can read it repeatedly without packing it.
const CACHED_VALUES: usize = 1 << 17;
/// Number of `f32` values in 4 KiB. If the distance between consecutive rows of a matrix is a
/// multiple of this number, all values in the same column compete for the same few lines of the L1
/// cache. Before such a matrix is multiplied, it is therefore copied to a buffer in which the
/// distance between its rows is different.
pub(crate) const PAGE_VALUES: usize = 1024;
/// Smallest number of columns in a task for which a kernel with narrow registers packs a matrix `A`
/// that has contiguous columns and fits in the cache. A row panel of such a kernel covers only a
/// part of each cache line of `A`, so without packing, the same cache lines would be read again for
/// several row panels. With fewer columns, the kernel reads `A` without packing it.
const MIN_COLUMNS_TO_PACK: usize = 256;
/// Smallest number of multiply-adds for which it is worthwhile to use another thread, because
/// starting a task on a thread takes a few microseconds. The two multiply-adds of a pair of bf16
/// values are counted as one.
const MIN_STEPS_PER_THREAD: usize = 1 << 18;

/// Returns the number of bytes of memory that a thread uses to pack a right operand with `inner`
/// rows and `columns` columns. This memory is kept for later products, so estimates of a program's
/// memory usage should include it.
pub fn packed_bytes(inner: usize, columns: usize) -> usize {
    let deep = inner.clamp(1, MAX_PACKED_DEPTH).next_multiple_of(DEPTH);
    // 64 is a multiple of the panel width of every kernel.
    let wide = columns.min(MAX_PACKED_VALUES).next_multiple_of(64);
    size_of::<f32>() * deep.saturating_mul(wide).min(MAX_PACKED_VALUES)
}

/// The threads that compute a product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The calling thread computes the product alone. This variant is intended for programs that
    /// already use several threads, for example to compute several products at the same time.
    One,
    /// All threads of rayon's current pool share the work.
    Pool,
}

/// Computes `C = start + A B` with the micro-kernel `K`.
///
/// # Safety
///
/// The shapes of the matrices must be compatible, the CPU must support the instruction set of the
/// kernel `K`, and `c` must be initialized if `start` refers to its previous contents.
pub(crate) unsafe fn multiply_by<K: Kernel, A: Weight, B: RightOperand + ?Sized>(
    a: &ArrayRef2<A>,
    b: &B,
    start: Start<'_>,
    mut c: ArrayViewMut2<MaybeUninit<f32>>,
    threads: Threads,
) {
    let ((m, n), inner) = (c.dim(), a.ncols().div_ceil(K::VALUES_PER_LANE));
    let many = match threads {
        Threads::One => 1,
        Threads::Pool => {
            rayon::current_num_threads().min((m * n * inner / MIN_STEPS_PER_THREAD).max(1))
        }
    };
    let numbers = |k: usize| (k * K::VALUES_PER_LANE).min(a.ncols());
    let deep = inner.clamp(1, MAX_PACKED_DEPTH);
    let wide = (MAX_PACKED_VALUES / deep.next_multiple_of(DEPTH) / K::COLUMNS * K::COLUMNS).min(n);
    let room = deep.next_multiple_of(DEPTH) * wide.next_multiple_of(K::COLUMNS);
    with_b_panels(room, |panels| {
        for j in (0..n).step_by(wide) {
            // If `A` has no columns, the inner dimension has the length 0, and the product adds
            // nothing to the initial value. The loop body still runs once, because it must set `c`
            // to this value.
            for k in (0..inner.max(1)).step_by(deep) {
                let (columns, depths) = (j..n.min(j + wide), numbers(k)..numbers(k + deep));
                let a = a.slice(s![.., depths.clone()]);
                let start = match k {
                    0 => start.at_column(j),
                    _ => Start::beta(1.0),
                };
                pack_columns::<K>(b, depths, columns.clone(), panels, many > 1);
                let c = c.slice_mut(s![.., columns]);
                // SAFETY: The caller guarantees that the shapes of the matrices are compatible,
                // that the CPU supports the instruction set, and that `c` is initialized if `start`
                // refers to its previous contents. After the first iteration over `k`, `c` is
                // always initialized, so later iterations may add to its values.
                unsafe { run_tasks::<K, A>(&a, panels, start, c, many) };
            }
        }
    });
}

/// Divides the rows of `c` into tasks and runs the tasks. If there are too few rows to keep `many`
/// threads busy, the columns are divided as well.
///
/// # Safety
///
/// The safety requirements of [`multiply_by`] apply.
unsafe fn run_tasks<K: Kernel, A: Weight>(
    a: &ArrayView2<A>,
    b: &[f32],
    start: Start<'_>,
    mut c: ArrayViewMut2<MaybeUninit<f32>>,
    many: usize,
) {
    let (m, n) = c.dim();
    let panels = m.div_ceil(K::ROWS);
    let (down, across) = grid::<K>(panels, n, many);
    // SAFETY: The caller guarantees that the shapes of the matrices are compatible, that the CPU
    // supports the instruction set, and that `c` is initialized if `start` refers to its previous
    // contents. No two tasks access the same part of `c`.
    let work = |(a, j, c)| unsafe { task::<K, A>(a, b, n, j, start, c) };
    if (down, across) == (1, 1) {
        return work((a.view(), 0, c));
    }
    let columns = n.div_ceil(across).next_multiple_of(K::COLUMNS);
    // Each part has nearly the same number of rows. If one thread had fewer rows than the others,
    // it would have to wait for them at the end.
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

/// Returns two numbers: the number of parts into which the rows of `C` are divided, and the number
/// of parts into which its columns are divided. `C` consists of `panels` row panels and `n`
/// columns, and `many` is the number of threads.
///
/// Both numbers are chosen so that all threads get about the same amount of work. The columns are
/// divided no more than necessary, because the same rows of `A` are packed again for each part of
/// the columns.
fn grid<K: Kernel>(panels: usize, n: usize, many: usize) -> (usize, usize) {
    let down = panels.div_ceil(ROWS / K::ROWS);
    if many == 1 || down >= ENOUGH_TASKS * many {
        return (down, 1);
    }
    let down = down.next_multiple_of(many).min(panels);
    let across = (many * TASKS_PER_THREAD).div_ceil(down);
    (down, across.min(n / MIN_TASK_COLUMNS).max(1))
}

/// Computes `c`, the part of a product that is assigned to one task. `a` contains the rows of `A`
/// for this part. The columns of `B` for this part begin at column `j` of the packed matrix `b`,
/// which contains `n` columns in total.
///
/// Micro-kernels store whole vector registers, so they require that each row of the result is
/// contiguous in memory. If the rows of `c` aren't contiguous, the result is computed in temporary
/// memory and then copied to `c`.
///
/// # Safety
///
/// The safety requirements of [`multiply_by`] apply.
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
            // SAFETY: The caller guarantees that `c` is writable, and that it is initialized if
            // `start` refers to its previous contents. The product is computed in the temporary
            // memory `block` and then copied to `c`, and the two don't overlap.
            unsafe {
                if start.beta != 0.0 {
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
    let inner = a.ncols().div_ceil(K::VALUES_PER_LANE);
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
        // SAFETY: The caller guarantees that the CPU supports the instruction set.
        unsafe { K::begin() };
        for k in (0..inner.max(1)).step_by(DEPTH) {
            let depth = DEPTH.min(inner - k);
            let start = if k == 0 { start } else { Start::beta(1.0) };
            let numbers = k * K::VALUES_PER_LANE..a.ncols().min((k + depth) * K::VALUES_PER_LANE);
            let a = a.slice(s![.., numbers]);
            let panels = pack_rows_of::<K, A>(&a, a_panels, in_place);
            for across in (0..columns).step_by(K::COLUMN_BLOCK) {
                // One row panel after another is multiplied by this block of columns of `B`, which
                // stays in the L2 cache. Meanwhile, each call of the micro-kernel prefetches a few
                // cache lines of the next block from the L3 cache.
                let (next_k, next_at) = match across + K::COLUMN_BLOCK {
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
                    for at in (across..columns.min(across + K::COLUMN_BLOCK)).step_by(K::COLUMNS) {
                        let start_of_b = panel(k, at);
                        let b = ColumnPanel {
                            start: start_of_b,
                            next: next.unwrap_or(start_of_b),
                        };
                        next = next.map(|next| next.wrapping_add(DEPTH * PREFETCH_PER_STEP));
                        // SAFETY: This kernel supports the layouts of both panels, and the tile
                        // lies within `c`. The caller guarantees that the CPU supports the
                        // instruction set, and that `c` is initialized if `start` refers to its
                        // previous contents.
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
        // SAFETY: The caller guarantees that the CPU supports the instruction set.
        unsafe { K::end() };
    });
}

/// Packs the rows of `a`, the left operand of a product, into row panels of the format that the
/// kernel `K` expects. If `K` multiplies pairs of bf16 values, the values are first rounded to
/// bf16. Otherwise, they are packed as `f32` or, if `in_place` contains a layout and the elements
/// are `f32`, not copied at all.
fn pack_rows_of<K: Kernel, A: Weight>(
    a: &ArrayView2<A>,
    panels: &mut [f32],
    in_place: Option<Layout>,
) -> RowPanels {
    #[cfg(target_arch = "x86_64")]
    if K::VALUES_PER_LANE == 2 {
        return pack_rows_of_pairs::<K, A>(a, panels);
    }
    pack_rows::<K, A>(a, panels, in_place)
}

/// Returns the layout in which the kernel can read `a` without packing, or `None` if packing is
/// faster. `columns` is the number of columns of the task.
fn in_place<K: Kernel, A>(a: &ArrayView2<A>, columns: usize) -> Option<Layout> {
    let layout = Layout::of(a)?;
    let stays = match layout {
        Layout::Rows(down) => {
            !K::WIDE && a.nrows() * down <= CACHED_VALUES && !down.is_multiple_of(PAGE_VALUES)
        }
        Layout::Columns(along) => {
            let cached = a.ncols() * along <= CACHED_VALUES;
            if K::WIDE {
                // If the distance between columns isn't a whole number of cache lines, the columns
                // are spread over the L1 cache, so they don't have to be packed. This is the case
                // for GPT-2's vocabulary of 50257 tokens, for example.
                cached || !along.is_multiple_of(LINE)
            } else {
                cached && columns < MIN_COLUMNS_TO_PACK
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
