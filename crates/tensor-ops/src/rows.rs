//! Any array as a matrix of rows, and one loop over blocks of rows for all threads.
//!
//! Blocks have a fixed size, and no sum crosses a block, so the bits don't depend on the number of
//! threads.

use kernels::{elementwise, fill_blocks, for_each};
use ndarray::{Array, Array1, ArrayRef, ArrayRef2, CowArray, Dimension, Ix2, ShapeBuilder};

/// Length of the chunks of an element-wise operation.
pub(crate) const WIDTH: usize = 1024;

/// Elements a task handles: 32 KiB of f32, so that a small model's rows are tasks for many threads.
const ELEMENTS_PER_TASK: usize = 8 * 1024;

/// Returns `(..., n)` as `(rows, n)`: a view if the memory is in row-major order, otherwise a copy.
/// A vector is one row.
pub(crate) fn as_rows<D: Dimension>(x: &ArrayRef<f32, D>) -> CowArray<'_, f32, Ix2> {
    let n = x.shape().last().copied().unwrap_or(1);
    let rows = x.shape().iter().rev().skip(1).product();
    x.as_standard_layout()
        .into_shape_with_order((rows, n))
        .expect("a row-major array of rows * n elements")
}

/// `(rows, n)` back to the leading dimensions of `like` with `n` as the last one.
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

/// Owned elements in row-major order.
pub(crate) fn into_contiguous<D: Dimension>(x: Array<f32, D>) -> Array<f32, D> {
    if x.is_standard_layout() {
        x
    } else {
        x.as_standard_layout().into_owned()
    }
}

/// Rows of `width` elements a task handles.
pub(crate) fn rows_per_task(width: usize) -> usize {
    (ELEMENTS_PER_TASK / width.max(1)).max(1)
}

/// New numbers in row-major order, `n` in all: `f(first_row, block)` writes consecutive blocks of
/// rows, on all threads.
pub(crate) fn fresh_rows(n: usize, width: usize, f: impl Fn(usize, &mut [f32]) + Sync) -> Vec<f32> {
    let rows = rows_per_task(width);
    fill_blocks(n, rows * width, |i, block| f(i * rows, block))
}

/// `torch.empty`, for memory that is written before it is read: it contains zeros or the former
/// contents of a [`Pooled`](crate::engine::Pooled); NaN in debug builds.
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

/// A matrix of zeros that is kept long and read often.
pub(crate) fn zero_weights((rows, columns): (usize, usize)) -> Array<f32, Ix2> {
    Array::from_shape_vec((rows, columns), kernels::zeros(rows * columns)).expect("as many")
}

/// `x += y` on all threads, for arrays of one shape.
///
/// # Panics
/// If the shapes differ.
pub fn add_assign<D: Dimension>(x: &mut Array<f32, D>, y: &ArrayRef<f32, D>) {
    *x = with_each_of("add_assign", std::mem::take(x), y, elementwise::add);
}

/// Updates `x` with the numbers of `y`, block by block on all threads.
///
/// # Panics
/// If the shapes differ; `op` is named then.
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

/// # Panics
/// If the shapes differ, naming the operation and both.
pub(crate) fn check_same_shape<D: Dimension>(op: &str, x: &ArrayRef<f32, D>, y: &ArrayRef<f32, D>) {
    let (x, y) = (x.shape(), y.shape());
    assert!(x == y, "{op}: shapes {x:?} and {y:?} differ");
}

/// Calls `f(first_row, block)` for consecutive blocks of rows of `out`, on all threads.
pub(crate) fn for_each_block(out: &mut [f32], width: usize, f: impl Fn(usize, &mut [f32]) + Sync) {
    if out.is_empty() || width == 0 {
        return;
    }
    let rows = rows_per_task(width);
    let blocks = out.chunks_mut(rows * width).enumerate().collect();
    for_each(blocks, |(i, block)| f(i * rows, block));
}

/// `sums[j] += sum_i x[i][j]`: each thread takes some columns and walks all rows in order.
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

/// Returns the elements of a row-major array of this crate.
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
