//! Computation of the training loss and the validation loss during a training run, like the book's
//! function `evaluate_model`. If several processes (ranks) share the run, they divide the batches
//! among themselves.
//!
//! Each loss is the mean over all tokens, as in the command `gpt eval`. In contrast, the book's
//! function `calc_loss_loader` averages the losses of the batches. If the last batch is smaller
//! than the others, that mean gives its tokens a higher weight.

use dataloader::DataLoader;
use tensor_ops::counted_targets;
use torch_rng::TorchRng;

use crate::ranks::{OneProcess, any, of_all_batches};
use crate::{Evaluation, Ranks, TrainError, Trainer, calc_loss_batch};

impl Trainer {
    /// Computes the training loss and the validation loss. The state of the run doesn't change, and
    /// the result isn't stored in it.
    ///
    /// This method calls `stop` before each batch, and returns `None` as soon as `stop` returns
    /// true. If several processes share the run, each of them may call this method independently of
    /// the others, because the calling process computes all batches itself.
    ///
    /// # Errors
    ///
    /// Returns an error if a batch can't be read or isn't valid for the model, or if a loss isn't
    /// finite.
    pub fn evaluate(
        &self,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Evaluation>, TrainError> {
        self.losses(&OneProcess, &mut TorchRng::manual_seed(0), stop)
    }

    /// Computes the training loss and the validation loss. For each loss, the first `eval_batches`
    /// batches of a new pass over the data loader are used.
    ///
    /// If several ranks share the run, they evaluate the batches in rounds, in which each rank
    /// computes one batch. All ranks call `stop` before each round. If one of these calls returns
    /// true, all ranks return `None`.
    ///
    /// # Errors
    ///
    /// Returns an error if a batch can't be read or isn't valid for the model, or if a loss isn't
    /// finite.
    pub(crate) fn losses(
        &self,
        ranks: &dyn Ranks,
        rng: &mut TorchRng,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Evaluation>, TrainError> {
        let n = self.config().eval_batches;
        let mut loss = |which, loader| self.loss(which, loader, n, ranks, rng, stop);
        let Some(train_loss) = loss("training", self.state.batches.loader())? else {
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

    /// Computes the validation loss over the first `num_batches` batches without changing the state
    /// of the run's random number generator. If there is no validation data, this method returns
    /// `None`, but still checks that the loss of one training batch is finite.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`losses`](Self::losses).
    pub(crate) fn check_loss(&self, num_batches: usize) -> Result<Option<f64>, TrainError> {
        let (which, loader, n) = match &self.val_loader {
            Some(loader) => ("validation", loader, num_batches),
            None => ("training", self.state.batches.loader(), 1),
        };
        let (rng, never) = (&mut TorchRng::manual_seed(0), &mut || false);
        let loss = self.loss(which, loader, n, &*self.ranks, rng, never)?;
        Ok(loss.filter(|_| self.val_loader.is_some()))
    }

    /// Computes the mean loss, without dropout, over all tokens in the first `num_batches` batches
    /// of a new pass over the data loader. As in PyTorch, this pass draws random numbers from
    /// `rng`, even if the data loader doesn't shuffle.
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
            let batch = epoch.try_next()?.expect("an epoch has this many batches");
            losses.push(match rank == ranks.rank() {
                true => f64::from(calc_loss_batch(&batch, self.model())?),
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
