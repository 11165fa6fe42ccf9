//! Matrix products, `c[i][j] = sum_k a[i][k] b[k][j]`. The other modules of this crate use these
//! functions to multiply matrices.
//!
//! Each row of a product is bitwise identical whether it is computed alone or together with other
//! rows, and regardless of the number of threads. The operands can have any strides, so transposed
//! views don't have to be copied. Unlike in PyTorch, there is no broadcasting.

use kernels::Dtype;
use kernels::gemm::{self, Threads};
use ndarray::{
    Array, Array1, Array2, ArrayRef, ArrayRef2, ArrayViewD, ArrayViewMut2, ArrayViewMutD,
    Dimension, Ix2,
};

/// Returns the product `a @ b` of a matrix of shape `(m, k)` and a matrix of shape `(k, n)`,
/// computed on all threads. In PyTorch, this is `torch.matmul(a, b)`.
///
/// ```
/// use tensor_ops::{matmul, ndarray::array};
/// let product = matmul(&array![[1.0, 2.0]], &array![[3.0], [4.0]]);
/// assert_eq!(product, array![[11.0]]);
/// ```
///
/// # Panics
///
/// Panics if the number of columns of `a` differs from the number of rows of `b`. The message
/// contains both shapes.
#[must_use]
pub fn matmul(a: &ArrayRef2<f32>, b: &ArrayRef2<f32>) -> Array2<f32> {
    matmul_in(Dtype::Float32, a, b)
}

/// Does the same as [`matmul`], but first rounds both matrices to the number format `dtype`, such
/// as bfloat16.
///
/// # Panics
///
/// Panics if the number of columns of `a` differs from the number of rows of `b`, or if `dtype`
/// isn't one of [`OPERAND_DTYPES`](crate::OPERAND_DTYPES).
#[must_use]
pub fn matmul_in(dtype: Dtype, a: &ArrayRef2<f32>, b: &ArrayRef2<f32>) -> Array2<f32> {
    check_inner("matmul", a, b);
    gemm::product(a, b, None, dtype)
}

/// Returns `a @ b` with the vector `row` added to each row of the product. Linear layers with a
/// bias use this function.
pub(crate) fn matmul_plus_row(
    dtype: Dtype,
    a: &ArrayRef2<f32>,
    b: &ArrayRef2<f32>,
    row: &Array1<f32>,
) -> Array2<f32> {
    check_inner("matmul_plus_row", a, b);
    let row = row
        .as_slice()
        .expect("Linear: the bias is a view with a stride; it must be contiguous");
    gemm::product(a, b, Some(row), dtype)
}

/// Computes `c = a @ b + beta * c` on all threads. If `beta` is 0, the previous elements of `c`
/// aren't read, so they may be NaN.
///
/// # Panics
///
/// Panics if the product `a @ b` doesn't exist or doesn't have the shape of `c`. The message
/// contains the shapes.
pub fn matmul_into(a: &ArrayRef2<f32>, b: &ArrayRef2<f32>, beta: f32, c: ArrayViewMut2<f32>) {
    matmul_into_in(Dtype::Float32, a, b, beta, c);
}

/// Does the same as [`matmul_into`], but first rounds `a` and `b` to the number format `dtype`,
/// such as bfloat16.
///
/// # Panics
///
/// Panics if the product `a @ b` doesn't exist or doesn't have the shape of `c`, or if `dtype`
/// isn't one of [`OPERAND_DTYPES`](crate::OPERAND_DTYPES).
pub fn matmul_into_in(
    dtype: Dtype,
    a: &ArrayRef2<f32>,
    b: &ArrayRef2<f32>,
    beta: f32,
    c: ArrayViewMut2<f32>,
) {
    check_inner("matmul_into", a, b);
    check_output("matmul_into", a, b, &c);
    gemm::accumulate(a, b, beta, c, Threads::Pool, dtype);
}

/// Does the same as [`matmul_into`], but uses only the calling thread. This is useful inside a task
/// that already runs in parallel with others.
///
/// # Panics
///
/// Panics if the product `a @ b` doesn't exist or doesn't have the shape of `c`. The message
/// contains the shapes.
pub fn matmul_into_serial(
    a: &ArrayRef2<f32>,
    b: &ArrayRef2<f32>,
    beta: f32,
    c: ArrayViewMut2<f32>,
) {
    check_inner("matmul_into_serial", a, b);
    check_output("matmul_into_serial", a, b, &c);
    gemm::accumulate(a, b, beta, c, Threads::One, Dtype::Float32);
}

/// Multiplies the matrices that the last two dimensions of `a` and `b` contain. The result contains
/// one product for each index of the leading dimensions, like the result of `torch.matmul(a, b)`
/// for tensors with equal leading dimensions.
///
/// ```
/// use ndarray::Array4;
/// let a = Array4::<f32>::ones((1, 2, 3, 4)); // (batch, n_heads, n_tokens, head_dim)
/// let scores = tensor_ops::matmul_batched(&a, &a.view().permuted_axes([0, 1, 3, 2]));
/// assert_eq!(scores.shape(), [1, 2, 3, 3]);
/// ```
///
/// # Panics
///
/// Panics if the arrays have fewer than two dimensions, if their leading dimensions differ, or if
/// the number of columns of the matrices in `a` differs from the number of rows of the matrices in
/// `b`.
#[must_use]
pub fn matmul_batched<D: Dimension>(a: &ArrayRef<f32, D>, b: &ArrayRef<f32, D>) -> Array<f32, D> {
    let n = a.ndim();
    assert!(
        n >= 2 && a.shape()[..n - 2] == b.shape()[..n - 2] && a.shape()[n - 1] == b.shape()[n - 2],
        "matmul_batched: arrays of shape {:?} and {:?} can't be multiplied; their leading dimensions must be equal, and the matrices in the first must have as many columns as the matrices in the second have rows",
        a.shape(),
        b.shape()
    );
    let mut out_dim = a.raw_dim();
    out_dim.slice_mut()[n - 1] = b.shape()[n - 1];
    let mut out = Array::zeros(out_dim);
    for_each_matrix(
        a.view().into_dyn(),
        b.view().into_dyn(),
        out.view_mut().into_dyn(),
    );
    out
}

/// Returns the gradients of the two arguments of [`matmul_batched`], which are `d_out @ b^T` and
/// `a^T @ d_out`. `d_out` is the gradient of the product `a @ b`.
///
/// # Panics
///
/// Panics if `d_out` doesn't have the shape of the product.
#[must_use]
pub fn matmul_batched_backward<D: Dimension>(
    a: &ArrayRef<f32, D>,
    b: &ArrayRef<f32, D>,
    d_out: &ArrayRef<f32, D>,
) -> (Array<f32, D>, Array<f32, D>) {
    let [mut a, mut b] = [a.view(), b.view()];
    let n = a.ndim();
    a.swap_axes(n - 2, n - 1);
    b.swap_axes(n - 2, n - 1);
    (matmul_batched(d_out, &b), matmul_batched(&a, d_out))
}

/// Computes `c = a @ b` for each index of the leading dimensions. Each product is bitwise identical
/// to the result of [`matmul`] for the same two matrices.
fn for_each_matrix(a: ArrayViewD<f32>, b: ArrayViewD<f32>, mut c: ArrayViewMutD<f32>) {
    if a.ndim() > 2 {
        for ((a, b), c) in a.outer_iter().zip(b.outer_iter()).zip(c.outer_iter_mut()) {
            for_each_matrix(a, b, c);
        }
        return;
    }
    let matrix = "two dimensions are left";
    let (a, b) = (
        a.into_dimensionality::<Ix2>().expect(matrix),
        b.into_dimensionality::<Ix2>().expect(matrix),
    );
    matmul_into(
        &a,
        &b,
        0.0,
        c.view_mut().into_dimensionality::<Ix2>().expect(matrix),
    );
}

fn check_inner(op: &str, a: &ArrayRef2<f32>, b: &ArrayRef2<f32>) {
    assert!(
        a.ncols() == b.nrows(),
        "{op}: a matrix of shape {:?} can't be multiplied by a matrix of shape {:?}, because the first has {} columns and the second has {} rows",
        a.shape(),
        b.shape(),
        a.ncols(),
        b.nrows()
    );
}

fn check_output(op: &str, a: &ArrayRef2<f32>, b: &ArrayRef2<f32>, c: &ArrayRef<f32, Ix2>) {
    assert!(
        c.dim() == (a.nrows(), b.ncols()),
        "{op}: the output has shape {:?}, but {:?} @ {:?} has shape {:?}",
        c.shape(),
        a.shape(),
        b.shape(),
        [a.nrows(), b.ncols()]
    );
}
