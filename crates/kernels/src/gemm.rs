//! The one call of the GEMM crate: `c = a b + beta c` on strided f32 matrices, in tiles that rayon's pool shares out.
//!
//! An element's sum over the inner dimension runs in an order that depends on the sizes alone, so the bits of the result don't depend on the number of threads.

use std::mem::MaybeUninit;

use gemm::Parallelism;
use ndarray::{Array2, ArrayRef2, ArrayView1, ArrayView2, ArrayViewMut2, Axis, Zip};
use rayon::prelude::*;

use super::transpose::transpose;

/// Columns of a tile: what is packed of `b` stays in the second cache.
const PANEL: usize = 128;
/// Rows of a tile at least, where a panel is cut because the pool has more threads than there are panels.
/// (The GEMM crate sums a single row in another order, so tiles must not become as small as that.)
const FEWEST_ROWS: usize = 128;
/// Tiles a thread, to even out what else the machine does.
const TILES_PER_THREAD: usize = 3;
/// Multiplications that are not worth a second thread.
const SMALL: usize = 1 << 19;
/// Rows of a tile from which on transposing `b` pays.
const MANY_ROWS: usize = 64;
/// How much of the inner dimension is transposed at a time.
const DEPTH: usize = 512;

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

/// `a @ b`, plus `row` to each of its rows, into uninitialised memory that is written once.
///
/// # Panics
/// If the shapes don't fit.
pub fn product(a: &ArrayRef2<f32>, b: &ArrayRef2<f32>, row: Option<&[f32]>) -> Array2<f32> {
    let mut c = Array2::<f32>::uninit((a.nrows(), b.ncols()));
    check(a, b, c.dim());
    let start = row.map_or(Start::Nothing, Start::Row);
    // SAFETY: neither start reads `c`, and every element is written.
    unsafe {
        tiles(a, b, start, c.view_mut(), Threads::Pool);
        c.assume_init()
    }
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
    let start = match beta {
        0.0 => Start::Nothing,
        _ if a.ncols() == 0 => return c *= beta,
        _ => Start::Times(beta),
    };
    // SAFETY: the view is of initialised elements, and nothing is written to it but f32.
    unsafe {
        let c = c.raw_view_mut().cast::<MaybeUninit<f32>>();
        tiles(a, b, start, c.deref_into_view_mut(), threads);
    }
}

/// What the raw call relies on.
fn check(a: &ArrayRef2<f32>, b: &ArrayRef2<f32>, c: (usize, usize)) {
    assert!(
        a.ncols() == b.nrows() && c == (a.nrows(), b.ncols()),
        "gemm: {:?} @ {:?} does not give {c:?}",
        a.dim(),
        b.dim()
    );
}

/// All of `c`, tile by tile: panels of columns, which are cut into rows if the threads are many.
///
/// # Safety
/// With [`Start::Times`], `c` must be initialised.
unsafe fn tiles(
    a: &ArrayRef2<f32>,
    b: &ArrayRef2<f32>,
    start: Start<'_>,
    mut c: ArrayViewMut2<MaybeUninit<f32>>,
    threads: Threads,
) {
    let (m, n) = c.dim();
    if threads == Threads::One || m * n * a.ncols() < SMALL {
        // SAFETY: the caller's promise.
        return unsafe { tile(a.view(), b.view(), start, c) };
    }
    let wanted = TILES_PER_THREAD * rayon::current_num_threads();
    let cuts = wanted
        .div_ceil(n.div_ceil(PANEL))
        .min(m / FEWEST_ROWS)
        .max(1);
    let mut tiles = Vec::new();
    for (i, (b, mut panel)) in b
        .axis_chunks_iter(Axis(1), PANEL)
        .zip(c.axis_chunks_iter_mut(Axis(1), PANEL))
        .enumerate()
    {
        let start = match start {
            Start::Row(row) => Start::Row(&row[i * PANEL..][..b.ncols()]),
            other => other,
        };
        let mut a = a.view();
        for left in (1..=cuts).rev() {
            let rows = a.nrows() / left;
            let (a_tile, a_rest) = a.split_at(Axis(0), rows);
            let (c_tile, c_rest) = panel.split_at(Axis(0), rows);
            tiles.push((a_tile, b, start, c_tile));
            (a, panel) = (a_rest, c_rest);
        }
    }
    tiles
        .into_par_iter()
        .with_max_len(1)
        // SAFETY: the caller's promise, for each part of `c`.
        .for_each(|(a, b, start, c)| unsafe { tile(a, b, start, c) });
}

/// One tile on one thread.
///
/// A `b` that is contiguous along the inner dimension (the transpose of a weight) is transposed first: the GEMM crate packs it column by column, and if a row takes a multiple of 4 KiB, each column evicts the next from the first cache.
///
/// # Safety
/// With [`Start::Times`], `c` must be initialised.
unsafe fn tile(
    a: ArrayView2<f32>,
    b: ArrayView2<f32>,
    start: Start<'_>,
    mut c: ArrayViewMut2<MaybeUninit<f32>>,
) {
    let mut beta = match start {
        Start::Times(beta) => beta,
        Start::Row(row) => {
            let row = ArrayView1::from(row);
            for c in c.rows_mut() {
                Zip::from(c).and(row).for_each(|c, &x| _ = c.write(x));
            }
            1.0
        }
        Start::Nothing if a.ncols() == 0 => {
            return c.fill(MaybeUninit::new(0.0));
        }
        Start::Nothing => 0.0,
    };
    let transposed = b.strides()[0] == 1 && b.ncols() > 1;
    if !transposed || a.nrows() < MANY_ROWS || b.ncols() > PANEL {
        // SAFETY: the caller's promise.
        return unsafe { raw(a, b, beta, c) };
    }
    let mut copy = vec![0.0; DEPTH.min(b.nrows()) * b.ncols()];
    for (a, b) in a
        .axis_chunks_iter(Axis(1), DEPTH)
        .zip(b.axis_chunks_iter(Axis(0), DEPTH))
    {
        let copy = &mut copy[..b.len()];
        transpose(&b.t(), copy);
        let b = ArrayView2::from_shape(b.dim(), copy).expect("as many elements");
        // SAFETY: the caller's promise; what one product has written the next may add to.
        unsafe { raw(a, b, beta, c.view_mut()) };
        beta = 1.0;
    }
}

/// # Safety
/// If `beta` is not 0, `c` must be initialised.
unsafe fn raw(
    a: ArrayView2<f32>,
    b: ArrayView2<f32>,
    beta: f32,
    mut c: ArrayViewMut2<MaybeUninit<f32>>,
) {
    // SAFETY: the views vouch for their memory, [`check`] for the shapes.
    unsafe {
        gemm::gemm(
            a.nrows(),
            b.ncols(),
            a.ncols(),
            c.as_mut_ptr().cast::<f32>(),
            c.strides()[1],
            c.strides()[0],
            beta != 0.0,
            a.as_ptr(),
            a.strides()[1],
            a.strides()[0],
            b.as_ptr(),
            b.strides()[1],
            b.strides()[0],
            beta,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}
