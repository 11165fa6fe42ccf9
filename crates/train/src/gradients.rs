//! The gradients of one step, added up batch by batch.
//!
//! Each batch's gradients are computed from zero and added to those before, in the order of the
//! batches: the bits of a step don't depend on who computed which batch. Clipping and the optimizer
//! use the sum.

use bytemuck::{cast_slice, cast_slice_mut};
use dataloader::Batch;
use gpt::{BatchParts, GptError, GptModel, move_gradients};
use tensor_ops::Parameters;
use tensor_ops::engine::move_into_sum;
use torch_rng::TorchRng;

use crate::Ranks;
use crate::adamw::slices;

/// The gradients of the batches of a step so far.
#[derive(Debug)]
pub(crate) struct StepGradients {
    parts: BatchParts,
    pub(crate) sum: GptModel,
    /// Those of one batch, if they can't be computed in the sum; zeros between two batches.
    batch: Option<GptModel>,
}

impl StepGradients {
    pub(crate) fn new(model: &GptModel) -> Result<Self, GptError> {
        Ok(Self {
            parts: BatchParts::new(model),
            sum: GptModel::zeros(*model.config())?,
            batch: None,
        })
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
        let grads = match in_sum {
            true => &mut self.sum,
            false => self.batch.get_or_insert_with(|| zeros(model)),
        };
        let (inputs, targets) = (&batch.input_ids, &batch.target_ids);
        self.parts
            .loss_and_grads(model, inputs, targets, weight, rng, grads)
    }

    /// Adds the gradients of one batch of each of the first so many ranks, in the ranks' order; all
    /// ranks have the sum afterwards.
    pub(crate) fn add_round(&mut self, ranks: &dyn Ranks, batches: usize) {
        let sum = &mut self.sum;
        let batch = self.batch.get_or_insert_with(|| zeros(sum));
        match ranks.size() {
            1 => move_gradients(std::slice::from_mut(batch), sum),
            _ => add_in_order(ranks, batches, batch, sum),
        }
    }

    /// Leaves zeros, whatever has been computed.
    pub(crate) fn clear(&mut self) {
        self.sum.fill_zero();
        self.batch = None;
    }
}

fn zeros(model: &GptModel) -> GptModel {
    GptModel::zeros(*model.config()).expect("the configuration of a model")
}

/// Adds `from` of the first so many ranks to `sum`, which is the same on all of them, and leaves
/// zeros in `from`: an all-reduce in the ranks' order.
///
/// Each rank adds up a part of the numbers, and then all of them get all parts.
fn add_in_order(ranks: &dyn Ranks, adding: usize, from: &mut GptModel, sum: &mut GptModel) {
    const AT_ONCE: usize = 1 << 20;
    for (from, sum) in slices(from).into_iter().zip(slices(sum)) {
        for (from, sum) in from.chunks_mut(AT_ONCE).zip(sum.chunks_mut(AT_ONCE)) {
            // The parts are of one length, so the last may end with zeros that belong to nobody.
            let part = sum.len().div_ceil(ranks.size());
            let padded = |numbers: &[f32]| {
                let mut padded = numbers.to_vec();
                padded.resize(part * ranks.size(), 0.0);
                padded
            };
            let (send, mut all) = (padded(from), padded(sum));
            from.fill(0.0);
            let mut receive = vec![0.0; send.len()];
            ranks.all_to_all(cast_slice(&send), cast_slice_mut(&mut receive));
            let mut own = all[ranks.rank() * part..][..part].to_vec();
            for theirs in receive.chunks_mut(part).take(adding) {
                move_into_sum(&mut own, theirs);
            }
            ranks.all_gather(cast_slice(&own), cast_slice_mut(&mut all));
            sum.copy_from_slice(&all[..sum.len()]);
        }
    }
}
