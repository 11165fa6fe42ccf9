//! Functions that compute the loss of a batch, the mean loss of a data loader (sections 5.1.2 and
//! 5.1.3 of the book), and the perplexity.
//!
//! The losses in this module are computed without dropout. To train a model, use
//! `GptModel::loss_and_grads`, which applies dropout and also computes the gradients.

use dataloader::{Batch, DataLoader};
use gpt::GptModel;
use torch_rng::TorchRng;

use crate::TrainError;

/// Computes the mean cross-entropy of one batch without dropout.
///
/// # Errors
///
/// Returns an error if the batch isn't valid for the model, for example because a token ID isn't in
/// the vocabulary.
pub fn calc_loss_batch(batch: &Batch, model: &GptModel) -> Result<f32, TrainError> {
    Ok(model.loss(&batch.input_ids, &batch.target_ids)?)
}

/// Computes the mean loss of the first `num_batches` batches in a new pass over the data loader. If
/// `num_batches` is `None`, all batches are used.
///
/// Like a new pass over a data loader in PyTorch, this function draws random numbers from `rng`,
/// even if the data loader doesn't shuffle. An evaluation therefore influences all random numbers
/// that are drawn afterwards. As in the book, the result is the mean of the losses of the batches,
/// even if the last batch is smaller than the others.
///
/// # Errors
///
/// Returns an error if a batch can't be read or isn't valid for the model, or if there are no
/// batches to average.
pub fn calc_loss_loader(
    loader: &DataLoader,
    model: &GptModel,
    num_batches: Option<usize>,
    rng: &mut TorchRng,
) -> Result<f64, TrainError> {
    let num_batches = num_batches.unwrap_or(loader.len()).min(loader.len());
    if num_batches == 0 {
        return Err(TrainError::config("num_batches", 0, "at least 1"));
    }
    let mut total_loss = 0.0;
    let mut batches = loader.epoch(rng);
    for _ in 0..num_batches {
        let batch = batches.try_next()?.expect("an epoch has this many batches");
        total_loss += f64::from(calc_loss_batch(&batch, model)?);
    }
    Ok(total_loss / num_batches as f64)
}

/// Returns the perplexity `e^loss`. A model with a perplexity of n is as uncertain as if it had to
/// choose among n equally probable tokens.
///
/// ```
/// // The output in section 5.1.2 is a loss of 10.7940 and a perplexity of 48725.8203.
/// assert!((train::perplexity(10.7940) / 48725.8203 - 1.0).abs() < 1e-4);
/// ```
#[must_use]
pub fn perplexity(loss: f64) -> f64 {
    loss.exp()
}
