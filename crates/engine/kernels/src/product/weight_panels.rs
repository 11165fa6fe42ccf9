//! Products `C = start + x W^T` with weights that are stored in panels, for any number of rows of
//! `x`.
//!
//! A panel contains the weights of 16 outputs, which are 16 rows of `W`. It is stored column by
//! column: the weights of the first input for all 16 outputs are followed by the weights of the
//! second input, and so on. A kernel therefore reads a panel from beginning to end. In each step,
//! it loads the weights of one input, converts them to `f32` in registers, and multiplies them by
//! the corresponding value in each row of `x`. Nothing needs to be transposed or packed, unlike in
//! [`few_rows`](super::few_rows), which reads the rows of `W` in their original layout. If `x` has
//! many rows, the general product copies the weights into its own panels.
//!
//! For each element of `C`, the products are added in the same order as in the general product, in
//! blocks of [`DEPTH`] inputs. The results of both methods therefore have identical bits.

use std::mem::MaybeUninit;
use std::ops::Range;

use ndarray::{Array2, ArrayRef2, ArrayView2, ArrayViewMut2, s};
use rayon::prelude::*;

use crate::Dtype;
use crate::elementwise::transpose::transpose;
use crate::prefetch;
use crate::product::gemm::{Threads, multiply_packed};
use crate::product::kernel::{DEPTH, Kernel, Start, store_sum};
use crate::product::pack::{BLOCK, RightOperand, with_panels};
use crate::product::tiles::PAGE_VALUES;
use crate::register::Register;
use crate::threads::tasks::cut_columns;
use crate::threads::{awake, for_each};
use crate::weight::Weight;
#[cfg(target_arch = "x86_64")]
use crate::weight::has_avx2;

/// Number of outputs whose weights a panel contains.
pub(crate) const WIDTH: usize = 16;

/// Largest number of rows of `x` for which the kernels in this module read the weight panels
/// directly. With more rows, the general product is faster, although it must first copy several
/// weight panels into each of its own panels. The general product is also used if the result isn't
/// row-major.
const MAX_ROWS_IN_PLACE: usize = 64;

/// Rounds `rows`, a weight matrix of the shape (outputs, inputs), to the type `W` and appends it to
/// `panels`. If the number of outputs isn't a multiple of [`WIDTH`], the last panel is padded with
/// zeros.
pub(crate) fn push_rows<W: Weight>(panels: &mut Vec<W>, rows: &ArrayRef2<f32>) {
    let inputs = rows.ncols();
    if rows.is_empty() {
        return;
    }
    let rows = rows.as_standard_layout();
    let rows = rows.as_slice().expect("standard layout is contiguous");
    let new = (rows.len() / inputs).next_multiple_of(WIDTH) * inputs;
    panels.reserve(new);
    let spare = &mut panels.spare_capacity_mut()[..new];
    (spare.par_chunks_mut(WIDTH * inputs))
        .zip(rows.par_chunks(WIDTH * inputs))
        .for_each(|(panel, rows)| fill_panel(panel, rows, inputs));
    // SAFETY: `fill_panel` has written every element of the new panels.
    unsafe { panels.set_len(panels.len() + new) };
}

/// Writes all elements of one panel of a weight matrix. `rows` contains the weights of up to
/// [`WIDTH`] outputs in row-major order. If there are fewer outputs, the panel is padded with
/// zeros.
fn fill_panel<W: Weight>(panel: &mut [MaybeUninit<W>], rows: &[f32], inputs: usize) {
    let count = rows.len() / inputs;
    let rows = ArrayView2::from_shape((count, inputs), rows).expect("whole rows");
    with_panels(&BLOCK, DEPTH * WIDTH, |block| {
        for (k, panel) in (0..inputs)
            .step_by(DEPTH)
            .zip(panel.chunks_mut(DEPTH * WIDTH))
        {
            let block = &mut block[..panel.len()];
            if count < WIDTH {
                block.fill(0.0);
            }
            let rows = rows.slice(s![.., k..inputs.min(k + DEPTH)]);
            let shape = (rows.ncols(), WIDTH);
            let mut columns = ArrayViewMut2::from_shape(shape, block).expect("as many elements");
            let to = columns.slice_mut(s![.., ..count]);
            // SAFETY: The transposition writes to `to`, a mutable borrow of the temporary memory
            // `block`, which doesn't overlap its source `rows`.
            unsafe { transpose(&rows, { to }.raw_view_mut()) };
            W::round(block, panel);
        }
    });
}

/// Rearranges a weight matrix of the shape (outputs, inputs), which is stored in row-major order in
/// `values`, into panels in the same vector. If the number of outputs isn't a multiple of
/// [`WIDTH`], the vector grows because the last panel is padded with zeros.
pub(crate) fn from_rows(values: &mut Vec<f32>, inputs: usize) {
    if values.is_empty() {
        return;
    }
    values.resize(
        (values.len() / inputs).next_multiple_of(WIDTH) * inputs,
        0.0,
    );
    values
        .par_chunks_exact_mut(WIDTH * inputs)
        .for_each(|panel| {
            // Each panel occupies the same memory as the rows of weights that it contains, so the
            // rows must first be copied to temporary memory.
            with_panels(&BLOCK, panel.len(), |rows| {
                let rows = &mut rows[..panel.len()];
                rows.copy_from_slice(panel);
                let rows =
                    ArrayView2::from_shape((WIDTH, inputs), &*rows).expect("as many elements");
                let columns = ArrayViewMut2::from_shape((inputs, WIDTH), panel);
                let mut columns = columns.expect("as many elements");
                // SAFETY: The transposition writes to `columns`, a mutable borrow of the panel's
                // memory, which doesn't overlap its source `rows`, the temporary copy.
                unsafe { transpose(&rows, columns.raw_view_mut()) };
            });
        });
}

/// Copies one row of a weight matrix of the shape (outputs, inputs) from its panels to `out`. The
/// row has the index `row`, and `out` must have one element per input.
pub(crate) fn read_row<W: Weight>(panels: &[W], row: usize, out: &mut [f32]) {
    let panel = &panels[row / WIDTH * WIDTH * out.len()..];
    for (out, column) in out.iter_mut().zip(panel.chunks_exact(WIDTH)) {
        *out = column[row % WIDTH].value();
    }
}

/// Computes `C = start + x W^T`, where `x` has the shape (rows, inputs), `W` has the shape
/// (outputs, inputs), and `c` has the shape (rows, outputs).
///
/// # Panics
///
/// Panics if the input `x` and the result `c` have different numbers of rows, or if the length of
/// `panels` doesn't match a weight matrix of the shape (outputs, inputs).
pub(crate) fn multiply<W: Weight>(
    x: &ArrayRef2<f32>,
    panels: &[W],
    start: Start<'_>,
    mut c: ArrayViewMut2<f32>,
) {
    let (count, inputs) = x.dim();
    let len = c.ncols().next_multiple_of(WIDTH) * inputs;
    assert!(
        c.nrows() == count && panels.len() == len,
        "the packed weights don't have the shape that the input and the result require"
    );
    let is_row_major = c.ncols() <= 1 || c.strides()[1] == 1;
    if count > MAX_ROWS_IN_PLACE || !is_row_major {
        let panels = WeightPanels {
            values: panels,
            inputs,
        };
        // SAFETY: The assertion at the beginning of this function has verified that the shapes of
        // `x`, `panels` and `c` are compatible. All elements of `c` are initialized, and
        // `multiply_packed` overwrites them only with initialized values.
        return unsafe {
            let c = c
                .raw_view_mut()
                .cast::<MaybeUninit<f32>>()
                .deref_into_view_mut();
            multiply_packed(x, &panels, start, c, Threads::Pool, Dtype::Float32);
        };
    }
    let mut x = x.as_standard_layout();
    if count > 1 && inputs.is_multiple_of(PAGE_VALUES) {
        let mut apart = Array2::zeros((count, inputs + WIDTH));
        apart.slice_mut(s![.., ..inputs]).assign(&x);
        x = apart.into();
    }
    let x = x.view();
    let tasks = cut_columns(c, WIDTH, WIDTH * inputs * size_of::<W>());
    awake(|| {
        for_each(tasks, |(first, mut c)| {
            let len = c.ncols().next_multiple_of(WIDTH) * inputs;
            let panels = &panels[first * inputs..][..len];
            let c = Output {
                stride: c.strides()[0],
                columns: c.ncols(),
                start: start.at_column(first),
                values: c.as_mut_ptr(),
            };
            // SAFETY: Each kernel is called only if the CPU supports its instruction set. The
            // assertion above guarantees that the panels contain the weights of all columns of `c`.
            unsafe {
                #[cfg(target_arch = "x86_64")]
                {
                    if is_x86_feature_detected!("avx512f") {
                        return by_avx512(&x, panels, c);
                    }
                    if has_avx2() {
                        return by_avx2(&x, panels, c);
                    }
                }
                task::<[f32; 4], W, 4, 8>(&x, panels, c);
            }
        });
    });
}

/// A weight matrix `W` that is stored in panels. Its transpose is the right operand of the general
/// product.
struct WeightPanels<'w, W> {
    values: &'w [W],
    inputs: usize,
}

impl<W: Weight> RightOperand for WeightPanels<'_, W> {
    fn pack_panel<K: Kernel>(&self, rows: Range<usize>, columns: Range<usize>, panel: &mut [f32]) {
        let width = WIDTH.min(K::COLUMNS); // divides the numbers of columns of all kernels
        with_panels(&BLOCK, DEPTH * WIDTH, |block| {
            for to in (0..K::COLUMNS).step_by(width) {
                let at = (columns.start + to) / WIDTH * WIDTH * self.inputs + rows.start * WIDTH;
                let block = &mut block[..rows.len() * WIDTH];
                match self.values.get(at..at + block.len()) {
                    Some(values) => W::widen(values, block),
                    None => block.fill(0.0), // beyond the last panel
                }
                let first = (columns.start + to) % WIDTH;
                for (row, from) in panel
                    .chunks_exact_mut(K::COLUMNS)
                    .zip(block.chunks_exact(WIDTH))
                {
                    row[to..to + width].copy_from_slice(&from[first..first + width]);
                }
            }
        });
    }
}

/// The part of the result `C` that one task computes: some of its columns, in all rows. Consecutive
/// rows are `stride` values apart.
#[derive(Clone, Copy)]
struct Output<'s> {
    values: *mut f32,
    stride: isize,
    columns: usize,
    start: Start<'s>,
}

/// Defines a function that compiles [`task`] for an instruction set.
macro_rules! by {
    ($name:ident, $register:ty, $per_panel:literal, $sums:literal, $features:literal) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name<W: Weight>(x: &ArrayView2<f32>, panels: &[W], c: Output<'_>) {
            // SAFETY: The caller upholds the safety requirements of [`task`].
            unsafe { task::<$register, W, $per_panel, $sums>(x, panels, c) }
        }
    };
}

by!(by_avx512, std::arch::x86_64::__m512, 1, 16, "avx512f");
by!(by_avx2, std::arch::x86_64::__m256, 2, 8, "avx2,fma,f16c");

/// Computes all outputs of a task of the product `C = start + x W^T`. The rows of `x` must be
/// contiguous. `N` is the number of vector registers that hold the 16 weights of one input in a
/// panel, and `SUMS` is the number of registers that are available for sums.
///
/// If `x` has few rows, the sums for several panels fit in the registers. These panels, each from a
/// different part of the task, are then read concurrently, so that the additions for one panel
/// don't have to wait for the additions for another.
///
/// # Safety
///
/// - The CPU must support the instruction set of the register.
/// - `panels` must contain the weights of all columns of `c`.
/// - `c` must be writable for all rows of `x`.
#[inline(always)]
unsafe fn task<V: Register, W: Weight, const N: usize, const SUMS: usize>(
    x: &ArrayView2<f32>,
    panels: &[W],
    c: Output<'_>,
) {
    let count = c.columns.div_ceil(WIDTH);
    let together = SUMS / N / x.nrows().next_power_of_two();
    // SAFETY: The caller upholds the safety requirements of this function.
    unsafe {
        let mut done = 0;
        if together >= 4 {
            done = groups::<V, W, N, SUMS, 4>(x, panels, 0..count, c);
        } else if together >= 2 {
            done = groups::<V, W, N, SUMS, 2>(x, panels, 0..count, c);
        }
        groups::<V, W, N, SUMS, 1>(x, panels, done..count, c);
    }
}

/// Multiplies the rows of `x` by the weight panels in `range`, always by `P` panels at the same
/// time. If the number of panels isn't a multiple of `P`, some panels are left over for the caller.
/// Returns the index of the first of these panels.
///
/// # Safety
///
/// The safety requirements of [`task`] apply.
#[inline(always)]
unsafe fn groups<V: Register, W: Weight, const N: usize, const SUMS: usize, const P: usize>(
    x: &ArrayView2<f32>,
    panels: &[W],
    range: Range<usize>,
    c: Output<'_>,
) -> usize {
    let part = range.len() / P;
    for i in range.start..range.start + part {
        for k in (0..x.ncols().max(1)).step_by(DEPTH) {
            let depth = DEPTH.min(x.ncols() - k);
            let mut r = 0;
            macro_rules! rows {
                ($($together:literal)*) => {$(
                    while $together * P * N <= SUMS && x.nrows() - r >= $together {
                        // SAFETY: The caller upholds the safety requirements of this function.
                        unsafe {
                            tile::<V, W, N, P, $together>(x, (r, k), depth, panels, (i, part), c);
                        }
                        r += $together;
                    }
                )*};
            }
            rows!(16 8 4 2 1);
        }
    }
    range.start + part * P
}

/// Computes the sums of a tile of the result `C = start + x W^T`. It multiplies `R` rows of `x`,
/// beginning with row `r`, by the `P` weight panels with the indices `i`, `i + apart` and so on.
/// Only the `depth` inputs that begin with input `k` are included. If `k` is 0, the sums of the
/// products are added to the initial value `start`, and otherwise to the values that are already in
/// `c`.
///
/// # Safety
///
/// The safety requirements of [`task`] apply. In addition, the `R` rows of `x`, the `P` panels and
/// the `depth` inputs to which the arguments refer must exist.
#[inline(always)]
unsafe fn tile<V: Register, W: Weight, const N: usize, const P: usize, const R: usize>(
    x: &ArrayView2<f32>,
    (r, k): (usize, usize),
    depth: usize,
    panels: &[W],
    (i, apart): (usize, usize),
    c: Output<'_>,
) {
    let ahead = match r {
        0 => prefetch::distance(),
        _ => 0, // The first rows have already brought the panels into a cache.
    };
    // SAFETY: The caller guarantees that the rows of `x`, the inputs and the panels to which the
    // arguments refer exist, that `c` is writable, and that the CPU supports the instruction set.
    unsafe {
        let from = panels.as_ptr().add((i * x.ncols() + k) * WIDTH);
        let stride = x.strides()[0] as usize;
        let x_from = x.as_ptr().add(r * stride + k);
        let mut sums = [[[V::splat(0.0); N]; P]; R];
        for k in 0..depth {
            for p in 0..P {
                let from = from.add((p * apart * x.ncols() + k) * WIDTH);
                if ahead > 0 {
                    prefetch::stream(from, ahead);
                }
                for n in 0..N {
                    let w = V::load_weights(from.add(n * V::LANES));
                    for (r, sums) in sums.iter_mut().enumerate() {
                        let x = V::splat(*x_from.add(r * stride + k));
                        sums[p][n] = sums[p][n].add_product(x, w);
                    }
                }
            }
        }
        for (row, sums) in sums.into_iter().enumerate() {
            let row = c.values.offset((r + row) as isize * c.stride);
            for (p, sums) in sums.into_iter().enumerate() {
                for (n, sum) in sums.into_iter().enumerate() {
                    let column = (i + p * apart) * WIDTH + n * V::LANES;
                    if column < c.columns {
                        let start = match k {
                            0 => c.start,
                            _ => Start::beta(1.0),
                        };
                        let lanes = V::LANES.min(c.columns - column);
                        store_sum(sum, row, column, lanes, start);
                    }
                }
            }
        }
    }
}
