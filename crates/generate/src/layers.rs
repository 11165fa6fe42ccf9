//! Borrowed views of a model's layers. The forward pass reads the weights through these views, so
//! it doesn't depend on the number format of the weights or on the type that owns them.

use std::ops::Range;

use gpt::Activation;
use kernels::{Bf16Matrix, F16Matrix, F32Matrix, Int4Matrix, Int8Matrix};
use ndarray::{Array1, Array2, ArrayRef2, ArrayViewMut2};
use tensor_ops::{LayerNorm, Linear, matmul_into};

use crate::Dtype;

/// The layers of a transformer block.
pub(crate) struct BlockRef<'w> {
    pub(crate) norm1: &'w LayerNorm,
    /// Layers that compute the queries, keys and values. There are either three layers, or a single
    /// layer whose outputs are the concatenated queries, keys and values.
    pub(crate) qkv: Vec<Projection<'w>>,
    pub(crate) out_proj: Projection<'w>,
    pub(crate) norm2: &'w LayerNorm,
    pub(crate) expand: Projection<'w>,
    pub(crate) activation: Activation,
    pub(crate) contract: Projection<'w>,
}

/// A linear layer.
#[derive(Clone, Copy)]
pub(crate) struct Projection<'w> {
    pub(crate) weight: Matrix<'w>,
    /// Bias of shape (outputs).
    pub(crate) bias: Option<&'w Array1<f32>>,
}

impl Projection<'_> {
    /// Computes `x W^T + b` and writes the result to `out`. The shape of `x` is (rows, inputs), and
    /// the shape of `out` is (rows, outputs).
    pub(crate) fn forward(self, x: &ArrayRef2<f32>, mut out: ArrayViewMut2<f32>) {
        match (self.weight, self.bias) {
            (Matrix::F32(weight), None) => matmul_into(x, &weight.t(), 0.0, out),
            (Matrix::F32(weight), Some(bias)) => {
                // Like `tensor_ops::Linear`, first copy the bias to the output and then add the
                // matrix product to it. The rounding errors are therefore the same, and the results
                // are bitwise identical.
                out.assign(bias);
                matmul_into(x, &weight.t(), 1.0, out);
            }
            (Matrix::Packed(Packed::F32(weight)), Some(bias)) => {
                out.assign(bias); // as for `Matrix::F32`
                weight.accumulate_rows(x, out);
            }
            (Matrix::Packed(weight), bias) => {
                weight.matmul_rows(x, out.view_mut());
                if let Some(bias) = bias {
                    out += bias;
                }
            }
        }
    }
}

impl<'w> From<&'w Linear> for Projection<'w> {
    fn from(layer: &'w Linear) -> Self {
        Self {
            weight: Matrix::F32(&layer.weight),
            bias: layer.bias.as_ref(),
        }
    }
}

/// A weight matrix of shape (outputs, inputs).
#[derive(Clone, Copy)]
pub(crate) enum Matrix<'w> {
    F32(&'w Array2<f32>),
    Packed(&'w Packed),
}

/// A weight matrix of shape (outputs, inputs) in one of the number formats. In memory, the weights
/// are in the order in which the kernels for matrix products read them.
pub(crate) enum Packed {
    F32(F32Matrix),
    F16(F16Matrix),
    Bf16(Bf16Matrix),
    Int8(Int8Matrix),
    Int4(Int4Matrix),
}

impl Packed {
    /// Creates a matrix in the number format `dtype`. Calls `read` repeatedly to get some of the
    /// rows in f32, and rounds them. `buffer` is memory for these rows, which can be reused for
    /// further matrices. Returns an error if `read` returns an error.
    pub(crate) fn read<E>(
        shape: (usize, usize),
        dtype: Dtype,
        buffer: &mut Vec<f32>,
        read: impl FnMut(Range<usize>, &mut [f32]) -> Result<(), E>,
    ) -> Result<Self, E> {
        Ok(match dtype {
            Dtype::Float32 => Self::F32(F32Matrix::from_rows(shape, buffer, read)?),
            Dtype::Float16 => Self::F16(F16Matrix::from_rows(shape, buffer, read)?),
            Dtype::BFloat16 => Self::Bf16(Bf16Matrix::from_rows(shape, buffer, read)?),
            Dtype::Int8 => Self::Int8(Int8Matrix::from_rows(shape, buffer, read)?),
            Dtype::Int4 => Self::Int4(Int4Matrix::from_rows(shape, buffer, read)?),
        })
    }

    /// Converts one row of the matrix to f32 and writes it to `out`, which has the shape (inputs).
    /// For example, if the matrix is a token embedding, the row with the index `id` is the
    /// embedding of the token with this ID.
    pub(crate) fn read_row(&self, row: usize, out: &mut [f32]) {
        match self {
            Self::F32(matrix) => matrix.read_row(row, out),
            Self::F16(matrix) => matrix.read_row(row, out),
            Self::Bf16(matrix) => matrix.read_row(row, out),
            Self::Int8(matrix) => matrix.read_row(row, out),
            Self::Int4(matrix) => matrix.read_row(row, out),
        }
    }

    /// Computes `x W^T` and writes the result to `out`. The shape of `x` is (rows, inputs), and the
    /// shape of `out` is (rows, outputs).
    pub(crate) fn matmul_rows(&self, x: &ArrayRef2<f32>, out: ArrayViewMut2<f32>) {
        match self {
            Self::F32(matrix) => matrix.matmul_rows(x, out),
            Self::F16(matrix) => matrix.matmul_rows(x, out),
            Self::Bf16(matrix) => matrix.matmul_rows(x, out),
            Self::Int8(matrix) => matrix.matmul_rows(x, out),
            Self::Int4(matrix) => matrix.matmul_rows(x, out),
        }
    }
}
