//! What a run looks at while it trains: the losses of both loaders, and a sample (book's `evaluate_model`, `generate_and_print_sample`).
//!
//! Ranks share out the batches of an evaluation.

use dataloader::DataLoader;
use generate::generate_text_simple;
use gpt::GptModel;
use ndarray::Array2;

use crate::trainer::Optimizer;
use crate::{Evaluation, SampleConfig, TrainError, Trainer, calc_loss_batch, calc_loss_loader};

impl Trainer {
    /// The losses of the first batches of a new pass over each loader, nothing dropped; also logged.
    ///
    /// It draws, as iterating over PyTorch's loaders does.
    ///
    /// # Errors
    /// If a loss is not finite.
    pub fn evaluate(&mut self) -> Result<Evaluation, TrainError> {
        let (n, model, optimizer) = (self.config.eval_batches, &self.model, &self.optimizer);
        let mut loss = |loader: &DataLoader| match optimizer {
            Optimizer::Alone(_) => calc_loss_loader(loader, model, Some(n), &mut self.rng),
            Optimizer::Shared(share) => {
                let n = n.min(loader.len());
                let mut losses = vec![0.0; n];
                for (i, batch) in loader.epoch(&mut self.rng).take(n).enumerate() {
                    if share.computes(i as u64) {
                        losses[i] = f64::from(calc_loss_batch(&batch, model)?);
                    }
                }
                let (size, losses) = (share.ranks.size(), share.gather(&losses));
                let total: f64 = (0..n).map(|i| losses[i % size * n + i]).sum();
                Ok(total / n as f64)
            }
        };
        let train_loss = loss(&self.train_loader)?;
        let val_loss = self.val_loader.as_ref().map(loss).transpose()?;
        let last = self.counters.steps.last();
        let evaluation = Evaluation {
            step: last.map_or(0, |last| last.step),
            epoch: last.map_or(0, |last| last.epoch),
            train_loss,
            val_loss,
            tokens_seen: self.counters.tokens_seen,
        };
        for (which, loss) in [("training", Some(train_loss)), ("validation", val_loss)] {
            if let Some(loss) = loss
                && !loss.is_finite()
            {
                return Err(TrainError::NonFiniteEvaluation {
                    which,
                    step: evaluation.step,
                    loss,
                    learning_rate: last.map_or(self.config.optimizer.lr, |last| last.learning_rate),
                });
            }
        }
        self.counters.evaluations.push(evaluation);
        Ok(evaluation)
    }

    /// A greedy continuation of the prompt, prompt included; it draws nothing.
    ///
    /// # Errors
    /// If the prompt has an id that the model doesn't know, or the logits are not finite.
    pub fn sample(&self, sample: &SampleConfig) -> Result<Vec<u32>, TrainError> {
        generate_sample(&self.model, &sample.prompt, sample.max_new_tokens)
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
