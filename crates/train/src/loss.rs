//! The loss of a batch and of a loader, in evaluation (book section 5.1.2 and 5.1.3), and
//! perplexity.
//!
//! Nothing is dropped; the loss of training is `GptModel::loss_and_grads`.

use dataloader::{Batch, DataLoader};
use gpt::GptModel;
use torch_rng::TorchRng;

use crate::TrainError;

/// The mean cross-entropy of one batch.
///
/// # Errors
/// If the batch has ids or a length that the model can't take.
pub fn calc_loss_batch(batch: &Batch, model: &GptModel) -> Result<f32, TrainError> {
    Ok(model.loss(&batch.input_ids, &batch.target_ids)?)
}

/// The mean of the losses of the first `num_batches` batches of a new pass over the loader; `None`
/// for all.
///
/// It draws from `rng` like PyTorch's loader, so an evaluation changes the later random numbers.
/// The mean is over batches, as in the book, although the last one may be smaller.
///
/// # Errors
/// If a batch has ids or a length that the model can't take; if `num_batches` is 0.
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
        let batch = batches.try_next()?.expect("an epoch has as many batches");
        total_loss += f64::from(calc_loss_batch(&batch, model)?);
    }
    Ok(total_loss / num_batches as f64)
}

/// `e^loss`: the number of equally likely tokens among which the model is undecided.
///
/// ```
/// // Section 5.1.2 prints 10.7940 and 48725.8203.
/// assert!((train::perplexity(10.7940) / 48725.8203 - 1.0).abs() < 1e-4);
/// ```
#[must_use]
pub fn perplexity(loss: f64) -> f64 {
    loss.exp()
}
