//! Products `C = start + x W^T` in which `x` has few rows and each row of the weights `W` is
//! contiguous. A decoder spends most of its time on products in which `x` has few rows.
//!
//! Each weight is used only once per row of `x`. Most of the time is therefore spent reading the
//! weights from memory, and packing them would take longer than the product itself. For this
//! reason, the weights are read only once, from their original location. With vector registers of
//! 16 lanes, the kernel loads a square block of 16 rows by 16 lanes of `W`, transposes it in
//! registers, and multiplies each column of the block by the corresponding value of each row of
//! `x`. Each lane of the result then contains the sum of one output.
//!
//! For each element of `C`, the products are added in the same order as in the general product
//! ([`gemm`](super::gemm)), in blocks of [`DEPTH`] lanes along the inner dimension. A row of the
//! result therefore has the same bits whether it is computed by this module or by the general
//! product, and regardless of the other rows.

use std::mem::MaybeUninit;

use ndarray::{Array2, ArrayView2, ArrayViewMut2, s};

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
use crate::threads::tasks::cut_columns;
use crate::weight::Weight;
#[cfg(target_arch = "x86_64")]
use crate::weight::has_avx2;

/// Largest number of rows of `x` that this module supports.
pub(crate) const FEW_ROWS: usize = 32;

/// Number of outputs in a group. A product is divided into tasks, each of which consists of whole
/// groups. A group has 16 outputs, because the widest vector registers have 16 lanes and an AMX
/// tile has 16 rows.
pub(crate) const OUTPUTS: usize = 16;

/// Largest number of rows of `x` that are multiplied at the same time. It is limited because the
/// sums of all these rows must fit in the vector registers.
const ROWS_AT_ONCE: usize = 8;

/// The instruction set with which a matrix product is computed.
#[derive(Clone, Copy, PartialEq)]
enum Variant {
    Plain,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
    /// AVX512-BF16, which multiplies pairs of bf16 values.
    #[cfg(target_arch = "x86_64")]
    Avx512Bf16,
    #[cfg(target_arch = "x86_64")]
    Amx,
}

impl Variant {
    /// Returns the instruction set with which products of operands in the format `dtype` are
    /// computed on this CPU. The products have the same bits as general matrix products on the same
    /// CPU.
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
                // SAFETY: `Variant::of` returns these variants only for products in bfloat16, and
                // the caller of [`multiply`] guarantees that the CPU then has AVX512-BF16 and
                // AVX512-BW.
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

/// Computes `C = start + x W^T` for `x` of the shape (rows, n) and `w` of the shape (outputs, n),
/// where `rows` is at most [`FEW_ROWS`]. The rows of `w` must be contiguous.
///
/// # Safety
///
/// The shapes of `x`, `w` and `c` must be compatible, and `c` must be initialized if `start` reads
/// it. If `dtype` is bfloat16, the weights must be bf16 values and the CPU must have AVX512-BF16
/// and AVX512-BW.
pub(crate) unsafe fn multiply<W: Weight>(
    x: &ArrayView2<f32>,
    w: &ArrayView2<W>,
    start: Start<'_>,
    mut c: ArrayViewMut2<MaybeUninit<f32>>,
    dtype: Dtype,
) {
    if c.ncols() > 1 && c.strides()[1] != 1 {
        let mut rows = Array2::from_elem(c.dim(), MaybeUninit::new(0.0));
        if start.beta != 0.0 {
            rows.assign(&c);
        }
        // SAFETY: The caller guarantees that the shapes of `x`, `w` and `c` are compatible. `rows`
        // has the same shape as `c`, and all its elements are initialized.
        unsafe { multiply(x, w, start, rows.view_mut(), dtype) };
        return c.assign(&rows);
    }
    let variant = Variant::of(dtype);
    let rows = variant.rows(x);
    #[cfg(target_arch = "x86_64")]
    let rows = match variant {
        Variant::Amx => crate::product::amx::tiles_of_rows(&rows),
        _ => rows,
    };
    let tasks = cut_columns(c, OUTPUTS, OUTPUTS * w.ncols() * size_of::<W>());
    for_each(tasks, |(first, mut c)| {
        let w = w.slice(s![first..first + c.ncols(), ..]);
        let start = start.at_column(first);
        let stride = c.strides()[0];
        let c = c.as_mut_ptr().cast();
        // SAFETY: The caller guarantees that the shapes are compatible and that `c` is initialized
        // if `start` reads it. `Variant::of` returns only variants that the CPU supports.
        with_panels(&BLOCK, OUTPUTS * ROW_STRIDE, |panel| unsafe {
            match variant {
                #[cfg(target_arch = "x86_64")]
                Variant::Amx => run_few_rows(&rows, &w, c, stride, start),
                #[cfg(target_arch = "x86_64")]
                Variant::Avx512Bf16 => by_pairs(&rows, &w, c, stride, start, panel),
                #[cfg(target_arch = "x86_64")]
                Variant::Avx512 => by_avx512(&rows, &w, c, stride, start, panel),
                #[cfg(target_arch = "x86_64")]
                Variant::Avx2 => by_avx2(&rows, &w, c, stride, start, panel),
                Variant::Plain => {
                    blocks::<[f32; 4], OfF32, W, 1>(&rows, &w, c, stride, start, panel)
                }
            }
        });
    });
}

/// Defines a function that compiles [`blocks`] for an instruction set.
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
            // SAFETY: [`blocks`] has the same safety requirements as this function. The caller
            // guarantees that `c` is writable, that the CPU supports the instruction set, and that
            // the weights are bf16 values if the function multiplies pairs of values.
            unsafe { blocks::<$register, $multiply, W, $numbers>(x, w, c, stride, start, panel) }
        }
    };
}

by!(by_avx2, std::arch::x86_64::__m256, OfF32, 1, "avx2,fma");
by!(by_avx512, std::arch::x86_64::__m512, OfF32, 1, "avx512f");
by!(
    by_pairs,
    std::arch::x86_64::__m512,
    OfPairs,
    2,
    "avx512f,avx512bf16"
);

/// Computes the elements of `C = start + x W^T` for the outputs (rows of `w`) of one task. Each
/// iteration computes as many outputs as a vector register has lanes. `N` is the number of values
/// of a row that share a 32-bit lane (1 for `f32`, 2 for bf16), and `stride` is the distance
/// between the rows of `c`, in values.
///
/// # Safety
///
/// - The CPU must support the instruction set of the register type `V`.
/// - `c` must be writable for the shape (rows, outputs), and initialized if `start` reads it.
/// - If `N` is 2, the weights must be bf16 values.
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
    let distance = w.strides()[0] * size_of::<W>() as isize; // The distance is in bytes.
    debug_assert!(size_of::<W>() * N == size_of::<f32>(), "a lane has 32 bits");
    for first in (0..outputs).step_by(V::LANES) {
        let here = V::LANES.min(outputs - first);
        // If the inner dimension of the product is empty, there is nothing to multiply. The loop
        // body still runs once, in order to set `c` to the initial value.
        for k in (0..x.length.max(1)).step_by(DEPTH) {
            let depth = DEPTH.min(x.length - k);
            let numbers = k * N..n.min((k + depth) * N);
            let whole = match here == V::LANES {
                true => numbers.len() / N / V::LANES * V::LANES,
                false => 0, // There are fewer outputs than lanes.
            };
            // SAFETY: The caller guarantees that `c` is writable and that the CPU supports the
            // instruction set of the register type `V`. All weights are read in square blocks, each
            // of which is completely within the rows of `w` or within `panel`.
            unsafe {
                let mut sums = [V::splat(0.0); FEW_ROWS];
                let at_x = |at: usize| (x.lanes.as_ptr().add(k + at), x.length, x.count);
                let from = w.as_ptr().cast::<u8>().offset(first as isize * distance);
                let from = from.add(numbers.start * size_of::<W>());
                for at in (0..whole).step_by(V::LANES) {
                    let from = from.add(at * N * size_of::<W>());
                    for l in 0..V::LANES as isize {
                        // Prefetch the weights in the same columns of the next rows of `w`. The
                        // next iteration of the outer loop, which computes the next outputs, needs
                        // them.
                        let next = from.wrapping_offset((l + V::LANES as isize) * distance);
                        prefetch::far_line(next, 0);
                    }
                    let square = (from.cast(), distance);
                    multiply_square::<V, M>(square, at_x(at), V::LANES, &mut sums);
                }
                if whole < depth {
                    let numbers = numbers.start + whole * N..numbers.end;
                    let rows = w.slice(s![first..first + here, numbers]);
                    fill_panel::<V, W, N>(&rows, distance, panel);
                    let distance = (size_of::<f32>() * ROW_STRIDE) as isize;
                    for at in (whole..depth).step_by(V::LANES) {
                        let from = (panel.as_ptr().add(at - whole), distance);
                        let count = V::LANES.min(depth - at);
                        multiply_square::<V, M>(from, at_x(at), count, &mut sums);
                    }
                }
                let start = if k == 0 {
                    start.at_column(first)
                } else {
                    Start::beta(1.0)
                };
                for (r, sum) in sums[..x.count].iter().enumerate() {
                    let row = c.offset(r as isize * stride).add(first);
                    store_sum(*sum, row, 0, here, start);
                }
            }
        }
    }
}

/// Copies rows of weights to `panel`, with `N` weights per lane, and pads each row with zeros so
/// that whole square blocks can be read from `panel`. The function also prefetches the same columns
/// of the weights for the next block of outputs. The rows of the weight matrix are `distance` bytes
/// apart.
#[inline(always)]
fn fill_panel<V: Square, W: Weight, const N: usize>(
    rows: &ArrayView2<W>,
    distance: isize,
    panel: &mut [f32],
) {
    for (row, to) in rows.rows().into_iter().zip(panel.chunks_mut(ROW_STRIDE)) {
        let row = row.to_slice().expect("a contiguous row");
        let ahead = V::LANES * distance as usize;
        for line in row.chunks(prefetch::LINE * size_of::<f32>() / size_of::<W>()) {
            prefetch::far_line(line.as_ptr(), ahead);
        }
        let (to, rest) = to.split_at_mut(row.len().div_ceil(N));
        if let Some(last) = to.last_mut() {
            *last = 0.0; // An odd number of bf16 values ends with half of a pair.
        }
        let bytes = size_of_val(row);
        let to = to.as_mut_ptr().cast::<u8>();
        // SAFETY: `to` has room for all lanes of the row.
        unsafe { to.copy_from_nonoverlapping(row.as_ptr().cast(), bytes) };
        let padding = rest.len().min(V::LANES);
        rest[..padding].fill(0.0);
    }
}

/// Multiplies the first `count` columns of a square block of weights by the corresponding values of
/// each row of `x` and adds the products to `sums`. The rows of the block are `distance` bytes
/// apart, and the rows of `x` are `length` lanes apart.
///
/// # Safety
///
/// All weights of the square block and the first `count` lanes of each row of `x` must be readable,
/// and the CPU must support the instruction set of the register type `V`.
#[inline(always)]
unsafe fn multiply_square<V: Square, M: Multiply<V>>(
    (from, distance): (*const f32, isize),
    (x, length, rows): (*const f32, usize, usize),
    count: usize,
    sums: &mut [V; FEW_ROWS],
) {
    // SAFETY: The caller guarantees that the square block of weights and the rows of `x` are
    // readable.
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
                        add_products::<V, M, { $together }>(columns, (x, length), V::LANES, sums);
                    } else {
                        add_products::<V, M, { $together }>(columns, (x, length), count, sums);
                    }
                    r += $together;
                }
            )*};
        }
        rows!(ROWS_AT_ONCE, 4, 2, 1);
    }
}

/// Multiplies the first `count` columns of a square block of weights by the corresponding values of
/// `R` rows of `x` and adds the products to `sums`. `columns` contains all columns of the block.
/// The rows of `x` are `length` lanes apart.
///
/// # Safety
///
/// The first `count` lanes of each row of `x` must be readable, and the CPU must support the
/// instruction set of the register type `V`.
#[inline(always)]
unsafe fn add_products<V: Square, M: Multiply<V>, const R: usize>(
    columns: &[V],
    (x, length): (*const f32, usize),
    count: usize,
    sums: &mut [V; R],
) {
    let mut local_sums = *sums; // The compiler can keep this copy in registers.
    for (k, column) in columns.iter().enumerate().take(count) {
        for (r, sum) in local_sums.iter_mut().enumerate() {
            // SAFETY: The caller guarantees that the first `count` lanes of each row of `x` are
            // readable.
            unsafe {
                let x = V::splat(*x.add(r * length + k));
                *sum = M::add_product(*sum, x, *column);
            }
        }
    }
    *sums = local_sums;
}
