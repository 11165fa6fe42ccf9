//! The dense matrix product `C = A B + beta C` of `f32` matrices with arbitrary strides.
//!
//! The operands are multiplied either in float32 or, after rounding, in bfloat16. Sums are always
//! accumulated in `f32`. Both operands are packed into panels, as described in Goto and van de
//! Geijn's "Anatomy of High-Performance Matrix Multiplication", and rayon's threads share the tiles
//! of `C`. Weights that are stored as `bf16` or `f16` are converted to `f32` while they are packed.
//!
//! For each element of `C`, the inner dimension is divided into blocks of 384 steps. The products
//! within each block are added up, and the sums of the blocks are then added in order. A step
//! covers one value along the inner dimension in float32, and two neighboring values in bfloat16.
//! The bits of an element therefore depend only on its row of `A` and its column of `B`. They don't
//! depend on the number of threads, the division into tiles, or the other rows of `A`. The kernel
//! that multiplies a few rows by transposed weights (`few_rows`) adds in the same order.

use std::mem::MaybeUninit;

use ndarray::{Array2, ArrayRef2, ArrayViewMut2};

use crate::Dtype;
use crate::operands::{OPERAND_DTYPES, has_bf16, rounded};
#[cfg(target_arch = "x86_64")]
use crate::product::amx::{Amx, has_amx};
use crate::product::few_rows::{self, FEW_ROWS};
use crate::product::kernel::{self, Start};
use crate::product::pack::RightOperand;
use crate::product::tiles::multiply_by;
pub use crate::product::tiles::{Threads, packed_bytes};
use crate::threads::awake;
use crate::threads::buffers::buffer;
use crate::weight::Weight;
#[cfg(target_arch = "x86_64")]
use crate::weight::has_avx2;

/// Largest number of rows of `A` for which [`multiply`] computes the transposed product,
/// `C^T = B^T A^T`, because it is faster. This method is used only if `A` also has at least four
/// times as many columns as rows, if `C` has more columns than rows, and if the columns of `B` are
/// contiguous, as they are if `B` is the transposed weight matrix of a linear layer.
///
/// The right operand of a product is packed completely before the first task starts, whereas the
/// left operand is packed by the tasks, each of which packs only the rows that it needs. In the
/// transposed product, the right operand is the small matrix `A`, so the tasks can start sooner.
const TRANSPOSED_ROWS: usize = 128;
/// Smallest number of multiplications for which a product uses several threads.
const MIN_PARALLEL_WORK: usize = 1 << 19;

/// Returns the product `A B`. The values of both matrices are multiplied in float32 or, after
/// rounding, in bfloat16, depending on `dtype`. If `row` isn't `None`, it is added to each row of
/// the product.
///
/// `a` has the shape (m, inner), `b` has the shape (inner, n), `row` has n values, and the result
/// has the shape (m, n). The memory for the result comes from [`buffer`](crate::buffer) and isn't
/// zeroed first.
///
/// # Panics
///
/// Panics if the shapes of the matrices are incompatible, if `row` doesn't have one value per
/// column of the result, or if `dtype` isn't one of the [`OPERAND_DTYPES`].
pub fn product(
    a: &ArrayRef2<f32>,
    b: &ArrayRef2<f32>,
    row: Option<&[f32]>,
    dtype: Dtype,
) -> Array2<f32> {
    let shape = (a.nrows(), b.ncols());
    check(a, b, shape);
    assert!(
        row.is_none_or(|row| row.len() == shape.1),
        "gemm: the row to add has {} values, but the result has {} columns",
        row.map_or(0, <[f32]>::len),
        shape.1
    );
    let mut c = buffer(shape.0 * shape.1);
    c.clear();
    let spare = &mut c.spare_capacity_mut()[..shape.0 * shape.1];
    let view = ArrayViewMut2::from_shape(shape, spare).expect("as many elements");
    let start = Start { beta: 0.0, row };
    // SAFETY: `c` is uninitialized, but `multiply` doesn't read it, because `beta` is 0. It writes
    // every element of `c` before `set_len` is called.
    unsafe {
        multiply(a, b, start, view, Threads::Pool, dtype);
        c.set_len(shape.0 * shape.1);
    }
    Array2::from_shape_vec(shape, c).expect("as many elements")
}

/// Computes `C = A B + beta C`. The values of `A` and `B` are multiplied in float32 or, after
/// rounding, in bfloat16, depending on `dtype`.
///
/// `a` has the shape (m, inner), `b` has the shape (inner, n), and `c` has the shape (m, n). If
/// `beta` is 0, the previous contents of `c` are ignored, so they may be NaN.
///
/// # Panics
///
/// Panics if the shapes of the matrices are incompatible or if `dtype` isn't one of the
/// [`OPERAND_DTYPES`].
pub fn accumulate(
    a: &ArrayRef2<f32>,
    b: &ArrayRef2<f32>,
    beta: f32,
    c: ArrayViewMut2<f32>,
    threads: Threads,
    dtype: Dtype,
) {
    widening_accumulate(a, b, beta, c, threads, dtype);
}

/// Computes `C = A B + beta C` like [`accumulate`], but also accepts a right operand `B` whose
/// elements are `bf16` or `f16`.
pub(crate) fn widening_accumulate<B: Weight>(
    a: &ArrayRef2<f32>,
    b: &ArrayRef2<B>,
    beta: f32,
    mut c: ArrayViewMut2<f32>,
    threads: Threads,
    dtype: Dtype,
) {
    check(a, b, c.dim());
    let start = Start::beta(beta);
    // SAFETY: `check` has verified the shapes. All elements of `c` are initialized, and `multiply`
    // overwrites them only with initialized values.
    unsafe {
        let c = c.raw_view_mut().cast::<MaybeUninit<f32>>();
        multiply(a, b, start, c.deref_into_view_mut(), threads, dtype);
    }
}

/// Panics if the shapes of the matrices are incompatible. The unsafe code of [`multiply`] relies on
/// this check.
fn check<B>(a: &ArrayRef2<f32>, b: &ArrayRef2<B>, c: (usize, usize)) {
    assert!(
        a.ncols() == b.nrows() && c == (a.nrows(), b.ncols()),
        "gemm: matrices of shape {:?} and {:?} don't have a product of shape {c:?}",
        a.dim(),
        b.dim()
    );
}

/// Returns the names of the instruction sets that matrix products can use on this CPU. The list
/// contains some of the names `avx2`, `avx512`, `bf16` and `amx`, in this order.
///
/// CPUs for which this function returns the same list compute products with identical bits. On
/// other CPUs, the last bits may differ.
pub fn instruction_sets() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let all = [
        ("avx2", has_avx2()),
        ("avx512", is_x86_feature_detected!("avx512f")),
        ("bf16", has_bf16()),
        ("amx", has_amx()),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let all: [(&str, bool); 0] = [];
    all.into_iter()
        .filter_map(|(name, has)| has.then_some(name))
        .collect()
}

/// Computes `C = start + A B` with the fastest method for these shapes and this CPU. The initial
/// value `start` is either a multiple of the previous contents of `C` or a row that is added to
/// each row of the product.
///
/// # Safety
///
/// The shapes of `a`, `b` and `c` must be compatible. If `start` contains a row, it must have as
/// many values as `c` has columns. If `start` refers to the previous contents of `c`, they must be
/// initialized.
unsafe fn multiply<A: Weight, B: Weight>(
    a: &ArrayRef2<A>,
    b: &ArrayRef2<B>,
    start: Start<'_>,
    mut c: ArrayViewMut2<MaybeUninit<f32>>,
    threads: Threads,
    dtype: Dtype,
) {
    assert!(
        OPERAND_DTYPES.contains(&dtype),
        "gemm: operands in {dtype} aren't supported"
    );
    if c.is_empty() {
        return;
    }
    let multiplied_as_stored = match B::IS_BF16 {
        true => dtype == Dtype::BFloat16 && has_bf16(),
        false => dtype == Dtype::Float32,
    };
    if c.nrows() <= FEW_ROWS
        && b.strides()[0] == 1
        && multiplied_as_stored
        && let (Threads::Pool, Some(a)) = (threads, A::as_f32(a.view()))
    {
        // SAFETY: The caller guarantees that the shapes of the matrices are compatible, and that
        // `c` is initialized if `start` refers to its previous contents.
        return awake(|| unsafe { few_rows::multiply(&a, &b.t(), start, c, dtype) });
    }
    let few = c.nrows() <= TRANSPOSED_ROWS.min(a.ncols() / 4) && c.nrows() < c.ncols();
    if few && b.strides()[0] == 1 {
        let start = match start.row {
            Some(row) => {
                for c in c.rows_mut() {
                    c.into_iter().zip(row).for_each(|(c, &x)| _ = c.write(x));
                }
                Start::beta(1.0)
            }
            None => start,
        };
        let c = c.reversed_axes();
        // SAFETY: The caller guarantees that the shapes of the matrices are compatible, and that
        // `c` is initialized if `start` refers to its previous contents. If the caller's `start`
        // contained a row, the loop above has initialized `c` by writing that row to all of its
        // rows.
        return unsafe { multiply(&b.t(), &a.t(), start, c, threads, dtype) };
    }
    if dtype == Dtype::BFloat16 && !has_bf16() {
        let (a, b) = (rounded(a), rounded(b));
        // SAFETY: The caller guarantees that the shapes of the matrices are compatible, and that
        // `c` is initialized if `start` refers to its previous contents.
        return unsafe { multiply(&*a, &*b, start, c, threads, Dtype::Float32) };
    }
    // SAFETY: The caller guarantees that the shapes of the matrices are compatible, and that `c` is
    // initialized if `start` refers to its previous contents.
    unsafe { multiply_packed(a, b, start, c, threads, dtype) }
}

/// Computes `C = start + A B` from packed panels with the fastest micro-kernel that the CPU
/// supports.
///
/// # Safety
///
/// The safety requirements of [`multiply`] apply to this function as well. In addition,
/// [`has_bf16`] must return true if `dtype` is bfloat16.
pub(crate) unsafe fn multiply_packed<A: Weight, B: RightOperand + ?Sized>(
    a: &ArrayRef2<A>,
    b: &B,
    start: Start<'_>,
    c: ArrayViewMut2<MaybeUninit<f32>>,
    threads: Threads,
    dtype: Dtype,
) {
    debug_assert!(
        dtype == Dtype::Float32 || has_bf16(),
        "there is no matrix product kernel for {dtype}"
    );
    let threads = match c.len() * a.ncols() {
        0..MIN_PARALLEL_WORK => Threads::One,
        _ => threads,
    };
    // SAFETY: The caller guarantees that the shapes of the matrices are compatible, and that `c` is
    // initialized if `start` refers to its previous contents. Each kernel is called only if the CPU
    // supports its instruction set.
    let multiply = || unsafe {
        #[cfg(target_arch = "x86_64")]
        {
            if dtype == Dtype::BFloat16 && has_amx() {
                return multiply_by::<Amx, _, _>(a, b, start, c, threads);
            }
            if dtype == Dtype::BFloat16 {
                return multiply_by::<kernel::Avx512Bf16, _, _>(a, b, start, c, threads);
            }
            if is_x86_feature_detected!("avx512f") {
                return multiply_by::<kernel::Avx512, _, _>(a, b, start, c, threads);
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                return multiply_by::<kernel::Avx2, _, _>(a, b, start, c, threads);
            }
        }
        multiply_by::<kernel::Plain, _, _>(a, b, start, c, threads);
    };
    match threads {
        Threads::One => multiply(),
        Threads::Pool => awake(multiply),
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Axis, array, s};

    use super::*;
    use crate::product::kernel::{DEPTH, Kernel};

    /// Computes the product `start + A B` with plain loops, as the expected result for tests of the
    /// kernels. The products are added in the order that the module's documentation specifies, so
    /// that the tests can compare all bits. `add_product(x, y, sum)` returns `sum + x * y`.
    fn plain(
        (a, b): (&Array2<f32>, &Array2<f32>),
        start: Start<'_>,
        c: &Array2<f32>,
        add_product: fn(f32, f32, f32) -> f32,
    ) -> Array2<f32> {
        Array2::from_shape_fn(c.dim(), |(i, j)| {
            let mut total = match start.row {
                Some(row) => row[j],
                None => start.beta * c[[i, j]],
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
            (17, 1, 33),
            (17, 385, 20), // The second block of the inner dimension has a single step.
            (14, 400, 33),
            (29, 17, 64),
            (40, 780, 31),
            (320, 400, 70),
            (300, 1024, 20), // The rows of `A` are 4 KiB apart, so they are packed.
            (600, 390, 33),  // The columns of `A` are packed.
        ] {
            let (a, b) = (numbers((m, inner), 5), numbers((inner, n), 3));
            let row = vec![0.25; n];
            let row = Start {
                beta: 0.0,
                row: Some(&row),
            };
            for start in [Start::beta(0.0), Start::beta(2.0), row] {
                let before = numbers((m, n), 13);
                let expected = plain((&a, &b), start, &before, add_product);
                let (a_t, b_t) = (a.t().to_owned(), b.t().to_owned());
                for (a, b) in [(&a.view(), &b.view()), (&a_t.t(), &b_t.t())] {
                    for threads in [Threads::One, Threads::Pool] {
                        let mut c = before.clone();
                        let view = c.raw_view_mut().cast::<MaybeUninit<f32>>();
                        // SAFETY: The shapes of the matrices are compatible, `c` is initialized,
                        // and the test has checked that the CPU supports the kernel's instruction
                        // set.
                        unsafe {
                            multiply_by::<K, _, _>(
                                a,
                                &**b,
                                start,
                                view.deref_into_view_mut(),
                                threads,
                            );
                        }
                        assert_eq!(c, expected, "{m} x {inner} x {n}, {threads:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_kernel_adds_in_the_order_that_is_promised() {
        check_kernel::<kernel::Plain>(|x, y, sum| {
            if cfg!(target_arch = "aarch64") {
                x.mul_add(y, sum)
            } else {
                x * y + sum
            }
        });
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            check_kernel::<kernel::Avx2>(f32::mul_add);
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            check_kernel::<kernel::Avx512>(f32::mul_add);
        }
    }

    /// An implementation of the bfloat16 product that is tested by `check_bf16`. It rounds two
    /// matrices to bfloat16, multiplies them, and adds the given row to each row of the product.
    type Bf16Product = fn(&ArrayRef2<f32>, &ArrayRef2<f32>, &[f32]) -> Array2<f32>;

    #[cfg(target_arch = "x86_64")]
    fn product_by<K: Kernel>(a: &ArrayRef2<f32>, b: &ArrayRef2<f32>, row: &[f32]) -> Array2<f32> {
        let mut c = Array2::from_elem((a.nrows(), b.ncols()), f32::NAN);
        let start = Start {
            beta: 0.0,
            row: Some(row),
        };
        let view = c.raw_view_mut().cast::<MaybeUninit<f32>>();
        // SAFETY: The shapes of the matrices are compatible, `c` is initialized, and the tests call
        // this function only if the kernel's instructions are supported or emulated.
        unsafe { multiply_by::<K, _, _>(a, b, start, view.deref_into_view_mut(), Threads::Pool) };
        c
    }

    /// Compares products computed in bfloat16 with `f64` products of operands that have been
    /// rounded to bfloat16.
    #[test]
    fn products_of_bf16_are_those_of_the_rounded_operands() {
        check_bf16(|a, b, row| product(a, b, Some(row), Dtype::BFloat16));
        #[cfg(target_arch = "x86_64")]
        if has_bf16() {
            check_bf16(product_by::<kernel::Avx512Bf16>);
        }
    }

    /// Compares products of the AMX kernel with `f64` products of the rounded operands. If the CPU
    /// doesn't support AMX, the AMX instructions are emulated.
    #[test]
    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    fn products_by_amx_are_those_of_the_rounded_operands() {
        if !has_bf16() {
            return println!("skipped: this processor can't round to bf16");
        }
        if !has_amx() {
            crate::product::amx::emulated::install();
        }
        check_bf16(product_by::<Amx>);
    }

    fn check_bf16(product: Bf16Product) {
        let spoiled = Array2::from_elem((40, 800), f32::NAN);
        let numbers = |shape, step: usize| {
            Array2::from_shape_fn(shape, |(i, j)| {
                (((i * 7 + j * step) * 7919) % 10_007) as f32 / 5003.0 - 1.0
            })
        };
        for (m, inner, n) in [
            (1, 1, 1),
            (3, 0, 5),
            (17, 1, 33),
            (32, 64, 32), // The operands consist of whole tiles.
            (33, 65, 31),
            (17, 769, 20), // The second block of the inner dimension has a single value.
            (14, 800, 33),
            (29, 17, 64),
            (40, 1600, 31),
            (150, 1024, 400),
            (300, 390, 70),
        ] {
            let (a, b) = (numbers((m, inner), 5), numbers((inner, n), 3));
            let row: Vec<f32> = (0..n).map(|j| j as f32 / 7.0).collect();
            let wide = |matrix: &Array2<f32>| rounded(matrix).mapv(f64::from);
            let exact = wide(&a).dot(&wide(&b))
                + &Array2::from_shape_fn((1, n), |(_, j)| f64::from(row[j]));
            let (a_t, b_t) = (a.t().to_owned(), b.t().to_owned());
            let mut first: Option<Array2<f32>> = None;
            for (a, b) in [
                (a.view(), b.view()),
                (a_t.t(), b_t.t()),
                (a.view(), b_t.t()),
                (a_t.t(), b.view()),
            ] {
                let products = [1, 2].map(|threads| {
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
                    pool.expect("a pool").install(|| {
                        // The first product fills the memory for the packed panels with NaN,
                        // because all elements of `spoiled` are NaN. The second product, which is
                        // tested, reuses this memory. If it reads a value that it hasn't packed
                        // itself, its result contains NaN, and the test fails.
                        product(&spoiled, &spoiled.t(), &[0.0; 40]);
                        product(&a, &b, &row)
                    })
                });
                assert_eq!(products[0], products[1], "{m} x {inner} x {n}");
                let [c, _] = products;
                for (at, &c) in c.indexed_iter() {
                    let off = (f64::from(c) - exact[at]).abs();
                    assert!(
                        off <= 2e-5 * (1.0 + inner as f64).sqrt(),
                        "{m} x {inner} x {n} at {at:?}: {off}"
                    );
                }
                assert_eq!(
                    *first.get_or_insert(c.clone()),
                    c,
                    "{m} x {inner} x {n}: another order in memory"
                );
            }
            let mut c = numbers((m, n), 13);
            let expected = &exact - &Array2::from_shape_fn((1, n), |(_, j)| f64::from(row[j]))
                + c.mapv(|c| f64::from(2.0 * c));
            let dtype = Dtype::BFloat16;
            accumulate(&a, &b, 2.0, c.view_mut(), Threads::Pool, dtype);
            let off = |(c, expected): (&f32, &f64)| (f64::from(*c) - expected).abs();
            let most = c.iter().zip(&expected).map(off).fold(0.0, f64::max);
            assert!(
                most <= 2e-5 * (1.0 + inner as f64).sqrt(),
                "{m} x {inner} x {n}: {most}"
            );
        }
    }

    #[test]
    fn operands_are_rounded_to_nearest_ties_to_even() {
        let one = Array2::ones((1, 1));
        for (number, nearest) in [
            // 1 + 1/256 lies halfway between two bf16 values.
            (1.0 + 1.0 / 256.0, 1.0),
            // 1 + 3/256 lies halfway between two bf16 values.
            (1.0 + 3.0 / 256.0, 1.0 + 4.0 / 256.0),
            (1.0 + 1.1 / 256.0, 1.0 + 2.0 / 256.0),
            (-1.0 - 0.9 / 256.0, -1.0),
            (f32::MAX, f32::INFINITY),
            (f32::NEG_INFINITY, f32::NEG_INFINITY),
            (0.0, 0.0),
        ] {
            let number = Array2::from_elem((1, 1), number);
            let products = [(&number, &one), (&one, &number)]
                .map(|(a, b)| product(a, b, None, Dtype::BFloat16));
            assert_eq!(
                products,
                [[[nearest]], [[nearest]]].map(|it| Array2::from(it.to_vec())),
                "{number}"
            );
            assert_eq!(
                product(&number, &one, None, Dtype::Float32),
                number,
                "f32 again"
            );
        }
        let nan = Array2::from_elem((1, 1), f32::NAN);
        assert!(product(&nan, &one, None, Dtype::BFloat16)[[0, 0]].is_nan());
    }

    #[test]
    fn few_rows_times_transposed_weights_have_the_bits_of_rows_times_columns() {
        for (m, inner, n) in [(1, 4, 2), (17, 800, 130), (128, 512, 700)] {
            let a =
                Array2::from_shape_fn((m, inner), |(i, k)| ((i * 7 + k * 5) % 23) as f32 / 11.0);
            let w = Array2::from_shape_fn((n, inner), |(j, k)| ((j * 3 + k * 7) % 19) as f32 / 9.0);
            let columns = w.t().as_standard_layout().into_owned();
            let row: Vec<f32> = (0..n).map(|j| j as f32 / 7.0).collect();
            for row in [None, Some(&row[..])] {
                let expected = product(&a, &columns, row, Dtype::Float32);
                assert_eq!(
                    product(&a, &w.t(), row, Dtype::Float32),
                    expected,
                    "{m} x {inner} x {n}"
                );
                let (mut c, mut expected) = (expected.clone(), expected);
                accumulate(
                    &a,
                    &columns,
                    0.3,
                    expected.view_mut(),
                    Threads::Pool,
                    Dtype::Float32,
                );
                accumulate(&a, &w.t(), 0.3, c.view_mut(), Threads::Pool, Dtype::Float32);
                assert_eq!(c, expected, "{m} x {inner} x {n}");
            }
        }
    }

    #[test]
    #[should_panic(expected = "the row to add has 2 values, but the result has 3 columns")]
    fn a_row_that_is_too_short_is_refused() {
        let (a, b) = (Array2::zeros((1, 4)), Array2::zeros((4, 3)));
        product(&a, &b, Some(&[0.0; 2]), Dtype::Float32);
    }

    #[test]
    fn a_result_that_is_not_row_major_is_written_all_the_same() {
        let (a, b) = (
            Array2::from_elem((3, 4), 2.0),
            Array2::from_elem((4, 5), 0.5),
        );
        let mut c = Array2::from_elem((5, 6), 1.0);
        let (columns, rest) = c.view_mut().split_at(Axis(1), 3);
        accumulate(
            &a,
            &b,
            1.0,
            columns.reversed_axes(),
            Threads::Pool,
            Dtype::Float32,
        );
        assert!(rest.iter().all(|&x| x == 1.0));
        let scattered = c.slice_mut(s![.., ..;2]).reversed_axes();
        accumulate(&a, &b, 1.0, scattered, Threads::Pool, Dtype::Float32);
        assert_eq!(c.row(4), array![9.0, 5.0, 9.0, 1.0, 5.0, 1.0]);
    }
}
