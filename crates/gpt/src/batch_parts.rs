//! Training steps for small models, which divide the batch into parts and compute the parts in
//! parallel.
//!
//! [`GptModel::loss_and_grads`] distributes each operation over all threads. In a small model, the
//! distribution takes almost as long as the operation itself. [`BatchParts`] therefore divides the
//! batch into up to four parts. A single thread performs the forward and the backward pass for all
//! sequences of a part, so the results of an operation are usually still in the thread's CPU cache
//! when the next operation needs them.
//!
//! The number of parts depends only on the number of weights and the number of sequences, and the
//! gradients of the parts are added in a fixed order. The results are therefore bit-identical for
//! any number of threads.

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

/// Largest number of weights for which the batch is divided into parts. The gradients of a model of
/// this size take 8 MB, and each part needs its own gradients.
const MAX_PARAMETERS: usize = 1 << 21;

/// The memory for training steps that divide a batch into parts and compute the parts in parallel.
/// Such steps make the training of small models faster.
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
    /// Gradients of all parts except the first, whose gradients are added directly to the caller's
    /// gradients. Between two training steps, all of them are 0.
    grads: Vec<GptModel>,
    /// Whether a training step has started but hasn't ended. If this is true at the start of a
    /// step, the previous step panicked, so `grads` may contain values other than 0.
    step_in_progress: bool,
}

impl BatchParts {
    /// Allocates the memory for the training steps of `model` or of another model with the same
    /// configuration.
    ///
    /// If the model has more than 2,097,152 weights, its batches aren't divided into parts, so no
    /// memory is allocated.
    pub fn new(model: &GptModel) -> Self {
        let parts = Self::max_parts(model.num_parameters());
        let zeros = || GptModel::zeros(model.config()).expect("a model's configuration is valid");
        Self {
            grads: (1..parts).map(|_| zeros()).collect(),
            step_in_progress: false,
        }
    }

    /// Returns the largest number of parts into which the batches of a model with this number of
    /// parameters are divided.
    pub(crate) fn max_parts(parameters: usize) -> usize {
        match parameters {
            0..=MAX_PARAMETERS => MAX_PARTS,
            _ => 1,
        }
    }

    /// Computes the loss of a batch, and adds its gradients, multiplied by `weight`, to `grads`.
    ///
    /// The arguments and the random draws are the same as those of [`GptModel::loss_and_grads`].
    /// The loss and the gradients differ from those of that method only by rounding errors, because
    /// sums are computed in a different order.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`GptModel::loss_and_grads`].
    ///
    /// # Panics
    ///
    /// Panics if `grads` and `model` have different configurations. If the batches are divided into
    /// parts, also panics if `model` and the model that was passed to [`new`](Self::new) have
    /// different configurations.
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
            // All parts have the same configuration, so it is enough to check one of them.
            model.check_gradients(op, part);
        }
        let batch = in_idx.nrows();
        let sequences = batch.div_ceil(1 + self.grads.len()).max(1); // number of sequences per part
        if sequences >= batch {
            return model.loss_and_grads(in_idx, targets, weight, rng, grads);
        }
        model.check_gradients(op, grads);
        // The whole batch is checked before it is divided, so that the row numbers in an error
        // refer to the whole batch.
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

/// Adds each of the gradients in `from` to `sum`, one after the other, and sets it to 0.
///
/// # Panics
///
/// Panics if one of the gradients in `from` and `sum` have different configurations, or if an array
/// isn't in row-major order.
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
