//! The dense f32 product, `c = a b + beta c` on strided matrices: packed panels, as in Goto and van de Geijn's "Anatomy of High-Performance Matrix Multiplication", in tiles that rayon's pool shares out.
//!
//! An element's sum runs along the inner dimension in blocks of 384, so its bits depend on its row of `a` and its column of `b` alone: not on the tiles, the threads or the other rows.

use std::mem::MaybeUninit;

use ndarray::{Array2, ArrayRef2, ArrayView2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;

use crate::buffers::buffer;
use crate::gemm_kernel::{self, ColumnPanel, DEPTH, Kernel, NEXT, ROW_STRIDE, RowPanel};
use crate::gemm_pack::{A_PANELS, B_PANELS, pack_columns, pack_rows, with_panels};
use crate::prefetch::{self, LINE};

/// Rows of a task at most: its panels of `a`, 220 KB, stay in the second cache beside [`Kernel::WIDTH`] columns of `b`.
const ROWS: usize = 140;
/// Columns of a task at least, where there are too few rows for all threads: each packs its rows of `a` anew.
const FEWEST_COLUMNS: usize = 256;
/// Numbers of `b` that are packed at a time, 16 MiB, and how much of the inner dimension at most.
const PACKED: usize = 1 << 22;
const DEEPEST: usize = 10 * DEPTH;
/// Tasks a thread, to even out what else the machine does.
const TASKS_PER_THREAD: usize = 3;
/// Numbers of `a`, 512 KB, that a core's cache holds beside all else: its columns need not be packed.
const CACHED: usize = 1 << 17;
/// Columns of `b` that are worth packing those of `a`, where a panel's rows are a part of a line that is read again for each panel.
const WORTH_PACKING: usize = 256;
/// Multiplications that are not worth a second thread.
const SMALL: usize = 1 << 19;

/// Where the threads come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Threads {
    /// The caller already works in parallel.
    One,
    /// Rayon's pool.
    Pool,
}

/// What the product is added to.
#[derive(Clone, Copy)]
enum Start<'a> {
    /// Nothing: `c` is not read.
    Nothing,
    /// This many times `c`, which must be initialised.
    Times(f32),
    /// A row, the same for all: the bias of a layer; `c` is not read.
    Row(&'a [f32]),
}

impl Start<'_> {
    /// For the columns from `j` on.
    fn at_column(self, j: usize) -> gemm_kernel::Start {
        match self {
            Self::Nothing => gemm_kernel::Start::Nothing,
            Self::Times(beta) => gemm_kernel::Start::Times(beta),
            Self::Row(row) => gemm_kernel::Start::Row(row[j..].as_ptr()),
        }
    }
}

/// `a @ b`, plus `row` to each of its rows, into uninitialised memory that is written once.
///
/// # Panics
/// If the shapes don't fit.
pub fn product(a: &ArrayRef2<f32>, b: &ArrayRef2<f32>, row: Option<&[f32]>) -> Array2<f32> {
    let shape = (a.nrows(), b.ncols());
    check(a, b, shape);
    let mut c = buffer(shape.0 * shape.1);
    c.clear();
    let spare = &mut c.spare_capacity_mut()[..shape.0 * shape.1];
    let view = ArrayViewMut2::from_shape(shape, spare).expect("as many elements");
    let start = row.map_or(Start::Nothing, Start::Row);
    // SAFETY: neither start reads `c`, and every element is written.
    unsafe {
        multiply(a, b, start, view, Threads::Pool);
        c.set_len(shape.0 * shape.1);
    }
    Array2::from_shape_vec(shape, c).expect("as many elements")
}

/// `c = a @ b + beta * c`; with `beta` 0, `c` is not read.
///
/// # Panics
/// If the shapes don't fit.
pub fn accumulate(
    a: &ArrayRef2<f32>,
    b: &ArrayRef2<f32>,
    beta: f32,
    mut c: ArrayViewMut2<f32>,
    threads: Threads,
) {
    check(a, b, c.dim());
    if c.nrows() > 0 && c.ncols() > 1 && c.strides()[1] != 1 {
        let mut rows = c.as_standard_layout().into_owned(); // the kernels store whole registers
        accumulate(a, b, beta, rows.view_mut(), threads);
        return c.assign(&rows);
    }
    let start = match beta {
        0.0 => Start::Nothing,
        _ => Start::Times(beta),
    };
    // SAFETY: the view is of initialised elements, and nothing is written to it but f32.
    unsafe {
        let c = c.raw_view_mut().cast::<MaybeUninit<f32>>();
        multiply(a, b, start, c.deref_into_view_mut(), threads);
    }
}

/// That the shapes fit, which [`multiply`] relies on.
fn check(a: &ArrayRef2<f32>, b: &ArrayRef2<f32>, c: (usize, usize)) {
    assert!(
        a.ncols() == b.nrows() && c == (a.nrows(), b.ncols()),
        "gemm: {:?} @ {:?} does not give {c:?}",
        a.dim(),
        b.dim()
    );
}

/// The product by the kernel of this processor.
///
/// # Safety
/// With [`Start::Times`], `c` must be initialised; its rows must be contiguous.
unsafe fn multiply(
    a: &ArrayRef2<f32>,
    b: &ArrayRef2<f32>,
    start: Start<'_>,
    c: ArrayViewMut2<MaybeUninit<f32>>,
    threads: Threads,
) {
    if c.is_empty() {
        return;
    }
    // SAFETY: the caller's promise, and the CPU has the instructions.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                return multiply_by::<gemm_kernel::Avx512>(a, b, start, c, threads);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                return multiply_by::<gemm_kernel::Avx2>(a, b, start, c, threads);
            }
        }
        multiply_by::<gemm_kernel::Plain>(a, b, start, c, threads);
    }
}

/// # Safety
/// As [`multiply`], and the CPU must have the kernel's instructions.
unsafe fn multiply_by<K: Kernel>(
    a: &ArrayRef2<f32>,
    b: &ArrayRef2<f32>,
    start: Start<'_>,
    mut c: ArrayViewMut2<MaybeUninit<f32>>,
    threads: Threads,
) {
    let ((m, n), inner) = (c.dim(), a.ncols());
    let many = if threads == Threads::One || m * n * inner < SMALL {
        1
    } else {
        rayon::current_num_threads()
    };
    let deep = inner.clamp(1, DEEPEST);
    let wide = (PACKED / deep.next_multiple_of(DEPTH) / K::COLUMNS * K::COLUMNS).min(n);
    with_panels(
        &B_PANELS,
        deep.div_ceil(DEPTH) * DEPTH * wide.next_multiple_of(K::COLUMNS),
        |panels| {
            for j in (0..n).step_by(wide) {
                // Once without an inner dimension, for what the product is added to.
                for k in (0..inner.max(1)).step_by(deep) {
                    let (columns, depths) = (j..n.min(j + wide), k..inner.min(k + deep));
                    let a = a.slice(s![.., depths.clone()]);
                    let b = b.slice(s![depths, columns.clone()]);
                    let start = match start {
                        _ if k > 0 => Start::Times(1.0),
                        Start::Row(row) => Start::Row(&row[columns.clone()]),
                        other => other,
                    };
                    pack_columns::<K>(&b, panels, many > 1);
                    // SAFETY: the caller's promise; what one product has written the next may add to.
                    unsafe {
                        share_out::<K>(&a, panels, start, c.slice_mut(s![.., columns]), many)
                    };
                }
            }
        },
    );
}

/// Tasks of some rows, and of some columns where the rows are too few for so many threads.
///
/// # Safety
/// As [`multiply_by`].
unsafe fn share_out<K: Kernel>(
    a: &ArrayView2<f32>,
    b: &[f32],
    start: Start<'_>,
    c: ArrayViewMut2<MaybeUninit<f32>>,
    many: usize,
) {
    let (m, n) = c.dim();
    let panels = m.div_ceil(K::ROWS);
    let down = panels.div_ceil(ROWS / K::ROWS);
    let wanted = if many == 1 {
        1
    } else {
        many * TASKS_PER_THREAD
    };
    let across = wanted.div_ceil(down).min(n / FEWEST_COLUMNS).max(1);
    let columns = n.div_ceil(across).next_multiple_of(K::COLUMNS);
    // Of equal size: a thread that has less to do waits for the others.
    let row = |i: usize| (i * panels / down * K::ROWS).min(m);
    let mut tasks = Vec::new();
    let mut c = c;
    for j in (0..n).step_by(columns) {
        let (mut part, rest) = c.split_at(Axis(1), columns.min(n - j));
        c = rest;
        for i in 0..down {
            let (here, rest) = part.split_at(Axis(0), row(i + 1) - row(i));
            part = rest;
            tasks.push((a.slice(s![row(i)..row(i + 1), ..]), j, here));
        }
    }
    // SAFETY: the caller's promise, for each part of `c`.
    let work = |(a, j, c)| unsafe { task::<K>(a, b, n, j, start, c) };
    if many == 1 {
        tasks.into_iter().for_each(work);
    } else {
        tasks.into_par_iter().with_max_len(1).for_each(work);
    }
}

/// Some rows of `a` with the columns of `b` from `j` on, of `n` that are packed.
///
/// # Safety
/// As [`multiply_by`].
unsafe fn task<K: Kernel>(
    a: ArrayView2<f32>,
    b: &[f32],
    n: usize,
    j: usize,
    start: Start<'_>,
    mut c: ArrayViewMut2<MaybeUninit<f32>>,
) {
    let (m, columns) = c.dim();
    let inner = a.ncols();
    let stride = c.strides()[0];
    let c = c.as_mut_ptr().cast::<f32>();
    let panels_across = n.div_ceil(K::COLUMNS);
    let along = a.strides()[1].unsigned_abs();
    let cached = inner * along <= CACHED;
    let in_place = if K::WIDE {
        // Columns that are no whole number of lines apart, as those of a vocabulary of 50257, spread over the first cache.
        cached || !along.is_multiple_of(LINE)
    } else {
        cached && columns < WORTH_PACKING
    };
    let room = m.next_multiple_of(K::ROWS) * ROW_STRIDE;
    let panel = |k: usize, at: usize| {
        let index = k / DEPTH * panels_across + (j + at) / K::COLUMNS;
        b[index * DEPTH * K::COLUMNS..].as_ptr()
    };
    let looks_ahead = K::WIDE && prefetch::distance() > 0;
    with_panels(&A_PANELS, room, |a_panels| {
        for k in (0..inner.max(1)).step_by(DEPTH) {
            let depth = DEPTH.min(inner - k);
            let start = if k == 0 { start } else { Start::Times(1.0) };
            let a = a.slice(s![.., k..k + depth]);
            let panels = pack_rows::<K>(&a, a_panels, in_place);
            for across in (0..columns).step_by(K::WIDTH) {
                // Row after row of panels of `a` meets these columns; meanwhile the next ones come from the third cache, some lines with each block of `c`.
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
                        along: panels.along,
                    };
                    for at in (across..columns.min(across + K::WIDTH)).step_by(K::COLUMNS) {
                        let start_of_b = panel(k, at);
                        let b = ColumnPanel {
                            start: start_of_b,
                            next: next.unwrap_or(start_of_b),
                        };
                        next = next.map(|next| next.wrapping_add(DEPTH * NEXT));
                        let start = start.at_column(j + at);
                        // SAFETY: the panels are as the kernel wants them, `c` has these rows and columns, and the caller vouches for the rest.
                        unsafe {
                            let c = c.offset(i as isize * stride).add(at);
                            if at + K::COLUMNS <= columns {
                                K::run(a, b, depth, c, stride, start);
                            } else {
                                gemm_kernel::edge::<K>(a, b, depth, c, stride, start, columns - at);
                            }
                        }
                    }
                }
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums of `start + a b` in the order that is promised, `add_product(x, y, sum)` for each step.
    fn plain(
        (a, b): (&Array2<f32>, &Array2<f32>),
        start: Start<'_>,
        c: &Array2<f32>,
        add_product: fn(f32, f32, f32) -> f32,
    ) -> Array2<f32> {
        Array2::from_shape_fn(c.dim(), |(i, j)| {
            let mut total = match start {
                Start::Nothing => 0.0,
                Start::Times(beta) => beta * c[[i, j]],
                Start::Row(row) => row[j],
            };
            for k in (0..a.ncols()).step_by(DEPTH) {
                let block = k..a.ncols().min(k + DEPTH);
                total += block.fold(0.0, |sum, k| add_product(a[[i, k]], b[[k, j]], sum));
            }
            total
        })
    }

    fn check_kernel<K: Kernel>(add_product: fn(f32, f32, f32) -> f32) {
        let numbers = |shape, step: usize| {
            Array2::from_shape_fn(shape, |(i, j)| {
                ((i * 7 + j * step) % 23) as f32 / 11.0 - 1.0
            })
        };
        for (m, inner, n) in [
            (1, 1, 1),
            (3, 0, 5),
            (14, 400, 33),
            (29, 17, 64),
            (40, 780, 31),
            (320, 400, 70),
            (600, 390, 33), // columns of `a` that are packed
        ] {
            let (a, b) = (numbers((m, inner), 5), numbers((inner, n), 3));
            let row = vec![0.25; n];
            for start in [Start::Nothing, Start::Times(2.0), Start::Row(&row)] {
                let before = numbers((m, n), 13);
                let expected = plain((&a, &b), start, &before, add_product);
                let (a_t, b_t) = (a.t().to_owned(), b.t().to_owned());
                for (a, b) in [(&a.view(), &b.view()), (&a_t.t(), &b_t.t())] {
                    for threads in [Threads::One, Threads::Pool] {
                        let mut c = before.clone();
                        let view = c.raw_view_mut().cast::<MaybeUninit<f32>>();
                        // SAFETY: `c` is initialised, and the caller has looked for the instructions.
                        unsafe {
                            multiply_by::<K>(a, b, start, view.deref_into_view_mut(), threads);
                        }
                        assert_eq!(c, expected, "{m} x {inner} x {n}, {threads:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_kernel_adds_in_the_order_that_is_promised() {
        check_kernel::<gemm_kernel::Plain>(|x, y, sum| {
            if cfg!(target_arch = "aarch64") {
                x.mul_add(y, sum)
            } else {
                x * y + sum
            }
        });
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            check_kernel::<gemm_kernel::Avx2>(f32::mul_add);
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            check_kernel::<gemm_kernel::Avx512>(f32::mul_add);
        }
    }

    #[test]
    fn a_result_that_is_not_row_major_is_written_all_the_same() {
        let (a, b) = (
            Array2::from_elem((3, 4), 2.0),
            Array2::from_elem((4, 5), 0.5),
        );
        let mut c = Array2::from_elem((5, 3), 1.0);
        accumulate(&a, &b, 1.0, c.view_mut().reversed_axes(), Threads::Pool);
        assert!(c.iter().all(|&x| x == 5.0));
    }
}
