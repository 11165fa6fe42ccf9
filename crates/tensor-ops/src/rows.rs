//! Functions that treat an array with any number of dimensions as a matrix of rows, and loops that
//! process blocks of rows on all threads.
//!
//! The number of threads affects neither the size of the blocks nor the order of additions, because
//! each sum is computed within a single task. Therefore, the results are bitwise identical for any
//! number of threads.

use kernels::{elementwise, fill_blocks, for_each};
use ndarray::{Array, Array1, ArrayRef, ArrayRef2, CowArray, Dimension, Ix2, ShapeBuilder};

/// Number of elements per row in elementwise operations. These operations ignore the shape of an
/// array and process it as a sequence of rows of this length.
pub(crate) const WIDTH: usize = 1024;

/// Number of elements that each task of a parallel operation processes. They take up 32 KiB. This
/// number is small enough to divide even the arrays of a small model into many tasks, so that all
/// threads have work to do.
const ELEMENTS_PER_TASK: usize = 8 * 1024;

/// Returns an array of shape `(..., n)` as a matrix of shape `(rows, n)`. If the array is in
/// row-major order, the matrix is a view. Otherwise, it is a copy. An array with a single dimension
/// becomes a matrix with a single row.
pub(crate) fn as_rows<D: Dimension>(x: &ArrayRef<f32, D>) -> CowArray<'_, f32, Ix2> {
    let n = x.shape().last().copied().unwrap_or(1);
    let rows = x.shape().iter().rev().skip(1).product();
    x.as_standard_layout()
        .into_shape_with_order((rows, n))
        .expect("a row-major array of rows * n elements")
}

/// Reshapes a matrix of shape `(rows, n)` to an array with the leading dimensions of `like` and the
/// last dimension `n`. This is the inverse of [`as_rows`].
pub(crate) fn with_leading_dims_of<D: Dimension>(
    rows: Array<f32, Ix2>,
    like: &ArrayRef<f32, D>,
) -> Array<f32, D> {
    let mut shape = like.raw_dim();
    if let Some(last) = shape.slice_mut().last_mut() {
        *last = rows.ncols();
    }
    rows.into_shape_with_order(shape)
        .expect("the same number of rows as the input")
}

/// Returns the array in row-major order, copying it only if it is in a different order.
pub(crate) fn into_contiguous<D: Dimension>(x: Array<f32, D>) -> Array<f32, D> {
    if x.is_standard_layout() {
        x
    } else {
        x.as_standard_layout().into_owned()
    }
}

/// Returns how many rows of `width` elements each task of a parallel operation processes. This is
/// as many rows as fit into [`ELEMENTS_PER_TASK`] elements, but at least one.
pub(crate) fn rows_per_task(width: usize) -> usize {
    (ELEMENTS_PER_TASK / width.max(1)).max(1)
}

/// Creates a vector of `n` elements, and fills it on all threads. The vector is divided into blocks
/// of consecutive rows, and each row has `width` elements. `f(first_row, block)` is called for each
/// block and must write all of its elements.
pub(crate) fn fresh_rows(n: usize, width: usize, f: impl Fn(usize, &mut [f32]) + Sync) -> Vec<f32> {
    let rows = rows_per_task(width);
    fill_blocks(n, rows * width, |i, block| f(i * rows, block))
}

/// Returns an array with unspecified elements, like `torch.empty`. The caller must write each
/// element before reading it. In debug builds, all elements are NaN, so that tests can detect
/// elements that were never written. In release builds, they are 0 or come from an earlier
/// [`Pooled`](crate::engine::Pooled) array.
pub fn empty<Sh: ShapeBuilder>(shape: Sh) -> Array<f32, Sh::Dim> {
    let shape = shape.into_shape_with_order();
    let n = shape.size();
    let mut numbers = kernels::buffer(n);
    numbers.resize(n, 0.0);
    if cfg!(debug_assertions) {
        numbers.fill(f32::NAN);
    }
    Array::from_shape_vec(shape, numbers).expect("as many numbers as the shape has")
}

/// Returns a matrix of zeros for weights. On Linux, its memory consists of huge pages if the system
/// provides them, because weights exist for a long time and are read often.
pub(crate) fn zero_weights((rows, columns): (usize, usize)) -> Array<f32, Ix2> {
    Array::from_shape_vec((rows, columns), kernels::zeros(rows * columns)).expect("as many")
}

/// Adds `y` to `x` on all threads, which is equivalent to `x += y` for arrays of the same shape.
///
/// # Panics
///
/// Panics if the shapes differ.
pub fn add_assign<D: Dimension>(x: &mut Array<f32, D>, y: &ArrayRef<f32, D>) {
    *x = with_each_of("add_assign", std::mem::take(x), y, elementwise::add);
}

/// Updates `x` with the elements of `y`, and returns `x`. The update is performed by `f(x_block,
/// y_block)`, which is called for each block of elements, on all threads. The two blocks contain
/// the elements at the same positions in row-major order.
///
/// # Panics
///
/// Panics if the shapes differ. The message contains the name of the operation, `op`, and both
/// shapes.
pub(crate) fn with_each_of<D: Dimension>(
    op: &str,
    x: Array<f32, D>,
    y: &ArrayRef<f32, D>,
    f: impl Fn(&mut [f32], &[f32]) + Sync,
) -> Array<f32, D> {
    check_same_shape(op, &x, y);
    let mut x = into_contiguous(x);
    let y = y.as_standard_layout();
    let y = y.as_slice().expect("standard layout is contiguous");
    for_each_block(slice_mut(&mut x), WIDTH, |block, x| {
        f(x, &y[block * WIDTH..][..x.len()]);
    });
    x
}

/// Checks that two arrays have the same shape.
///
/// # Panics
///
/// Panics if the shapes differ. The message contains the name of the operation, `op`, and both
/// shapes.
pub(crate) fn check_same_shape<D: Dimension>(op: &str, x: &ArrayRef<f32, D>, y: &ArrayRef<f32, D>) {
    let (x, y) = (x.shape(), y.shape());
    assert!(x == y, "{op}: shapes {x:?} and {y:?} differ");
}

/// Modifies the array `out` on all threads. The array is divided into blocks of consecutive rows,
/// and each row has `width` elements. `f(first_row, block)` is called for each block.
pub(crate) fn for_each_block(out: &mut [f32], width: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
    if out.is_empty() || width == 0 {
        return;
    }
    let rows = rows_per_task(width);
    let blocks = out.chunks_mut(rows * width).enumerate().collect();
    for_each(blocks, |(i, block)| f(i * rows, block));
}

/// Adds up each column of `x` and adds the result to the element of `sums` for this column. Each
/// task processes 64 columns and adds their rows in order, so the result doesn't depend on the
/// number of threads.
pub(crate) fn add_column_sums(x: &ArrayRef2<f32>, sums: &mut Array1<f32>) {
    const COLUMNS_PER_TASK: usize = 64;
    let tasks = slice_mut(sums).chunks_mut(COLUMNS_PER_TASK).enumerate();
    for_each(tasks.collect(), |(task, sums)| {
        let first = task * COLUMNS_PER_TASK;
        for row in x.rows() {
            let row = row.to_slice().expect("rows of a row-major matrix");
            elementwise::add(sums, &row[first..first + sums.len()]);
        }
    });
}

/// Returns the elements of an array as a slice. The array must be in row-major order, which is
/// always the case for arrays that this crate creates.
pub(crate) fn slice_mut<D: Dimension>(x: &mut Array<f32, D>) -> &mut [f32] {
    x.as_slice_mut()
        .expect("arrays made by this crate are row-major")
}

#[cfg(test)]
mod tests {
    use super::*;
    use ndarray::Array3;

    #[test]
    fn add_assign_gives_the_bits_of_ndarrays_sum_in_any_memory_order() {
        let numbers = |seed: usize| {
            Array3::from_shape_fn((3, 50, 700), |(i, j, k)| {
                ((i * 7 + j * 5 + k * seed) % 101) as f32 / 13.0
            })
        };
        let (x, y) = (numbers(3), numbers(11));
        let expected = &x + &y;
        let mut sum = x.clone();
        add_assign(&mut sum, &y);
        assert!(sum == expected);
        let mut turned = x
            .reversed_axes()
            .as_standard_layout()
            .into_owned()
            .reversed_axes();
        add_assign(&mut turned, &y);
        assert!(turned == expected);
    }
}
