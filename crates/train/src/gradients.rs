//! The sum of the gradients of a training step.
//!
//! The gradients of each batch are computed separately, starting from 0, and then added to the sum
//! in the order of the batches. The sum is therefore bit for bit the same, no matter which rank
//! computes which batch. The sum is then clipped and passed to the optimizer.

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
    /// Buffer for the gradients of a single batch. It is needed for batches whose gradients can't
    /// be added to the sum directly. Between two batches, it contains zeros.
    batch: Option<GptModel>,
}

#[derive(Debug)]
enum Sum {
    /// All elements of the sum, if there is only one process.
    Whole(Box<GptModel>),
    /// The parts of the sum that this rank owns, if the run is shared.
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

    /// Reduces the sum to the parts that this rank owns. This method must be called before the
    /// first batch of a step.
    pub(crate) fn share(&mut self, ranks: &dyn Ranks) {
        if let Sum::Whole(sum) = &mut self.sum {
            let own = own_parts(ranks, slices(&mut **sum)).into_iter();
            self.sum = Sum::Parts(own.map(|part| part.to_vec()).collect());
        }
    }

    /// Performs the forward and the backward pass of one batch and returns its loss. If `in_sum` is
    /// true, the gradients are added to the sum directly. Otherwise, [`add_round`](Self::add_round)
    /// must be called afterwards.
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

    /// Adds the gradients of a round to the sum, in the order of the ranks. In this round, each of
    /// the first `batches` ranks has computed one batch.
    pub(crate) fn add_round(&mut self, model: &GptModel, ranks: &dyn Ranks, batches: usize) {
        let batch = self.batch.get_or_insert_with(|| zeros(model));
        match &mut self.sum {
            Sum::Whole(sum) => move_gradients(std::slice::from_mut(batch), sum),
            Sum::Parts(sums) => add_round(ranks, batches, batch, sums),
        }
    }

    /// Returns the parts of the sum that this rank owns. `shards.rs` describes how the weights are
    /// divided into pieces, each of which has one part per rank.
    pub(crate) fn own_sums(&mut self, ranks: &dyn Ranks) -> Vec<&mut [f32]> {
        match &mut self.sum {
            Sum::Whole(sum) => own_parts(ranks, slices(&mut **sum)),
            Sum::Parts(sums) => sums.iter_mut().map(Vec::as_mut_slice).collect(),
        }
    }

    /// Sets all gradients to 0. This is necessary after a step that has failed, because such a step
    /// doesn't reset them itself.
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
