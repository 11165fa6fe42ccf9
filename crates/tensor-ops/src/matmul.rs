//! Matrix product, `c[i][j] = sum_k a[i][k] b[k][j]`: the one function that every dense product
//! goes through.
//!
//! A row of a product has the same bits whether it is computed alone or with any number of other
//! rows, and with any number of threads.
//! Views may have any strides, so a transpose costs no copy. Only [`matmul_batched`] broadcasts,
//! over its leading dimensions.

use kernels::Dtype;
use kernels::gemm::{self, Threads};
use ndarray::{
    Array, Array1, Array2, ArrayRef, ArrayRef2, ArrayViewD, ArrayViewMut2, ArrayViewMutD,
    Dimension, Ix2,
};

/// `a @ b`: (m, k) @ (k, n) -> (m, n), on all threads. `torch.matmul` of two matrices.
///
/// ```
/// use tensor_ops::{matmul, ndarray::array};
/// let product = matmul(&array![[1.0, 2.0]], &array![[3.0], [4.0]]);
/// assert_eq!(product, array![[11.0]]);
/// ```
///
/// # Panics
/// If the inner dimensions differ; the message names both shapes.
#[must_use]
pub fn matmul(a: &ArrayRef2<f32>, b: &ArrayRef2<f32>) -> Array2<f32> {
    matmul_in(Dtype::Float32, a, b)
}

/// The form of [`matmul`] with operands in another format, such as bfloat16.
///
/// # Panics
/// If the inner dimensions differ, or the format isn't one of
/// [`OPERAND_DTYPES`](crate::OPERAND_DTYPES).
#[must_use]
pub fn matmul_in(dtype: Dtype, a: &ArrayRef2<f32>, b: &ArrayRef2<f32>) -> Array2<f32> {
    check_inner("matmul", a, b);
    gemm::product(a, b, None, dtype)
}

/// `a @ b + row`, the row added to each: a linear layer with its bias.
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

/// `c = a @ b + beta * c` on all threads; `c` is not read if `beta` is 0.
///
/// # Panics
/// If the shapes don't fit; the message names them.
pub fn matmul_into(a: &ArrayRef2<f32>, b: &ArrayRef2<f32>, beta: f32, c: ArrayViewMut2<f32>) {
    matmul_into_in(Dtype::Float32, a, b, beta, c);
}

/// The form of [`matmul_into`] with operands in another format, such as bfloat16.
///
/// # Panics
/// If the shapes don't fit, or the format isn't one of [`OPERAND_DTYPES`](crate::OPERAND_DTYPES).
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

/// [`matmul_into`] on the calling thread alone: for use inside work that is already parallel.
///
/// # Panics
/// If the shapes don't fit; the message names them.
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

/// `a @ b` over the last two dimensions, for each index of the leading ones: `torch.matmul` of two
/// tensors whose leading dimensions agree.
///
/// ```
/// use ndarray::Array4;
/// let a = Array4::<f32>::ones((1, 2, 3, 4)); // (batch, n_heads, n_tokens, head_dim)
/// let scores = tensor_ops::matmul_batched(&a, &a.view().permuted_axes([0, 1, 3, 2]));
/// assert_eq!(scores.shape(), [1, 2, 3, 3]);
/// ```
///
/// # Panics
/// If there are fewer than two dimensions, the leading ones differ, or the inner ones don't fit.
#[must_use]
pub fn matmul_batched<D: Dimension>(a: &ArrayRef<f32, D>, b: &ArrayRef<f32, D>) -> Array<f32, D> {
    let n = a.ndim();
    assert!(
        n >= 2 && a.shape()[..n - 2] == b.shape()[..n - 2] && a.shape()[n - 1] == b.shape()[n - 2],
        "matmul_batched: shapes {:?} and {:?} don't fit",
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

/// Returns the gradients of `a` and `b` of [`matmul_batched`] from the gradient of the product:
/// `d_out @ b^T` and `a^T @ d_out`.
///
/// # Panics
/// If `d_out` is not of the product's shape.
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

/// `c = a @ b` for each index of the leading dimensions; each product has the bits that [`matmul`]
/// gives.
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
        "{op}: shapes {:?} and {:?} don't fit: {} columns against {} rows",
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
