//! Products of a few rows with weights whose rows are contiguous, `c = start + x W^T`: those that a
//! decoder spends its time on.
//!
//! Such a product does two operations with a weight for each row of `x`, so it must read the
//! weights once, from where they are: packing them as the general product does would take longer
//! than the product. As many rows of weights as a register has lanes are transposed in registers, a
//! square at a time, and each column of the square meets all rows of `x`.
//!
//! An element is summed in the order of the general product ([`kernel`](super::kernel)): along the
//! inner dimension, in blocks of [`DEPTH`] lanes. So a row of a product has the same bits for any
//! number of rows.

use std::mem::MaybeUninit;

use ndarray::{Array2, ArrayView2, ArrayViewMut2, Axis, s};

use crate::Dtype;
use crate::prefetch;
#[cfg(target_arch = "x86_64")]
use crate::product::amx::{has_amx, run_few_rows};
#[cfg(target_arch = "x86_64")]
use crate::product::kernel::OfPairs;
use crate::product::kernel::{DEPTH, Multiply, OfF32, ROW_STRIDE, Start, store_sum};
use crate::product::pack::{BLOCK, Rows, with_panels};
#[cfg(target_arch = "x86_64")]
use crate::product::pairs::round_row;
use crate::register::Square;
use crate::threads::for_each;
use crate::threads::tasks::cut;
use crate::weight::Weight;
#[cfg(target_arch = "x86_64")]
use crate::weight::has_avx2;

/// The most rows of a product that is computed here.
pub(crate) const FEW_ROWS: usize = 32;

/// Outputs that a task's number of outputs is a multiple of: the lanes of the widest register, and
/// the rows of a tile of AMX.
pub(crate) const OUTPUTS: usize = 16;

/// Rows that meet a column together, whose sums are in registers meanwhile.
const TOGETHER: usize = 8;

/// How a product is computed.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// Pairs of bf16
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16,
    #[cfg(target_arch = "x86_64")]
    Amx,
}

impl Way {
    /// The one that has the bits of the general product with operands in `dtype`.
    fn of(dtype: Dtype) -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if dtype == Dtype::BFloat16 {
                return if has_amx() {
                    Self::Amx
                } else {
                    Self::Avx512Bf16
                };
            }
            if is_x86_feature_detected!("avx512f") {
                return Self::Avx512;
            }
            if has_avx2() {
                return Self::Avx2;
            }
        }
        debug_assert!(dtype == Dtype::Float32, "only x86-64 multiplies pairs");
        Self::Plain
    }

    fn rows(self, x: &ArrayView2<f32>) -> Rows {
        let x = x.as_standard_layout();
        let (count, n) = x.dim();
        #[cfg(target_arch = "x86_64")]
        if matches!(self, Self::Avx512Bf16 | Self::Amx) {
            let length = n.div_ceil(2);
            let mut lanes = vec![0.0; count * length];
            for (x, pairs) in x.rows().into_iter().zip(lanes.chunks_mut(length.max(1))) {
                // SAFETY: the CPU has AVX512-BF16.
                unsafe { round_row(x.to_slice().expect("a row-major matrix"), pairs) };
            }
            return Rows {
                lanes,
                count,
                length,
            };
        }
        let lanes = x.iter().copied().collect();
        Rows {
            lanes,
            count,
            length: n,
        }
    }
}

/// `c = start + x W^T`: `x` (rows, n), at most [`FEW_ROWS`], and `w` (outputs, n), whose rows are
/// contiguous. In bfloat16 the weights are bf16, and the CPU has AVX512-BF16.
///
/// # Safety
/// `c` must be initialised if `start` reads it.
pub(crate) unsafe fn multiply<W: Weight>(
    x: &ArrayView2<f32>,
    w: &ArrayView2<W>,
    start: Start<'_>,
    mut c: ArrayViewMut2<MaybeUninit<f32>>,
    dtype: Dtype,
) {
    if c.ncols() > 1 && c.strides()[1] != 1 {
        let mut rows = Array2::from_elem(c.dim(), MaybeUninit::new(0.0));
        if start.times != 0.0 {
            rows.assign(&c);
        }
        // SAFETY: the caller's promise.
        unsafe { multiply(x, w, start, rows.view_mut(), dtype) };
        return c.assign(&rows);
    }
    let way = Way::of(dtype);
    let rows = way.rows(x);
    #[cfg(target_arch = "x86_64")]
    let rows = match way {
        Way::Amx => crate::product::amx::tiles_of_rows(&rows),
        _ => rows,
    };
    let tasks = cut(c.ncols(), OUTPUTS, OUTPUTS * w.ncols() * size_of::<W>());
    let mut parts = Vec::with_capacity(tasks.len());
    for outputs in tasks {
        let (part, rest) = c.split_at(Axis(1), outputs.len());
        c = rest;
        let start = start.at_column(outputs.start);
        parts.push((w.slice(s![outputs, ..]), start, part));
    }
    for_each(parts, |(w, start, mut c)| {
        let stride = c.strides()[0];
        let c = c.as_mut_ptr().cast();
        // SAFETY: the caller's promise, and the CPU has the instructions.
        with_panels(&BLOCK, OUTPUTS * ROW_STRIDE, |panel| unsafe {
            match way {
                #[cfg(target_arch = "x86_64")]
                Way::Amx => run_few_rows(&rows, &w, c, stride, start),
                #[cfg(target_arch = "x86_64")]
                Way::Avx512Bf16 => by_pairs(&rows, &w, c, stride, start, panel),
                #[cfg(target_arch = "x86_64")]
                Way::Avx512 => by_avx512(&rows, &w, c, stride, start, panel),
                #[cfg(target_arch = "x86_64")]
                Way::Avx2 => by_avx2(&rows, &w, c, stride, start, panel),
                Way::Plain => blocks::<[f32; 4], OfF32, W, 1>(&rows, &w, c, stride, start, panel),
            }
        });
    });
}

/// [`blocks`] for a `Way`.
macro_rules! by {
    ($name:ident, $register:ty, $multiply:ty, $numbers:literal, $features:literal) => {
        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = $features)]
        unsafe fn $name<W: Weight>(
            x: &Rows,
            w: &ArrayView2<W>,
            c: *mut f32,
            stride: isize,
            start: Start<'_>,
            panel: &mut [f32],
        ) {
            // SAFETY: the caller's promise.
            unsafe { blocks::<$register, $multiply, W, $numbers>(x, w, c, stride, start, panel) }
        }
    };
}

by!(
    by_avx2,
    std::arch::x86_64::__m256,
    OfF32,
    1,
    "avx2,fma,f16c"
);
by!(by_avx512, std::arch::x86_64::__m512, OfF32, 1, "avx512f");
by!(
    by_pairs,
    std::arch::x86_64::__m512,
    OfPairs,
    2,
    "avx512f,avx512bf16"
);

/// The outputs of a task, as many at a time as a register has lanes. `N` numbers share a lane.
///
/// # Safety
/// The CPU must have the instructions; `c` must be the place of (rows, outputs), `stride` from row
/// to row, and initialised if `start` reads it; two numbers that share a lane must be bf16.
#[inline(always)]
unsafe fn blocks<V: Square, M: Multiply<V>, W: Weight, const N: usize>(
    x: &Rows,
    w: &ArrayView2<W>,
    c: *mut f32,
    stride: isize,
    start: Start<'_>,
    panel: &mut [f32],
) {
    let (outputs, n) = w.dim();
    let distance = w.strides()[0] * size_of::<W>() as isize; // in bytes
    let in_place = size_of::<W>() * N == size_of::<f32>();
    for first in (0..outputs).step_by(V::LANES) {
        let here = V::LANES.min(outputs - first);
        // Once even without an inner dimension, for the initial summand.
        for k in (0..x.length.max(1)).step_by(DEPTH) {
            let depth = DEPTH.min(x.length - k);
            let numbers = k * N..n.min((k + depth) * N);
            let whole = match in_place && here == V::LANES {
                true => numbers.len() / N / V::LANES * V::LANES,
                false => 0,
            };
            // SAFETY: the caller's promise: the squares are within the rows of weights, and
            // those of the panel within the panel.
            unsafe {
                let mut sums = [V::splat(0.0); FEW_ROWS];
                let at_x = |at: usize| (x.lanes.as_ptr().add(k + at), x.length, x.count);
                let from = w.as_ptr().cast::<u8>().offset(first as isize * distance);
                let from = from.add(numbers.start * size_of::<W>());
                for at in (0..whole).step_by(V::LANES) {
                    let from = from.add(at * size_of::<f32>());
                    for l in 0..V::LANES as isize {
                        // Of the next outputs.
                        let next = from.wrapping_offset((l + V::LANES as isize) * distance);
                        prefetch::far_line(next, 0);
                    }
                    square::<V, M>((from.cast(), distance), at_x(at), V::LANES, &mut sums);
                }
                if whole < depth {
                    let numbers = numbers.start + whole * N..numbers.end;
                    let rows = w.slice(s![first..first + here, numbers]);
                    for (row, to) in rows.rows().into_iter().zip(panel.chunks_mut(ROW_STRIDE)) {
                        let row = row.to_slice().expect("a contiguous row");
                        let ahead = V::LANES * distance as usize;
                        for line in row.chunks(prefetch::LINE * size_of::<f32>() / size_of::<W>()) {
                            prefetch::far_line(line.as_ptr(), ahead);
                        }
                        let (to, rest) = to.split_at_mut(row.len().div_ceil(N));
                        if N == 1 {
                            W::widen(row, to);
                        } else {
                            if let Some(last) = to.last_mut() {
                                *last = 0.0;
                            }
                            let bytes = size_of_val(row);
                            let to = to.as_mut_ptr().cast::<u8>();
                            to.copy_from_nonoverlapping(row.as_ptr().cast(), bytes);
                        }
                        let padding = rest.len().min(V::LANES);
                        rest[..padding].fill(0.0);
                    }
                    let distance = (size_of::<f32>() * ROW_STRIDE) as isize;
                    for at in (whole..depth).step_by(V::LANES) {
                        let from = (panel.as_ptr().add(at - whole), distance);
                        let count = V::LANES.min(depth - at);
                        square::<V, M>(from, at_x(at), count, &mut sums);
                    }
                }
                let start = if k == 0 {
                    start.at_column(first)
                } else {
                    Start::times(1.0)
                };
                for (r, sum) in sums[..x.count].iter().enumerate() {
                    let row = c.offset(r as isize * stride).add(first);
                    store_sum(*sum, row, 0, here, start);
                }
            }
        }
    }
}

/// The first `count` columns of a square of weights, whose rows are `distance` bytes apart, meet
/// the rows of `x`.
///
/// # Safety
/// The CPU must have the instructions; the square and as many columns of `x` can be read.
#[inline(always)]
unsafe fn square<V: Square, M: Multiply<V>>(
    (from, distance): (*const f32, isize),
    (x, length, rows): (*const f32, usize, usize),
    count: usize,
    sums: &mut [V; FEW_ROWS],
) {
    // SAFETY: the caller's promise.
    unsafe {
        let columns = V::columns(from, distance);
        let columns = columns.as_ref();
        let mut r = 0;
        macro_rules! rows {
            ($($together:expr),*) => {$(
                while rows - r >= $together {
                    let x = x.add(r * length);
                    let sums = sums[r..].first_chunk_mut().expect("as many sums");
                    if count == V::LANES {
                        meet::<V, M, { $together }>(columns, (x, length), V::LANES, sums);
                    } else {
                        meet::<V, M, { $together }>(columns, (x, length), count, sums);
                    }
                    r += $together;
                }
            )*};
        }
        rows!(TOGETHER, 4, 2, 1);
    }
}

/// # Safety
/// As [`square`], for `R` rows.
#[inline(always)]
unsafe fn meet<V: Square, M: Multiply<V>, const R: usize>(
    columns: &[V],
    (x, length): (*const f32, usize),
    count: usize,
    sums: &mut [V; R],
) {
    let mut own = *sums; // in registers
    for (k, column) in columns.iter().enumerate().take(count) {
        for (r, sum) in own.iter_mut().enumerate() {
            // SAFETY: the caller's promise.
            unsafe {
                let x = V::splat(*x.add(r * length + k));
                *sum = M::add_product(*sum, x, *column);
            }
        }
    }
    *sums = own;
}
