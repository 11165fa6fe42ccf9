//! Embedding layers, which look up a row of a table for each ID: `y = weight[ids]`
//! (`torch.nn.Embedding`; book section 2.7).

use ndarray::{Array, Array2, ArrayRef, Axis, Dimension, RemoveAxis};
use torch_rng::TorchRng;

use crate::parameters;
use crate::rows::{as_rows, slice_mut, zero_weights};

/// An embedding layer, which is a table with one row for each ID. To store the gradient of the
/// table, use a second value of this type.
#[derive(Clone, Debug, PartialEq)]
pub struct Embedding {
    /// The table, with the shape `(num_embeddings, embedding_dim)`.
    pub weight: Array2<f32>,
}

impl Embedding {
    /// Creates a table whose elements are drawn from the standard normal distribution, like
    /// `nn.Embedding(num_embeddings, embedding_dim)` in PyTorch.
    pub fn new(num_embeddings: usize, embedding_dim: usize, rng: &mut TorchRng) -> Self {
        let mut table = Self::zeros(num_embeddings, embedding_dim);
        rng.fill_normal(slice_mut(&mut table.weight), 0.0, 1.0);
        table
    }

    /// Creates an embedding layer whose table contains only zeros. Use it to accumulate gradients,
    /// or to fill the table with weights from a file.
    pub fn zeros(num_embeddings: usize, embedding_dim: usize) -> Self {
        Self {
            weight: zero_weights((num_embeddings, embedding_dim)),
        }
    }

    /// Returns the table row of each ID. If the IDs have the shape `(...)`, the result has the
    /// shape `(..., embedding_dim)`.
    ///
    /// ```
    /// use ndarray::array;
    /// let mut rng = torch_rng::TorchRng::manual_seed(123);
    /// let embedding_layer = tensor_ops::Embedding::new(6, 3, &mut rng);
    /// let row = embedding_layer.forward(&array![3u32]); // the book prints -0.4015 0.9666 -1.1481
    /// assert!((row[[0, 0]] + 0.4015).abs() < 6e-5);
    /// ```
    ///
    /// # Panics
    ///
    /// Panics if an ID isn't less than `num_embeddings`.
    pub fn forward<D: Dimension>(&self, ids: &ArrayRef<u32, D>) -> Array<f32, D::Larger> {
        let (num_embeddings, dim) = self.weight.dim();
        let mut out = kernels::buffer(ids.len() * dim);
        out.clear();
        for &id in ids {
            assert!(
                (id as usize) < num_embeddings,
                "Embedding::forward: the ID {id} is out of range for a table with {num_embeddings} rows"
            );
            out.extend(self.weight.row(id as usize));
        }
        let mut shape = D::Larger::zeros(ids.ndim() + 1);
        shape.slice_mut()[..ids.ndim()].copy_from_slice(ids.shape());
        shape.slice_mut()[ids.ndim()] = dim;
        Array::from_shape_vec(shape, out).expect("one row an id")
    }

    /// Computes the gradient of the table and adds it to `grads`. `d_out` is the gradient of the
    /// output, with the shape `(..., embedding_dim)`, which contains one row for each element of
    /// `ids`. For an ID `i`, this row is added to row `i` of `grads`.
    ///
    /// To compute the table's gradient on several threads, the table is divided by columns: each
    /// task processes the rows of all IDs, in order, but only some of the columns. Therefore, no
    /// two threads write to the same element, even if an ID occurs several times.
    ///
    /// # Panics
    ///
    /// Panics if `d_out` doesn't have the shape of the output, if an ID isn't less than
    /// `num_embeddings`, or if `grads` doesn't have the same shape as the table.
    pub fn backward<D>(
        &self,
        ids: &ArrayRef<u32, D>,
        d_out: &ArrayRef<f32, D::Larger>,
        grads: &mut Embedding,
    ) where
        D: Dimension,
        D::Larger: RemoveAxis,
    {
        const COLUMNS_PER_TASK: usize = 128;
        let (num_embeddings, dim) = self.weight.dim();
        assert!(
            grads.weight.dim() == self.weight.dim(),
            "Embedding::backward: the table has shape {:?}, but its gradient has shape {:?}",
            self.weight.dim(),
            grads.weight.dim()
        );
        if let Some(id) = ids.iter().find(|&&id| id as usize >= num_embeddings) {
            panic!(
                "Embedding::backward: the ID {id} is out of range for a table with {num_embeddings} rows"
            );
        }
        assert!(
            d_out.shape()[..ids.ndim()] == *ids.shape() && d_out.shape()[ids.ndim()] == dim,
            "Embedding::backward: d_out has shape {:?}, which doesn't fit IDs of shape {:?} and rows of {dim} elements",
            d_out.shape(),
            ids.shape()
        );
        let d_out = as_rows(d_out); // shape: (n_ids, embedding_dim)
        let columns: Vec<_> = grads
            .weight
            .axis_chunks_iter_mut(Axis(1), COLUMNS_PER_TASK)
            .collect();
        let tasks = columns.into_iter().enumerate().collect();
        kernels::for_each(tasks, |(task, mut grads)| {
            let first = task * COLUMNS_PER_TASK;
            let width = grads.ncols();
            for (&id, d_row) in ids.iter().zip(d_out.rows()) {
                let d_row = d_row.to_slice().expect("rows of a row-major matrix");
                let mut row = grads.row_mut(id as usize);
                let row = row.as_slice_mut().expect("part of a row-major row");
                kernels::elementwise::add(row, &d_row[first..first + width]);
            }
        });
    }
}

parameters!(Embedding { "weight" weight });
