//! Faster training steps for small models. Each step divides its batch into parts, which are
//! computed in parallel.
//!
//! [`GptModel::loss_and_grads`] distributes each operation among all threads. In a small model,
//! distributing an operation takes almost as long as computing it. [`BatchParts`] therefore divides
//! the batch into up to four parts. The forward and the backward pass of a part run on a single
//! thread, so the results of each operation are usually still in the thread's CPU cache when the
//! next operation needs them.
//!
//! The number of parts depends only on the number of weights in the model and the number of
//! sequences in the batch. The gradients of the parts are added up in a fixed order. Therefore, the
//! results are bit-identical for any number of threads.

use ndarray::{ArrayRef2, Axis};
use rayon::prelude::*;
use tensor_ops::engine::{awake, for_each, move_into_sum, row_major_mut};
use tensor_ops::{Parameters, counted_targets};
use torch_rng::TorchRng;

use crate::model::counted;
use crate::parameter_shapes::check_same;
use crate::{GptError, GptModel};

/// Largest number of parts into which a batch is divided.
const MAX_PARTS: usize = 4;

/// Maximum number of weights of a model for which batches are divided into parts. The batches of
/// larger models aren't divided, because each part needs memory for its own gradients. In a model
/// of this size, the gradients of a part occupy 8 MiB.
const MAX_PARAMETERS: usize = 1 << 21;

/// A training step that divides the batch among the threads, together with the memory that it
/// reuses from step to step. Each thread computes the loss and the gradients of some sequences of
/// the batch. For small models, this is faster than [`GptModel::loss_and_grads`], which divides
/// each operation among the threads.
///
/// ```
/// use gpt::{BatchParts, GptConfig, GptModel, torch_rng::TorchRng};
/// use ndarray::array;
///
/// let cfg = GptConfig {
///     vocab_size: 50, context_length: 8, emb_dim: 8,
///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
/// };
/// let mut rng = TorchRng::manual_seed(123);
/// let model = GptModel::new(cfg, &mut rng)?;
/// let mut grads = GptModel::zeros(cfg)?;
/// let (inputs, targets) = (array![[1, 2, 3], [4, 5, 6]], array![[2, 3, 4], [5, 6, 7]]);
/// let mut parts = BatchParts::new(&model);
/// let loss = parts.loss_and_grads(&model, &inputs, &targets, 1.0, &mut rng, &mut grads)?;
/// assert!(loss > 0.0);
/// # Ok::<(), gpt::GptError>(())
/// ```
#[derive(Debug)]
pub struct BatchParts {
    /// Gradients of each part except the first, whose gradients are added directly to the caller's
    /// gradients. Between two training steps, all these gradients are 0.
    grads: Vec<GptModel>,
    /// Whether a training step has started but not finished. If this is true at the start of a
    /// step, the previous step panicked, so `grads` may contain values other than 0.
    step_in_progress: bool,
}

impl BatchParts {
    /// Allocates the buffers for training `model` or another model with the same configuration.
    ///
    /// Batches of a model with more than 2,097,152 weights aren't divided into parts, so no memory
    /// is allocated for such a model.
    pub fn new(model: &GptModel) -> Self {
        let parts = Self::max_parts(model.num_parameters());
        let zeros = || GptModel::zeros(model.config()).expect("a model's configuration is valid");
        Self {
            grads: (1..parts).map(|_| zeros()).collect(),
            step_in_progress: false,
        }
    }

    /// Returns the largest number of parts into which [`BatchParts`] divides a batch, if the model
    /// has the given number of parameters. For a model with too many parameters, the result is 1,
    /// because its batches aren't divided.
    pub(crate) fn max_parts(parameters: usize) -> usize {
        match parameters {
            0..=MAX_PARAMETERS => MAX_PARTS,
            _ => 1,
        }
    }

    /// Computes the loss of a batch, and adds the gradients of this loss, multiplied by `weight`,
    /// to `grads`.
    ///
    /// This method takes the same arguments as [`GptModel::loss_and_grads`] and draws the same
    /// random numbers. The loss and the gradients of the two methods differ only by rounding
    /// errors, because some sums are computed in a different order.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`GptModel::loss_and_grads`].
    ///
    /// # Panics
    ///
    /// Panics if the parameters of `grads` and `model` have different names or shapes, or if
    /// [`GptModel::check`] rejects `grads`. If the model is small enough for its batches to be
    /// divided, also panics if the parameters of `model` differ in this way from those of the model
    /// that was passed to [`new`](Self::new).
    pub fn loss_and_grads(
        &mut self,
        model: &GptModel,
        in_idx: &ArrayRef2<u32>,
        targets: &ArrayRef2<u32>,
        weight: f32,
        rng: &mut TorchRng,
        grads: &mut GptModel,
    ) -> Result<f32, GptError> {
        let op = "BatchParts::loss_and_grads";
        if let Some(part) = self.grads.first() {
            // Check that the buffers for the gradients of the parts fit this model. All of them
            // were created with the same configuration, so it is enough to check the first one.
            model.check_gradients(op, part);
        }
        let batch = in_idx.nrows();
        let sequences = batch.div_ceil(1 + self.grads.len()).max(1); // number of sequences per part
        if sequences >= batch {
            return model.loss_and_grads(in_idx, targets, weight, rng, grads);
        }
        model.check_gradients(op, grads);
        // Check the token IDs before the batch is divided into parts. If an ID is invalid, the
        // error then contains the index of its row in the whole batch. If each part were checked
        // separately, the error would contain the index in the part.
        model.check_batch(in_idx, targets)?;
        let of_batch = counted(targets)?;
        if std::mem::replace(&mut self.step_in_progress, true) {
            self.grads.iter_mut().for_each(Parameters::fill_zero);
        }
        awake(|| {
            let parts: Vec<_> = in_idx
                .axis_chunks_iter(Axis(0), sequences)
                .zip(targets.axis_chunks_iter(Axis(0), sequences))
                .zip(std::iter::once(&mut *grads).chain(&mut self.grads))
                .collect();
            let draws = rng.clone();
            let passes: Vec<(f64, TorchRng)> = (parts.into_par_iter().with_max_len(1).enumerate())
                .map(|(i, ((in_idx, targets), grads))| {
                    let own = i * sequences..batch.min((i + 1) * sequences);
                    let share = counted_targets(targets) as f64 / of_batch as f64;
                    let weight = (f64::from(weight) * share) as f32;
                    let mut rng = draws.for_part_of_batch(own, batch);
                    let loss =
                        model.loss_and_grads_in_pool(&in_idx, &targets, weight, &mut rng, grads);
                    let loss = loss.expect("the IDs and targets were checked above");
                    (share * f64::from(loss), rng)
                })
                .collect();
            let used = passes.len() - 1;
            move_gradients(&mut self.grads[..used], grads);
            self.step_in_progress = false;
            *rng = passes[0].1.for_part_of_batch(0..batch, batch);
            Ok(passes.iter().map(|(loss, _)| loss).sum::<f64>() as f32)
        })
    }
}

/// Adds the gradients of several models to the gradients in `sum`, and then sets the gradients in
/// `from` to 0. The elements of `from` are added in the order of the slice, so the rounding errors
/// are always the same.
///
/// # Panics
///
/// Panics if the parameters of `sum` and those of an element of `from` have different names or
/// shapes, or if an array isn't in row-major order.
pub fn move_gradients(from: &mut [GptModel], sum: &mut GptModel) {
    let sums = sum.named_parameters_mut();
    let from = from.iter_mut().map(|from| {
        let from = from.named_parameters_mut();
        check_same("move_gradients", &from, &sums);
        from.into_iter()
    });
    let mut from: Vec<_> = from.collect();
    let tasks = sums.into_iter().map(|(name, sum)| {
        let from = from.iter_mut().flat_map(Iterator::next);
        let from = from.map(|(_, from)| row_major_mut(&name, from));
        (row_major_mut(&name, sum), from.collect::<Vec<_>>())
    });
    for_each(tasks.collect(), |(sum, from)| {
        for from in from {
            move_into_sum(sum, from);
        }
    });
}
