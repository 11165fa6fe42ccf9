//! The book's `train_model_simple` (listing 5.3), line by line.
//!
//! [`Trainer`](crate::Trainer) is the one for real runs: it accumulates, clips, schedules, saves
//! and resumes. It gives the same bits for models of more than two million weights; of smaller ones
//! it computes a batch in parts, and agrees up to rounding.

use dataloader::DataLoader;
use gpt::GptModel;
use serde::{Deserialize, Serialize};
use torch_rng::TorchRng;

use crate::{AdamW, Evaluation, Event, TrainError, calc_loss_loader};

/// The numbers among the arguments of the book's function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SimpleTraining {
    /// Passes over the training loader.
    pub num_epochs: u64,
    /// Evaluate after steps 0, `eval_freq`, 2 `eval_freq`, ...
    pub eval_freq: u64,
    /// Batches an evaluation averages over.
    pub eval_iter: usize,
}

/// The book's: ten epochs, and an evaluation of 5 batches every 5 steps.
impl Default for SimpleTraining {
    fn default() -> Self {
        Self {
            num_epochs: 10,
            eval_freq: 5,
            eval_iter: 5,
        }
    }
}

/// The result of the book's function, one number per evaluation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainingHistory {
    /// Mean losses of the training loader.
    pub train_losses: Vec<f64>,
    /// Mean losses of the validation loader.
    pub val_losses: Vec<f64>,
    /// Input tokens so far.
    pub track_tokens_seen: Vec<u64>,
}

/// Trains for some epochs at the optimizer's learning rate (the book's `train_model_simple`).
///
/// `on_event` receives the book's output: every evaluation, and after each epoch that a sample is
/// due, which the caller makes with the crate `generate`. It also receives every batch.
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
/// It draws in the book's order: the order of an epoch when it begins, dropout, and a pass over
/// both loaders at each evaluation.
///
/// # Errors
/// If the model can't take a batch.
///
/// # Panics
/// If the optimizer was made for other weights.
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
            optimizer.step(model, &mut grads); // and zero_grad()
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

/// The losses of the first `eval_iter` batches of a new pass over each loader, nothing dropped (the
/// book's `evaluate_model`).
///
/// # Errors
/// As [`calc_loss_loader`].
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
