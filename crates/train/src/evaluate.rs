//! What a run looks at while it trains: the losses of both loaders, and a sample (book's `evaluate_model`, `generate_and_print_sample`).
//!
//! Ranks share out the batches of an evaluation.

use dataloader::DataLoader;
use generate::generate_text_simple;
use gpt::GptModel;
use ndarray::Array2;
use torch_rng::TorchRng;

use crate::trainer::Optimizer;
use crate::{
    Evaluation, SampleConfig, TrainError, Trainer, calc_loss_batch, calc_loss_loader, loss_until,
};

impl Trainer {
    /// The losses of the first batches of a new pass over each loader, nothing dropped; also logged.
    ///
    /// It draws, as iterating over PyTorch's loaders does.
    /// As soon as `stop` says so it has not been begun, and there is none; with ranks, which share the batches, nothing stops it.
    ///
    /// # Errors
    /// If a loss is not finite.
    pub(crate) fn evaluate_until(
        &mut self,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Evaluation>, TrainError> {
        let (n, model, optimizer) = (self.config.eval_batches, &self.model, &self.optimizer);
        let mut rng = self.rng.clone();
        let mut loss = |loader: &DataLoader| match optimizer {
            Optimizer::Alone(_) => loss_until(loader, model, Some(n), &mut rng, stop),
            Optimizer::Shared(share) => {
                let n = n.min(loader.len());
                let mut losses = vec![0.0; n];
                for (i, batch) in loader.epoch(&mut rng).take(n).enumerate() {
                    if share.computes(i as u64) {
                        losses[i] = f64::from(calc_loss_batch(&batch, model)?);
                    }
                }
                let (size, losses) = (share.ranks.size(), share.gather(&losses));
                let total: f64 = (0..n).map(|i| losses[i % size * n + i]).sum();
                Ok(Some(total / n as f64))
            }
        };
        let Some(train_loss) = loss(&self.train_loader)? else {
            return Ok(None);
        };
        let val_loss = match &self.val_loader {
            None => None,
            Some(loader) => match loss(loader)? {
                None => return Ok(None),
                some => some,
            },
        };
        self.rng = rng;
        let last = self.counters.steps.last();
        let evaluation = Evaluation {
            step: last.map_or(0, |last| last.step),
            epoch: last.map_or(0, |last| last.epoch),
            train_loss,
            val_loss,
            tokens_seen: self.counters.tokens_seen,
        };
        self.refuse_non_finite("training", train_loss)?;
        self.refuse_non_finite("validation", val_loss.unwrap_or(0.0))?;
        self.counters.evaluations.push(evaluation);
        Ok(Some(evaluation))
    }

    /// The validation loss of some batches, without a draw and unlogged; without validation data one batch of training shows that there is a loss.
    ///
    /// # Errors
    /// If it is not finite.
    pub(crate) fn check_loss(&self, num_batches: usize) -> Result<Option<f64>, TrainError> {
        let mut rng = TorchRng::manual_seed(0);
        let mut loss = |loader, n| calc_loss_loader(loader, &self.model, Some(n), &mut rng);
        match &self.val_loader {
            Some(loader) => {
                let loss = loss(loader, num_batches)?;
                self.refuse_non_finite("validation", loss)?;
                Ok(Some(loss))
            }
            None => {
                self.refuse_non_finite("training", loss(&self.train_loader, 1)?)?;
                Ok(None)
            }
        }
    }

    fn refuse_non_finite(&self, which: &'static str, loss: f64) -> Result<(), TrainError> {
        let last = self.counters.steps.last();
        match loss.is_finite() {
            true => Ok(()),
            false => Err(TrainError::NonFiniteEvaluation {
                which,
                step: last.map_or(0, |last| last.step),
                loss,
                learning_rate: last.map_or(self.config.optimizer.lr, |last| last.learning_rate),
            }),
        }
    }

    /// A greedy continuation of the prompt, prompt included; none as soon as `stop` says so, which is asked before each token.
    ///
    /// It draws nothing.
    ///
    /// # Errors
    /// If the prompt has an id that the model doesn't know, or the logits are not finite.
    pub fn sample_until(
        &self,
        sample: &SampleConfig,
        stop: &mut dyn FnMut() -> bool,
    ) -> Result<Option<Vec<u32>>, TrainError> {
        let mut ids = sample.prompt.clone();
        for _ in 0..sample.max_new_tokens {
            if stop() {
                return Ok(None);
            }
            ids = generate_sample(&self.model, &ids, 1)?;
        }
        Ok(Some(ids))
    }
}

/// A greedy continuation of the ids, which are part of it (the book's `generate_and_print_sample`, without printing).
pub(crate) fn generate_sample(
    model: &GptModel,
    prompt: &[u32],
    max_new_tokens: usize,
) -> Result<Vec<u32>, TrainError> {
    let context_size = model.config().context_length;
    let encoded = Array2::from_shape_vec((1, prompt.len()), prompt.to_vec());
    let encoded = encoded.expect("n ids fill one row of n");
    let ids = generate_text_simple(model, encoded, max_new_tokens, context_size)?;
    Ok(ids.into_iter().collect())
}
