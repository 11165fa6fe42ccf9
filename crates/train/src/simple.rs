//! A line-by-line port of the book's function `train_model_simple` (listing 5.3).
//!
//! For actual training runs, use [`Trainer`](crate::Trainer), which can also accumulate and clip
//! gradients, change the learning rate, save checkpoints, and resume from them. If a model has more
//! than two million weights, `Trainer` produces bit for bit the same results as
//! `train_model_simple`. For a smaller model, `Trainer` divides each batch into parts, so the
//! results agree only up to rounding.

use dataloader::DataLoader;
use gpt::GptModel;
use serde::{Deserialize, Serialize};
use torch_rng::TorchRng;

use crate::{AdamW, Evaluation, Event, TrainError, calc_loss_loader};

/// The numeric parameters of the book's function `train_model_simple`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimpleTraining {
    /// Number of passes over the training data.
    pub num_epochs: u64,
    /// Number of steps between two evaluations. The first evaluation takes place after the first
    /// step of training.
    pub eval_freq: u64,
    /// Maximum number of batches of each data loader (training and validation) that an evaluation
    /// uses.
    pub eval_iter: usize,
}

/// Uses the values in the book as defaults: ten epochs, and an evaluation every 5 steps that uses 5
/// batches.
impl Default for SimpleTraining {
    fn default() -> Self {
        Self {
            num_epochs: 10,
            eval_freq: 5,
            eval_iter: 5,
        }
    }
}

/// The losses during a call of [`train_model_simple`], with one element per evaluation in each
/// vector.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainingHistory {
    /// Training losses.
    pub train_losses: Vec<f64>,
    /// Validation losses.
    pub val_losses: Vec<f64>,
    /// Number of input tokens that had been used for training before each evaluation.
    pub track_tokens_seen: Vec<u64>,
}

/// Trains a model for a number of epochs, like the book's function `train_model_simple`. The
/// learning rate doesn't change during the training.
///
/// This function doesn't print anything. Instead, it passes the loss of each batch, the losses of
/// each evaluation and, after each epoch, the model to the closure `on_event`. The closure can use
/// the crate `generate` to generate sample text with the model.
///
/// ```
/// use train::dataloader::{Corpus, DataLoader, DataLoaderConfig};
/// use train::gpt::{GptConfig, GptModel};
/// use train::torch_rng::TorchRng;
/// use train::{AdamW, AdamWConfig, Event, SimpleTraining, train_model_simple};
///
/// let config = GptConfig {
///     vocab_size: 10, context_length: 8, emb_dim: 8,
///     n_heads: 2, n_layers: 1, ..GptConfig::GPT2_124M
/// };
/// let mut rng = TorchRng::manual_seed(123);
/// let mut model = GptModel::new(config, &mut rng)?;
/// let mut optimizer = AdamW::new(AdamWConfig { lr: 1e-2, ..AdamWConfig::default() }, &model)?;
/// let corpus = Corpus::from_ids((0..80).map(|i| i % 10).collect::<Vec<u32>>());
/// let windows = DataLoaderConfig { max_length: 8, stride: 8, ..DataLoaderConfig::default() };
/// let loader = DataLoader::new(&corpus, windows)?;
/// let settings = SimpleTraining { num_epochs: 3, eval_freq: 2, eval_iter: 1 };
/// let loaders = (&loader, &loader);
/// let mut losses = Vec::new();
/// let history = train_model_simple(
///     &mut model, &mut optimizer, loaders, settings, &mut rng, |event| {
///         if let Event::Batch { loss } = event {
///             losses.push(loss);
///         }
///     },
/// )?;
/// assert!(history.train_losses.last() < history.train_losses.first());
/// # Ok::<(), train::TrainError>(())
/// ```
///
/// Random numbers are drawn in the same order as in the book. At the start of each epoch, the order
/// of the training windows is drawn. Each batch then draws its dropout masks. Each evaluation draws
/// random numbers for new passes over both data loaders. As in PyTorch, a new pass draws random
/// numbers even if the data loader doesn't shuffle.
///
/// # Errors
///
/// Returns an error if a batch can't be read or isn't valid for the model, or if there are no
/// batches for an evaluation.
///
/// # Panics
///
/// Panics if the optimizer was created for a model of another size.
pub fn train_model_simple(
    model: &mut GptModel,
    optimizer: &mut AdamW,
    (train_loader, val_loader): (&DataLoader, &DataLoader),
    training: SimpleTraining,
    rng: &mut TorchRng,
    mut on_event: impl FnMut(Event<'_>),
) -> Result<TrainingHistory, TrainError> {
    let mut history = TrainingHistory::default();
    let mut grads = GptModel::zeros(model.config())?;
    let (mut tokens_seen, mut step) = (0, 0u64);

    for epoch in 0..training.num_epochs {
        for batch in train_loader.epoch(rng) {
            let batch = batch?;
            let (inputs, targets) = (&batch.input_ids, &batch.target_ids); // (batch, num_tokens)
            let loss = model.loss_and_grads(inputs, targets, 1.0, rng, &mut grads)?;
            optimizer.step(model, &mut grads); // also does the work of zero_grad()
            tokens_seen += inputs.len() as u64;
            on_event(Event::Batch { loss });

            if step.is_multiple_of(training.eval_freq) {
                let loaders = (train_loader, val_loader);
                let (train_loss, val_loss) =
                    evaluate_model(model, loaders, training.eval_iter, rng)?;
                history.train_losses.push(train_loss);
                history.val_losses.push(val_loss);
                history.track_tokens_seen.push(tokens_seen);
                on_event(Event::Evaluation(&Evaluation {
                    steps_done: step + 1,
                    epoch,
                    train_loss,
                    val_loss: Some(val_loss),
                    tokens_seen,
                }));
            }
            step += 1;
        }

        on_event(Event::SampleDue {
            steps_done: step,
            model,
        });
    }
    Ok(history)
}

/// Returns the training loss and the validation loss, like the book's function `evaluate_model`.
/// Both are computed without dropout. Each loss is the mean over the first `eval_iter` batches of a
/// new pass over the data loader.
///
/// # Errors
///
/// Returns the same errors as [`calc_loss_loader`].
pub fn evaluate_model(
    model: &GptModel,
    (train_loader, val_loader): (&DataLoader, &DataLoader),
    eval_iter: usize,
    rng: &mut TorchRng,
) -> Result<(f64, f64), TrainError> {
    let train_loss = calc_loss_loader(train_loader, model, Some(eval_iter), rng)?;
    let val_loss = calc_loss_loader(val_loader, model, Some(eval_iter), rng)?;
    Ok((train_loss, val_loss))
}
