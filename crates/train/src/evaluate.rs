//! What a run looks at while it trains: the losses of both loaders, and a sample (book's `evaluate_model`, `generate_and_print_sample`).

use generate::generate_text_simple;
use gpt::GptModel;
use ndarray::Array2;

use crate::{Evaluation, SampleConfig, TrainError, Trainer, calc_loss_loader};

impl Trainer {
    /// The losses of the first batches of a new pass over each loader, nothing dropped; also logged.
    ///
    /// It draws, as iterating over PyTorch's loaders does.
    ///
    /// # Errors
    /// If a loss is not finite.
    pub fn evaluate(&mut self) -> Result<Evaluation, TrainError> {
        let (n, rng) = (Some(self.config.eval_batches), &mut self.rng);
        let train_loss = calc_loss_loader(&self.train_loader, &self.model, n, rng)?;
        let val_loss = match &self.val_loader {
            Some(loader) => Some(calc_loss_loader(loader, &self.model, n, rng)?),
            None => None,
        };
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
