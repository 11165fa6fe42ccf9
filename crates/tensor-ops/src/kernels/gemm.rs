//! The one call of the GEMM crate: `c = a b + beta c` on strided f32 matrices.
//!
//! The sum over the inner dimension runs in an order that depends on the sizes alone, so the bits of the result don't depend on the number of threads.

use gemm::Parallelism;
use ndarray::{Array2, ArrayRef2, ArrayViewMut2};

/// Where the threads come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Threads {
    /// The caller already works in parallel.
    One,
    /// Rayon's pool.
    Pool,
}

/// `a @ b` into fresh memory that is written once.
pub(crate) fn product(a: &ArrayRef2<f32>, b: &ArrayRef2<f32>, threads: Threads) -> Array2<f32> {
    let shape = (a.nrows(), b.ncols());
    if a.ncols() == 0 {
        return Array2::zeros(shape);
    }
    let mut c = Array2::<f32>::uninit(shape);
    let strides = (c.strides()[0], c.strides()[1]);
    // SAFETY: `c` is a fresh allocation of m x n elements with these strides, and with
    // `read_dst = false` the product writes every element without reading one.
    unsafe {
        raw(a, b, c.as_mut_ptr().cast(), strides, false, 0.0, threads);
        c.assume_init()
    }
}

/// `c = a @ b + beta * c`; with `beta` 0, `c` is not read.
pub(crate) fn accumulate(
    a: &ArrayRef2<f32>,
    b: &ArrayRef2<f32>,
    beta: f32,
    mut c: ArrayViewMut2<f32>,
    threads: Threads,
) {
    if a.ncols() == 0 {
        c.mapv_inplace(|x| if beta == 0.0 { 0.0 } else { x * beta });
        return;
    }
    let strides = (c.strides()[0], c.strides()[1]);
    // SAFETY: `c` is a mutable view, so it is valid for writes at these strides and
    // aliases neither `a` nor `b`; the shapes were checked by `matmul`.
    unsafe { raw(a, b, c.as_mut_ptr(), strides, beta != 0.0, beta, threads) }
}

/// # Safety
/// `c` must be valid for reads (if `read_c`) and writes of `a.nrows()` x `b.ncols()` elements at `c_strides`, and `a.ncols() == b.nrows()`.
unsafe fn raw(
    a: &ArrayRef2<f32>,
    b: &ArrayRef2<f32>,
    c: *mut f32,
    c_strides: (isize, isize),
    read_c: bool,
    beta: f32,
    threads: Threads,
) {
    let parallelism = match threads {
        Threads::One => Parallelism::None,
        Threads::Pool => Parallelism::Rayon(0),
    };
    // SAFETY: the views vouch for `a` and `b`, the caller for `c` and for the shapes.
    unsafe {
        gemm::gemm(
            a.nrows(),
            b.ncols(),
            a.ncols(),
            c,
            c_strides.1,
            c_strides.0,
            read_c,
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
            parallelism,
        );
    }
}
