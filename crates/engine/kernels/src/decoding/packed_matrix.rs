//! Immutable matrices with 32, 16, 8 or 4 bits per weight, and the trait [`Format`], which defines
//! how the weights are stored.
//!
//! Products read the packed weights without unpacking the whole matrix. Int8 and int4 weights are
//! multiplied as integers. F16 weights are converted to `f32` first, and so are bf16 weights,
//! unless the CPU can multiply bf16 values. The matrices are meant for inference only, so no
//! gradients are computed for them.

use std::fmt;
use std::ops::Range;

use ndarray::{ArrayRef2, ArrayView2, ArrayViewMut2};

use crate::product::weight_panels::WIDTH;
use crate::threads::zeros;

/// Number of rows in a panel of weights. If the last panel of a matrix has fewer rows,
/// it is padded with rows of zeros.
pub(crate) const ROWS: usize = WIDTH;
/// Largest number of weights that [`PackedMatrix::from_rows`] requests from its closure in one
/// call. They take 16 MiB as `f32` values, so each matrix of a transformer block of GPT-2 124M is
/// requested in a single call. A file with transposed weights is read much faster in large parts.
/// If 16 rows contain more weights than this, the function requests 16 rows per call.
const VALUES_PER_CALL: usize = 1 << 22;

/// The weights of a matrix, stored in a certain number format.
pub(crate) trait Format: Sync {
    /// Creates a matrix without rows and reserves enough memory for the given shape (outputs,
    /// inputs).
    fn with_room(shape: (usize, usize)) -> Self;

    /// Rounds the given rows of weights, a matrix of the shape (rows, inputs), to this format and
    /// appends them to this matrix. The matrix can be filled in several calls. In all calls except
    /// the last one, the number of rows must be a multiple of 16, because the rows are stored in
    /// panels of 16.
    fn push_rows(&mut self, rows: &ArrayRef2<f32>);

    /// Converts the weights of the row with the index `row` from this format to `f32` and writes
    /// them to `out`. The length of `out` must be the number of inputs of the matrix, because each
    /// row has one weight for each input.
    fn read_row(&self, row: usize, out: &mut [f32]);

    /// Returns the number of bytes of memory that a matrix of the shape (outputs, inputs) needs, or
    /// `usize::MAX` if this number doesn't fit in a `usize`.
    fn bytes(shape: (usize, usize)) -> usize;

    /// Computes `out = x W^T`, where `W` is this matrix, `x` has the shape (rows, inputs) and `out`
    /// has the shape (rows, outputs). Neither `x` nor `out` may be empty.
    fn matmul_rows(&self, x: &ArrayRef2<f32>, out: ArrayViewMut2<f32>);
}

/// An immutable matrix of the shape (outputs, inputs) whose weights are stored in the format `F`.
///
/// There is a type alias for each format: [`F32Matrix`](crate::F32Matrix),
/// [`Bf16Matrix`](crate::Bf16Matrix), [`F16Matrix`](crate::F16Matrix),
/// [`Int8Matrix`](crate::Int8Matrix) and [`Int4Matrix`](crate::Int4Matrix).
#[derive(Clone, PartialEq)]
pub struct PackedMatrix<F> {
    pub(crate) weights: F,
    pub(crate) shape: (usize, usize),
}

#[expect(private_bounds, reason = "the formats are private to this crate")]
impl<F: Format> PackedMatrix<F> {
    /// Creates a matrix from `f32` weights of the shape (outputs, inputs) by rounding each weight
    /// to the format `F`.
    pub fn from_f32(weight: &ArrayRef2<f32>) -> Self {
        let shape = weight.dim();
        let mut weights = F::with_room(shape);
        weights.push_rows(weight);
        Self { weights, shape }
    }

    /// Creates a matrix of the shape (outputs, inputs) from `f32` weights. The closure `read`
    /// provides these weights a few rows at a time, so they never have to be in memory all at once.
    ///
    /// The function calls `read(rows, out)` with consecutive ranges of row indices. Each call must
    /// write the weights of these rows to `out`, in row-major order. `out` is part of the vector
    /// `buffer`, which can be reused for further matrices. Its initial contents don't matter.
    ///
    /// ```
    /// let mut buffer = Vec::new();
    /// let w = kernels::F32Matrix::from_rows((3, 2), &mut buffer, |rows, out| {
    ///     for (row, out) in rows.zip(out.chunks_exact_mut(2)) {
    ///         out.fill(row as f32);
    ///     }
    ///     Ok::<(), std::io::Error>(())
    /// })?;
    /// let mut row = [0.0; 2];
    /// w.read_row(1, &mut row);
    /// assert_eq!(row, [1.0; 2]);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Returns the first error that `read` returns.
    pub fn from_rows<E>(
        shape: (usize, usize),
        buffer: &mut Vec<f32>,
        mut read: impl FnMut(Range<usize>, &mut [f32]) -> Result<(), E>,
    ) -> Result<Self, E> {
        let (outputs, inputs) = shape;
        let mut weights = F::with_room(shape);
        let step = (VALUES_PER_CALL / inputs.max(1) / ROWS).max(1) * ROWS;
        for first in (0..outputs).step_by(step) {
            let rows = first..outputs.min(first + step);
            let shape = (rows.len(), inputs);
            let len = rows.len() * inputs;
            if buffer.len() < len {
                *buffer = zeros(len);
            }
            let block = &mut buffer[..len];
            read(rows, block)?;
            let block = ArrayView2::from_shape(shape, &*block);
            weights.push_rows(&block.expect("as many elements"));
        }
        Ok(Self { weights, shape })
    }

    /// Converts the weights of the row with the index `row` to `f32` and writes them to `out`.
    ///
    /// # Panics
    ///
    /// Panics if there is no row with the index `row`, or if the length of `out` isn't the number
    /// of inputs.
    pub fn read_row(&self, row: usize, out: &mut [f32]) {
        let (outputs, inputs) = self.shape;
        assert!(
            row < outputs && out.len() == inputs,
            "read_row: the row with the index {row} of a matrix of shape {:?} can't be read into {} numbers",
            self.shape,
            out.len()
        );
        self.weights.read_row(row, out);
    }

    /// Returns the number of bytes of memory that the weights of this matrix occupy. A product with
    /// this matrix has to read all of these bytes.
    pub fn bytes(&self) -> usize {
        Self::bytes_of(self.shape)
    }

    /// Returns the number of bytes of memory that a matrix of the shape (outputs, inputs) needs. In
    /// all formats, the number of rows is rounded up to a multiple of 16. With int8 and int4
    /// weights, the number of columns is also rounded up to a multiple of 64.
    ///
    /// ```
    /// assert_eq!(kernels::Bf16Matrix::bytes_of((16, 8)), 2 * 16 * 8);
    /// assert_eq!(kernels::Int8Matrix::bytes_of((16, 8)), 16 * 64 + 16 * 4);
    /// ```
    pub fn bytes_of(shape: (usize, usize)) -> usize {
        F::bytes(shape)
    }

    /// Computes `out = x W^T`, where `W` is this matrix, `x` has the shape (rows, inputs) and `out`
    /// has the shape (rows, outputs).
    ///
    /// The result for a row of `x` has the same bits regardless of the other rows of `x`. With int8
    /// and int4 weights, `x` is rounded to int8 (see [`Int8Matrix`](crate::Int8Matrix)). With bf16
    /// weights, `x` is rounded to bf16 if [`has_bf16`](crate::has_bf16) returns `true`.
    ///
    /// ```
    /// use ndarray::{Array2, array};
    /// let w = kernels::Bf16Matrix::from_f32(&array![[1.0, 2.0], [0.5, -1.0], [0.0, 3.0]]);
    /// let mut y = Array2::zeros((1, 3));
    /// w.matmul_rows(&array![[10.0, 1.0]], y.view_mut());
    /// assert_eq!(y, array![[12.0, 4.0, 3.0]]);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if the shape of `x` isn't (rows, inputs) or the shape of `out` isn't (rows, outputs).
    pub fn matmul_rows(&self, x: &ArrayRef2<f32>, mut out: ArrayViewMut2<f32>) {
        self.check(x, out.dim());
        if x.is_empty() {
            return out.fill(0.0);
        }
        if !out.is_empty() {
            self.weights.matmul_rows(x, out);
        }
    }

    /// Panics if the input `x` or the output of a product has the wrong shape.
    pub(crate) fn check(&self, x: &ArrayRef2<f32>, out: (usize, usize)) {
        assert!(
            x.ncols() == self.shape.1 && out == (x.nrows(), self.shape.0),
            "matmul_rows: an input of shape {:?} and a weight of shape {:?} don't match each other or an output of shape {out:?}",
            x.dim(),
            self.shape
        );
    }
}

/// Prints only the shape, because a matrix may have millions of weights.
impl<F> fmt::Debug for PackedMatrix<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (outputs, inputs) = self.shape;
        write!(f, "PackedMatrix({outputs} x {inputs})")
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, Axis, array};

    use super::*;
    use crate::{Bf16Matrix, Dtype, F16Matrix, F32Matrix, Int4Matrix, Int8Matrix, gemm, has_bf16};

    /// Checks for several shapes that a matrix in the format `F` rounds its weights correctly, and
    /// that its products agree with `f32` products of the rounded weights. The test uses weights
    /// and activations between -1 and 1. The largest permitted rounding errors are `step` for a
    /// weight and `x_step` for an activation.
    fn check_product<F: Format>(step: f32, x_step: f32) {
        for (rows, n, m) in [
            (1, 1, 1),
            (1, 70, 9),
            (1, 130, 200),
            (4, 130, 20),
            (5, 33, 20),
            (17, 33, 20),
            (12, 64, 70),
            (70, 390, 40),
            (3, 0, 4),
            (0, 5, 4),
            (2, 5, 0),
        ] {
            let x = Array2::from_shape_fn((rows, n), |(i, j)| {
                ((i * 7 + j * 3) % 13) as f32 / 6.0 - 1.0
            });
            let w =
                Array2::from_shape_fn((m, n), |(i, j)| ((i * 5 + j * 11) % 97) as f32 / 48.0 - 1.0);
            let packed = PackedMatrix::<F>::from_f32(&w);
            let mut rounded = Array2::zeros((n, m));
            packed.matmul_rows(&Array2::eye(n), rounded.view_mut());
            let rounded = rounded.t();
            assert!((&rounded - &w).iter().all(|d| d.abs() <= step));
            for (i, expected) in rounded.rows().into_iter().enumerate() {
                let mut row = vec![f32::NAN; n];
                packed.read_row(i, &mut row);
                let near = |(x, y): (&f32, &f32)| (x - y).abs() < 1e-6;
                assert!(row.iter().zip(expected).all(near), "row {i} of {m} x {n}");
            }
            let mut y = Array2::from_elem((rows, m), f32::NAN);
            packed.matmul_rows(&x, y.view_mut());
            let expected = gemm::product(&x, &rounded.t(), None, Dtype::Float32);
            if x_step == 0.0 {
                assert_eq!(y, expected, "{rows} x {n} x {m}: the bits differ");
            }
            // An element of the product contains the rounding errors of `n` activations. These
            // errors partly cancel each other out, so the permitted error of an element grows only
            // with the square root of `n`.
            let tolerance = (x_step * (n as f32).sqrt() * 1.5).max(1e-4);
            for ((at, got), expected) in y.indexed_iter().zip(&expected) {
                assert!(
                    (got - expected).abs() <= tolerance,
                    "{rows} x {n} x {m} at {at:?}: {got} not {expected}"
                );
            }
        }
    }

    #[test]
    fn few_rows_and_many_rows_give_the_product_of_the_rounded_weights() {
        fn check<F: Format>(_: Option<PackedMatrix<F>>, step: f32, x_step: f32) {
            check_product::<F>(step, x_step);
        }
        let x_step = if has_bf16() { 1.0 / 512.0 } else { 0.0 };
        check(None::<F32Matrix>, 0.0, 0.0);
        check(None::<Bf16Matrix>, 1.0 / 256.0, x_step);
        check(None::<F16Matrix>, 1.0 / 2048.0, 0.0);
        check(None::<Int8Matrix>, 0.51 / 127.0, 0.5 / 127.0);
        // The largest permitted rounding error of an int4 weight is one scale, because a weight
        // that is clamped to the end of the range from -8 to 7 may be off by as much as that. All
        // weights in this test are between -1 and 1, so a scale is at most 1/7.
        check(None::<Int4Matrix>, 1.0 / 7.0, 0.5 / 127.0);
    }

    #[test]
    fn a_row_has_the_same_bits_alone_and_among_others() {
        fn check<F: Format>(w: &PackedMatrix<F>) {
            let (m, n) = w.shape;
            for rows in [2, 7, 16, 17, 64, 130] {
                let number = |(i, j)| ((i * 7 + j * 3) % 113) as f32 / 6.0 - 1.0;
                let x = Array2::from_shape_fn((rows, n), number);
                let mut together = Array2::zeros((m, rows)); // The output is transposed.
                w.matmul_rows(&x, together.view_mut().reversed_axes());
                for (r, x) in x.rows().into_iter().enumerate() {
                    let mut alone = Array2::zeros((1, m));
                    w.matmul_rows(&x.insert_axis(Axis(0)), alone.view_mut());
                    assert_eq!(alone.row(0), together.column(r), "row {r} of {rows}");
                }
            }
        }
        let w = Array2::from_shape_fn((200, 130), |(i, j)| ((i * 5 + j * 11) % 97) as f32 - 48.0);
        check(&F32Matrix::from_f32(&w));
        assert!(F32Matrix::from(w.clone()) == F32Matrix::from_f32(&w));
        let columns = w.t().as_standard_layout().into_owned().reversed_axes();
        assert!(F32Matrix::from(columns) == F32Matrix::from_f32(&w));
        check(&Bf16Matrix::from_f32(&w));
        check(&F16Matrix::from_f32(&w));
        check(&Int8Matrix::from_f32(&w));
        check(&Int4Matrix::from_f32(&w));
    }

    #[test]
    fn what_cannot_be_said_in_a_format_is_near_it() {
        fn f16(w: f32, x: f32) -> f32 {
            let row =
                |first| Array2::from_shape_fn((1, 32), |(_, j)| if j == 0 { first } else { 0.0 });
            let mut y = Array2::zeros((1, 1));
            F16Matrix::from_f32(&row(w)).matmul_rows(&row(x), y.view_mut());
            y[[0, 0]]
        }
        assert_eq!([1e6, -1e30].map(|w| f16(w, 1.0)), [65504.0, -65504.0]);
        assert_eq!(
            [1e6, -1e30, f32::INFINITY].map(|x| f16(1.0, x)),
            [1e6, -1e30, f32::INFINITY]
        );
        assert!(f16(f32::NAN, 1.0).is_nan() && f16(1.0, f32::NAN).is_nan());
        for (w, nearest) in [(6e5, 524032.0), (1e30, 524032.0), (-f32::MAX, -524032.0)] {
            let mut y = Array2::zeros((1, 1)); // The result is eight times the largest f16.
            Int4Matrix::from_f32(&array![[w]]).matmul_rows(&array![[1.0]], y.view_mut());
            assert!((y[[0, 0]] - nearest).abs() < 1.0, "{w}: {y}");
        }
        let mut y = Array2::from_elem((1, 2), f32::NAN);
        Int8Matrix::from_f32(&Array2::zeros((2, 3)))
            .matmul_rows(&array![[1.0, 2.0, 3.0]], y.view_mut());
        assert_eq!(y, array![[0.0, 0.0]]);
    }

    #[test]
    fn debug_prints_no_weights() {
        let matrix = Int4Matrix::from_f32(&Array2::zeros((30, 20)));
        assert_eq!(format!("{matrix:?}"), "PackedMatrix(30 x 20)");
    }
}
