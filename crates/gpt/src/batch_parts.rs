//! A training step of a small model in parts of its batch, the fast form of
//! [`GptModel::loss_and_grads`].
//!
//! An operation of a small model takes hardly longer than sharing it out among threads.
//! Here a thread takes some sequences through the whole model, forward and backward, and finds in
//! its cache what it has just written.
//! The parts follow from the model and the batch alone, and their gradients are added in order, so
//! the bits don't depend on the number of threads.

use ndarray::{ArrayRef2, Axis};
use rayon::prelude::*;
use tensor_ops::engine::{awake, for_each, move_into_sum};
use tensor_ops::{Parameters, counted_targets};
use torch_rng::TorchRng;

use crate::model::counted;
use crate::parameter_shapes::check_same;
use crate::{GptError, GptModel};

/// Parts of a batch at most.
const PARTS: usize = 4;

/// The most weights of a model whose batches are cut, 8 MB: each part has separate gradients.
const LARGEST: usize = 1 << 21;

/// The gradients of a training step in parts.
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
    /// Gradients for each part but the first, which adds to the sum: zeros between steps.
    grads: Vec<GptModel>,
    /// True while a step is in progress. If it is when the next one begins, the step before
    /// panicked, and `grads` may hold what it left.
    begun: bool,
}

impl BatchParts {
    /// For steps of `model`; the batches of one of more than two million weights stay whole.
    pub fn new(model: &GptModel) -> Self {
        let parts = Self::most(model.num_parameters());
        let zeros = || GptModel::zeros(model.config()).expect("the configuration of a model");
        Self {
            grads: (1..parts).map(|_| zeros()).collect(),
            begun: false,
        }
    }

    /// Parts of a batch at most, of a model of so many parameters.
    pub(crate) fn most(parameters: usize) -> usize {
        match parameters {
            0..=LARGEST => PARTS,
            _ => 1,
        }
    }

    /// The loss and gradients of [`GptModel::loss_and_grads`], with the same random draws and sums
    /// in another order.
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// If `grads` has another configuration than `model`, or the one that [`new`](Self::new) was
    /// given has and its batches are cut.
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
            model.check_gradients(op, part); // the others are as this one
        }
        let batch = in_idx.nrows();
        let sequences = batch.div_ceil(1 + self.grads.len()).max(1); // of a part
        if sequences >= batch {
            return model.loss_and_grads(in_idx, targets, weight, rng, grads);
        }
        model.check_gradients(op, grads);
        model.check_batch(in_idx, targets)?; // once for all parts: an error names the batch's row
        let of_batch = counted(targets)?;
        if std::mem::replace(&mut self.begun, true) {
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
                    let loss = loss.expect("ids and targets are checked above");
                    (share * f64::from(loss), rng)
                })
                .collect();
            let used = passes.len() - 1;
            move_gradients(&mut self.grads[..used], grads);
            self.begun = false;
            *rng = passes[0].1.for_part_of_batch(0..batch, batch);
            Ok(passes.iter().map(|(loss, _)| loss).sum::<f64>() as f32)
        })
    }
}

/// Adds gradients to a sum, one after the other, and leaves zeros.
///
/// # Panics
/// If one is of another configuration than the sum.
pub fn move_gradients(from: &mut [GptModel], sum: &mut GptModel) {
    let sums = sum.named_parameters_mut();
    let from = from.iter_mut().map(|from| {
        let from = from.named_parameters_mut();
        check_same("move_gradients", &from, &sums);
        from.into_iter()
    });
    let mut from: Vec<_> = from.collect();
    let tasks = sums.into_iter().map(|(_, sum)| {
        let from = from.iter_mut().flat_map(Iterator::next);
        (sum, from.map(|(_, from)| from).collect::<Vec<_>>())
    });
    for_each(tasks.collect(), |(mut sum, from)| {
        for mut from in from {
            let [sum, from] = [&mut sum, &mut from]
                .map(|view| view.as_slice_mut().expect("weights are row-major"));
            move_into_sum(sum, from);
        }
    });
}
