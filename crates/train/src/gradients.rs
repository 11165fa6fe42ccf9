//! The gradients of one step, added up batch by batch.
//!
//! Each batch's gradients are computed from zero and added to those before: the bits of a step
//! don't depend on who computed which batch. The optimizer uses the sum.

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
    scratch: Option<GptModel>,
    /// The sum of this rank's part, if there are other ranks.
    sum: Option<Vec<f32>>,
    /// The first batch of the round, by its place in the step, and the loss of this rank's.
    round: u64,
    loss: f32,
}

/// A batch's number in its step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MicroStep {
    /// Counted from 0.
    pub(crate) number: u64,
    /// Batches of the step.
    pub(crate) of: u64,
}

impl StepGradients {
    /// For a process on its own.
    pub(crate) fn new(model: &GptModel) -> Result<Self, TrainError> {
        Ok(Self {
            parts: BatchParts::new(model),
            grads: GptModel::zeros(*model.config())?,
            scratch: None,
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
        micro_step: MicroStep,
        shares: &Shares,
        rng: &mut TorchRng,
    ) -> Result<Option<f32>, TrainError> {
        let (inputs, targets) = (&batch.input_ids, &batch.target_ids);
        if !shares.computes(micro_step.number) {
            model.skip_draws(inputs, rng);
            return Ok(None);
        }
        let weight = 1.0 / micro_step.of as f32;
        let parts = &mut self.parts;
        if self.sum.is_some() || micro_step.number == 0 {
            let grads = &mut self.grads;
            self.loss = parts.loss_and_grads(model, inputs, targets, weight, rng, grads)?;
        } else {
            let mut scratch = match self.scratch.take() {
                Some(scratch) => scratch,
                None => GptModel::zeros(*model.config())?,
            };
            let done = parts.loss_and_grads(model, inputs, targets, weight, rng, &mut scratch);
            let scratch = self.scratch.insert(scratch);
            self.loss = done?;
            move_gradients(std::slice::from_mut(scratch), &mut self.grads);
        }
        Ok(Some(self.loss))
    }

    /// At the end of a round the losses of its batches in their order, each with its rank; with
    /// other ranks, each has then the sum of its part.
    pub(crate) fn end_batch(&mut self, batch: MicroStep, shares: &Shares) -> Vec<(usize, f32)> {
        let done = batch.number + 1;
        if !shares.ends_round(done, batch.of) {
            return Vec::new();
        }
        let ranks: Vec<usize> = (self.round..done).map(|i| shares.rank_of(i)).collect();
        let first = self.round == 0;
        self.round = done % batch.of;
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
