//! Computes the sum of the gradients of a training step.
//!
//! The gradients of each batch are computed separately, starting from 0, and are then added to the
//! sum in the order of the batches. If several processes (ranks) share the run, the sum is
//! therefore bit for bit the same, regardless of how the batches are distributed among the ranks.
//! Finally, the sum is clipped and passed to the optimizer.

use dataloader::Batch;
use gpt::engine::move_gradients;
use gpt::{BatchParts, GptError, GptModel};
use tensor_ops::Parameters;
use torch_rng::TorchRng;

use crate::Ranks;
use crate::shards::{add_round, own_parts, slices};

/// The sum of the gradients of the current step, and the buffers that are needed to compute it.
#[derive(Debug)]
pub(crate) struct StepGradients {
    parts: BatchParts,
    sum: Sum,
    /// Buffer for the gradients of a single batch. It is used if these gradients can't be added to
    /// `sum` directly. Its elements are reset to 0 when they are added to `sum`.
    batch: Option<GptModel>,
}

#[derive(Debug)]
enum Sum {
    /// The sums of the gradients of all weights. This variant is used if the training run isn't
    /// shared by several processes (ranks).
    Whole(Box<GptModel>),
    /// The sums of the gradients of the weights that this rank updates. This variant is used if
    /// several ranks share the training run. Each rank then updates only some of the weights, so it
    /// doesn't need the gradients of the others.
    Parts(Vec<Vec<f32>>),
}

impl StepGradients {
    pub(crate) fn new(model: &GptModel) -> Result<Self, GptError> {
        Ok(Self {
            parts: BatchParts::new(model),
            sum: Sum::Whole(Box::new(GptModel::zeros(model.config())?)),
            batch: None,
        })
    }

    /// Discards the sums of the gradients of all weights except those that this rank updates. This
    /// method is called if several ranks share the training run, because the other ranks update the
    /// other weights. It must be called before the first batch of a step.
    pub(crate) fn share(&mut self, ranks: &dyn Ranks) {
        if let Sum::Whole(sum) = &mut self.sum {
            let own = own_parts(ranks, slices(&mut **sum)).into_iter();
            self.sum = Sum::Parts(own.map(|part| part.to_vec()).collect());
        }
    }

    /// Performs the forward pass and the backward pass for one batch, and returns the loss. If
    /// `in_sum` is true and this process doesn't share the training run with others, the gradients
    /// are added directly to the sum of the step's gradients. Otherwise, they are stored in a
    /// separate buffer, and the caller must call [`add_round`](Self::add_round) afterwards.
    pub(crate) fn compute(
        &mut self,
        model: &GptModel,
        batch: &Batch,
        weight: f32,
        in_sum: bool,
        rng: &mut TorchRng,
    ) -> Result<f32, GptError> {
        let grads = match &mut self.sum {
            Sum::Whole(sum) if in_sum => sum,
            _ => self.batch.get_or_insert_with(|| zeros(model)),
        };
        let (inputs, targets) = (&batch.input_ids, &batch.target_ids);
        self.parts
            .loss_and_grads(model, inputs, targets, weight, rng, grads)
    }

    /// Adds the gradients of a round to the sum. In a round, each of the first `batches` ranks has
    /// computed the gradients of one batch, and these gradients are added in the order of the
    /// ranks.
    pub(crate) fn add_round(&mut self, model: &GptModel, ranks: &dyn Ranks, batches: usize) {
        let batch = self.batch.get_or_insert_with(|| zeros(model));
        match &mut self.sum {
            Sum::Whole(sum) => move_gradients(std::slice::from_mut(batch), sum),
            Sum::Parts(sums) => add_round(ranks, batches, batch, sums),
        }
    }

    /// Returns the sums of the gradients of the weights that this rank updates. The result contains
    /// one slice for each part of a weight. The documentation of `shards.rs` describes how the
    /// weights are divided into parts.
    pub(crate) fn own_sums(&mut self, ranks: &dyn Ranks) -> Vec<&mut [f32]> {
        match &mut self.sum {
            Sum::Whole(sum) => own_parts(ranks, slices(&mut **sum)),
            Sum::Parts(sums) => sums.iter_mut().map(Vec::as_mut_slice).collect(),
        }
    }

    /// Sets all gradients to 0. This is necessary after a failed step, because only a successful
    /// step resets the gradients itself.
    pub(crate) fn clear(&mut self) {
        match &mut self.sum {
            Sum::Whole(sum) => sum.fill_zero(),
            Sum::Parts(sums) => sums.iter_mut().for_each(|sum| sum.fill(0.0)),
        }
        self.batch = None;
    }
}

fn zeros(model: &GptModel) -> GptModel {
    GptModel::zeros(model.config()).expect("a model's configuration is valid")
}
