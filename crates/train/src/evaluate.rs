//! The losses of a run while it trains (the book's `evaluate_model`), shared out over the ranks
//! batch by batch.
//!
//! They are means over tokens, as `gpt eval` has them; the book's `calc_loss_loader` is a mean over
//! batches, of which the last may be smaller.

use dataloader::DataLoader;
use torch_rng::TorchRng;

use crate::shares::Shares;
use crate::{Evaluation, TrainError, Trainer, calc_loss_batch};

impl Trainer {
    /// The losses of the first `eval_batches` batches of a new pass over each loader.
    ///
    /// `None` if `stop` is true, which is asked before each round of the ranks' batches.
    ///
    /// # Errors
    /// If a batch can't be read or doesn't suit the model, or a loss is not finite.
    pub(crate) fn losses(
        &self,
        shares: &Shares,
        rng: &mut TorchRng,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Evaluation>, TrainError> {
        let n = self.config.eval_batches;
        let mut loss = |which, loader| self.loss(which, loader, n, shares, rng, stop);
        let Some(train_loss) = loss("training", &self.train_loader)? else {
            return Ok(None);
        };
        let mut val_loss = None;
        if let Some(loader) = &self.val_loader {
            val_loss = loss("validation", loader)?;
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
    pub(crate) fn check_loss(&self, num_batches: usize) -> Result<Option<f64>, TrainError> {
        let (rng, never) = (&mut TorchRng::manual_seed(0), &mut || false);
        match &self.val_loader {
            Some(loader) => self.loss("validation", loader, num_batches, &self.shares, rng, never),
            None => {
                self.loss("training", &self.train_loader, 1, &self.shares, rng, never)?;
                Ok(None)
            }
        }
    }

    /// The mean loss of a token in the first batches of a new pass over the loader, nothing
    /// dropped; it draws from `rng` as iterating over PyTorch's loaders does.
    fn loss(
        &self,
        which: &'static str,
        loader: &DataLoader,
        num_batches: usize,
        shares: &Shares,
        rng: &mut TorchRng,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Option<f64>, TrainError> {
        let n = num_batches.min(loader.len()) as u64;
        let mut epoch = loader.epoch(rng);
        let (mut own, mut total, mut tokens) = (0.0, 0.0, 0.0);
        let mut round = Vec::new(); // each batch's rank and tokens
        for i in 0..n {
            if round.is_empty() && shares.any(stop()) {
                return Ok(None);
            }
            let batch = epoch.try_next()?.expect("an epoch has as many batches");
            if shares.computes(i) {
                own = f64::from(calc_loss_batch(&batch, &self.model)?);
            }
            round.push((shares.rank_of(i), batch.input_ids.len() as f64));
            if shares.ends_round(i + 1, n) {
                let losses = shares.gather(&[own]);
                for (rank, in_batch) in round.drain(..) {
                    total += losses[rank] * in_batch;
                    tokens += in_batch;
                }
            }
        }
        let loss: f64 = total / tokens;
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
