//! The gradients of one step, added up batch by batch.
//!
//! Each batch's gradients are computed from zero and added to the earlier ones, in the order of the
//! batches: the bits of a step don't depend on the distribution of batches among ranks. Clipping
//! and the optimizer use the sum.

use dataloader::Batch;
use gpt::{BatchParts, GptError, GptModel, move_gradients};
use tensor_ops::Parameters;
use torch_rng::TorchRng;

use crate::Ranks;
use crate::shards::{add_round, own_parts, slices};

/// The gradients of the batches of a step so far.
#[derive(Debug)]
pub(crate) struct StepGradients {
    parts: BatchParts,
    sum: Sum,
    /// Those of one batch, if they can't be computed in the sum; zeros between two batches.
    batch: Option<GptModel>,
}

#[derive(Debug)]
enum Sum {
    /// One process has all of it.
    Whole(Box<GptModel>),
    /// Among ranks, each has its own parts.
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

    /// Continues as one of these ranks, before the first batch of a step.
    pub(crate) fn share(&mut self, ranks: &dyn Ranks) {
        if let Sum::Whole(sum) = &mut self.sum {
            let own = own_parts(ranks, slices(&mut **sum)).into_iter();
            self.sum = Sum::Parts(own.map(|part| part.to_vec()).collect());
        }
    }

    /// One batch forward and backward, in the sum itself or to be [added](Self::add_round): returns
    /// its loss.
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

    /// Adds the gradients of one batch of each of the first so many ranks, in the ranks' order.
    pub(crate) fn add_round(&mut self, model: &GptModel, ranks: &dyn Ranks, batches: usize) {
        let batch = self.batch.get_or_insert_with(|| zeros(model));
        match &mut self.sum {
            Sum::Whole(sum) => move_gradients(std::slice::from_mut(batch), sum),
            Sum::Parts(sums) => add_round(ranks, batches, batch, sums),
        }
    }

    /// The sums of this rank's parts, one for each piece of a weight.
    pub(crate) fn own_sums(&mut self, ranks: &dyn Ranks) -> Vec<&mut [f32]> {
        match &mut self.sum {
            Sum::Whole(sum) => own_parts(ranks, slices(&mut **sum)),
            Sum::Parts(sums) => sums.iter_mut().map(Vec::as_mut_slice).collect(),
        }
    }

    /// Clears all gradients, even after a failed step.
    pub(crate) fn clear(&mut self) {
        match &mut self.sum {
            Sum::Whole(sum) => sum.fill_zero(),
            Sum::Parts(sums) => sums.iter_mut().for_each(|sum| sum.fill(0.0)),
        }
        self.batch = None;
    }
}

fn zeros(model: &GptModel) -> GptModel {
    GptModel::zeros(model.config()).expect("the configuration of a model")
}
