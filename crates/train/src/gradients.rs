//! The gradients of one step, added up batch by batch.
//!
//! Each batch's gradients are computed from zero and added to those before: the bits of a step
//! don't depend on who computed which batch. What is done with the sum, the optimizer knows.

use dataloader::Batch;
use gpt::{BatchParts, GptModel, move_gradients};
use tensor_ops::Parameters;
use torch_rng::TorchRng;

use crate::TrainError;
use crate::shares::{Shares, split};

/// The batches of a step so far: their gradients, and the losses that the other ranks wait for.
#[derive(Debug)]
pub(crate) struct StepGradients {
    parts: BatchParts,
    /// A batch's gradients are computed here. On its own, a process adds up here too.
    grads: GptModel,
    /// On its own, a process computes a step's second batch here, and those after it.
    later: Option<GptModel>,
    /// With other ranks: the sum of this rank's part.
    sum: Option<Vec<f32>>,
    /// The first batch of the round, by its place in the step, and the loss of this rank's.
    round: u64,
    loss: f32,
}

/// A batch's place in its step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Batches of the step before it.
    pub(crate) micro_step: u64,
    /// Batches of the step.
    pub(crate) of: u64,
}

impl StepGradients {
    /// For a process on its own.
    pub(crate) fn new(model: &GptModel) -> Result<Self, TrainError> {
        Ok(Self {
            parts: BatchParts::new(model),
            grads: GptModel::zeros(*model.config())?,
            later: None,
            sum: None,
            round: 0,
            loss: 0.0,
        })
    }

    /// Goes on after `micro_step` batches of a step, of which `grads` is the sum.
    pub(crate) fn resume(&mut self, grads: GptModel, micro_step: u64) {
        (self.grads, self.round) = (grads, micro_step);
    }

    /// Goes on as one of several ranks.
    pub(crate) fn share(&mut self, shares: &Shares) {
        self.sum = Some(shares.own(&mut self.grads).concat());
        self.grads.fill_zero();
    }

    /// One batch forward and backward, if it is this rank's: its loss.
    pub(crate) fn add_batch(
        &mut self,
        model: &GptModel,
        batch: &Batch,
        place: Place,
        shares: &Shares,
        rng: &mut TorchRng,
    ) -> Result<Option<f32>, TrainError> {
        let (inputs, targets) = (&batch.input_ids, &batch.target_ids);
        if !shares.computes(place.micro_step) {
            model.skip_draws(inputs.dim(), rng);
            return Ok(None);
        }
        let is_later = self.sum.is_none() && place.micro_step > 0;
        if is_later && self.later.is_none() {
            self.later = Some(GptModel::zeros(*model.config())?);
        }
        let grads = match &mut self.later {
            Some(later) if is_later => later,
            _ => &mut self.grads,
        };
        let weight = 1.0 / place.of as f32;
        let parts = &mut self.parts;
        self.loss = parts.loss_and_grads(model, inputs, targets, weight, rng, grads)?;
        if let Some(later) = self.later.as_mut().filter(|_| is_later) {
            move_gradients(later, &mut self.grads);
        }
        Ok(Some(self.loss))
    }

    /// After a batch: at the end of a round, what its batches lost on which ranks, in their order;
    /// with other ranks, each has then the sum of its part.
    pub(crate) fn end_batch(&mut self, place: Place, shares: &Shares) -> Vec<(usize, f32)> {
        let done = place.micro_step + 1;
        if !shares.ends_round(done, place.of) {
            return Vec::new();
        }
        let ranks: Vec<usize> = (self.round..done).map(|i| shares.rank_of(i)).collect();
        let first = self.round == 0;
        self.round = done % place.of;
        let losses = shares.gather(&[self.loss]);
        if let Some(sum) = &mut self.sum {
            let sum = split(sum, &shares.own_lengths());
            shares.add_gradients(&mut self.grads, sum, &ranks, first);
        }
        ranks.into_iter().map(|rank| (rank, losses[rank])).collect()
    }

    /// The sum, of a process on its own.
    pub(crate) fn whole_sum(&self) -> &GptModel {
        &self.grads
    }

    /// The sum of this rank's part.
    pub(crate) fn own_sum(&mut self, shares: &Shares) -> Vec<&mut [f32]> {
        match &mut self.sum {
            Some(sum) => split(sum, &shares.own_lengths()),
            None => shares.own(&mut self.grads),
        }
    }

    /// Forgets the batches of the step: the next one begins it anew.
    pub(crate) fn give_up(&mut self) {
        self.grads.fill_zero();
        self.round = 0;
    }
}
