//! The losses that a run looks at while it trains (the book's `evaluate_model`), shared out over
//! the ranks batch by batch.

use dataloader::DataLoader;
use gpt::GptModel;
use torch_rng::TorchRng;

use crate::shares::Shares;
use crate::state::Counters;
use crate::{Evaluation, TrainError, calc_loss_batch};

/// A model to be evaluated, as it is after so many steps.
pub(crate) struct Evaluator<'a> {
    pub(crate) model: &'a GptModel,
    pub(crate) shares: &'a Shares,
    pub(crate) train_loader: &'a DataLoader,
    pub(crate) val_loader: Option<&'a DataLoader>,
    pub(crate) counters: &'a Counters,
}

impl Evaluator<'_> {
    /// The losses of the first `num_batches` batches of a new pass over each loader.
    ///
    /// `None` if `stop` said so, which is asked before each round of the ranks' batches.
    ///
    /// # Errors
    /// If a batch can't be read or doesn't suit the model, or a loss is not finite.
    pub(crate) fn losses(
        &self,
        num_batches: usize,
        rng: &mut TorchRng,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Evaluation>, TrainError> {
        let training = self.loss("training", self.train_loader, num_batches, rng, stop)?;
        let Some(train_loss) = training else {
            return Ok(None);
        };
        let mut val_loss = None;
        if let Some(loader) = self.val_loader {
            val_loss = self.loss("validation", loader, num_batches, rng, stop)?;
            if val_loss.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(Evaluation {
            steps_done: self.counters.steps_done,
            epoch: self.counters.last_step.map_or(0, |last| last.epoch),
            train_loss,
            val_loss,
            tokens_seen: self.counters.tokens_seen,
        }))
    }

    /// The validation loss of some batches; without validation data one batch of training shows
    /// that there is a loss. It draws nothing.
    ///
    /// # Errors
    /// As [`losses`](Self::losses).
    pub(crate) fn check(&self, num_batches: usize) -> Result<Option<f64>, TrainError> {
        let (rng, never) = (&mut TorchRng::manual_seed(0), &mut || false);
        match self.val_loader {
            Some(loader) => self.loss("validation", loader, num_batches, rng, never),
            None => {
                self.loss("training", self.train_loader, 1, rng, never)?;
                Ok(None)
            }
        }
    }

    /// The mean loss of the first batches of a new pass over the loader, nothing dropped; it draws
    /// from `rng` as iterating over PyTorch's loaders does.
    fn loss(
        &self,
        which: &'static str,
        loader: &DataLoader,
        num_batches: usize,
        rng: &mut TorchRng,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Option<f64>, TrainError> {
        let n = num_batches.min(loader.len()) as u64;
        let mut epoch = loader.epoch(rng);
        let (mut own, mut total, mut round) = (0.0, 0.0, 0);
        for i in 0..n {
            if i == round && self.shares.any(stop()) {
                return Ok(None);
            }
            let batch = epoch.try_next()?.expect("an epoch has as many batches");
            if self.shares.computes(i) {
                own = f64::from(calc_loss_batch(&batch, self.model)?);
            }
            if self.shares.ends_round(i + 1, n) {
                let losses = self.shares.gather(&[own]);
                total = (round..=i).fold(total, |sum, i| sum + losses[self.shares.rank_of(i)]);
                round = i + 1;
            }
        }
        let loss: f64 = total / n as f64;
        match loss.is_finite() {
            true => Ok(Some(loss)),
            false => Err(TrainError::NotFinite {
                what: format!("{which} loss after step {}", self.counters.steps_done),
                value: loss,
                learning_rate: self.counters.last_step.map(|last| last.learning_rate),
            }),
        }
    }
}
