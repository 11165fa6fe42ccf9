//! The losses of a run while it trains (the book's `evaluate_model`), shared out over the ranks
//! batch by batch.
//!
//! They are means over tokens, as `gpt eval` has them; the book's `calc_loss_loader` is a mean over
//! batches, of which the last may be smaller.

use dataloader::DataLoader;
use tensor_ops::counted_targets;
use torch_rng::TorchRng;

use crate::ranks::{OneProcess, any, of_all_batches};
use crate::{Evaluation, Ranks, TrainError, Trainer, calc_loss_batch};

impl Trainer {
    /// An evaluation in addition to the run's own: it doesn't change the run, and isn't remembered.
    ///
    /// Returns `None` if `stop` returns true; it is called before each batch. Each rank may call
    /// this at any time, because it computes all batches itself.
    ///
    /// # Errors
    /// If a loss is not finite.
    pub fn evaluate(
        &self,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Evaluation>, TrainError> {
        self.losses(&OneProcess, &mut TorchRng::manual_seed(0), stop)
    }

    /// The losses of the first `eval_batches` batches of a new pass over each loader.
    ///
    /// `None` if `stop` is true, which is asked before each round of the ranks' batches.
    ///
    /// # Errors
    /// If a batch can't be read or doesn't suit the model, or a loss is not finite.
    pub(crate) fn losses(
        &self,
        ranks: &dyn Ranks,
        rng: &mut TorchRng,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Evaluation>, TrainError> {
        let n = self.config().eval_batches;
        let mut loss = |which, loader| self.loss(which, loader, n, ranks, rng, stop);
        let Some(train_loss) = loss("training", &self.train_loader)? else {
            return Ok(None);
        };
        let val_loss = match &self.val_loader {
            None => None,
            Some(loader) => match loss("validation", loader)? {
                None => return Ok(None),
                loss => loss,
            },
        };
        Ok(Some(Evaluation {
            steps_done: self.steps_done(),
            epoch: self.last_step().map_or(0, |last| last.epoch),
            train_loss,
            val_loss,
            tokens_seen: self.tokens_seen(),
        }))
    }

    /// The validation loss of some batches; without validation data one batch of training shows
    /// that there is a loss. It draws nothing.
    ///
    /// # Errors
    /// As [`losses`](Self::losses).
    pub(crate) fn check_loss(&self, num_batches: usize) -> Result<Option<f64>, TrainError> {
        let (which, loader, n) = match &self.val_loader {
            Some(loader) => ("validation", loader, num_batches),
            None => ("training", &self.train_loader, 1),
        };
        let (rng, never) = (&mut TorchRng::manual_seed(0), &mut || false);
        let loss = self.loss(which, loader, n, &*self.ranks, rng, never)?;
        Ok(loss.filter(|_| self.val_loader.is_some()))
    }

    /// The mean loss of a token in the first batches of a new pass over the loader, nothing
    /// dropped; it draws from `rng` as iterating over PyTorch's loaders does.
    fn loss(
        &self,
        which: &'static str,
        loader: &DataLoader,
        num_batches: usize,
        ranks: &dyn Ranks,
        rng: &mut TorchRng,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Option<f64>, TrainError> {
        let mut epoch = loader.epoch(rng);
        let (mut losses, mut tokens) = (Vec::new(), Vec::new());
        for i in 0..num_batches.min(loader.len()) {
            let rank = i % ranks.size();
            if rank == 0 && any(ranks, stop()) {
                return Ok(None);
            }
            let batch = epoch.try_next()?.expect("an epoch has as many batches");
            losses.push(match rank == ranks.rank() {
                true => f64::from(calc_loss_batch(&batch, &self.model)?),
                false => 0.0,
            });
            tokens.push(counted_targets(&batch.target_ids) as f64);
        }
        let losses = of_all_batches(ranks, &losses);
        let total: f64 = losses.iter().zip(&tokens).map(|(loss, n)| loss * n).sum();
        let loss = total / tokens.iter().sum::<f64>();
        match loss.is_finite() {
            true => Ok(Some(loss)),
            false => {
                let what = format!("{which} loss after step {}", self.steps_done());
                Err(self.not_finite(what, loss))
            }
        }
    }
}
