//! The book's `train_model_simple` (listing 5.3), on the same core as every other run.
//!
//! The same draws in the same order: the order of an epoch when it begins, dropout, and a pass over both loaders at each evaluation.

use dataloader::DataLoader;
use gpt::GptModel;
use tokenizer::{AllowedSpecial, Gpt2Tokenizer};
use torch_rng::TorchRng;

use crate::{
    AdamW, Evaluation, Event, SampleConfig, Signal, StepReport, TrainConfig, TrainError, Trainer,
};

/// Tokens of the sample after each epoch, as in the book's `generate_and_print_sample`.
const SAMPLE_TOKENS: usize = 50;

/// The arguments of the book's function that are no objects of their own.
#[derive(Clone, Copy, Debug)]
pub struct SimpleTraining<'a> {
    /// Passes over the training loader.
    pub num_epochs: u64,
    /// Evaluate after steps 0, `eval_freq`, 2 `eval_freq`, ...
    pub eval_freq: u64,
    /// Batches an evaluation averages over.
    pub eval_iter: usize,
    /// What each epoch's sample continues.
    pub start_context: &'a str,
    /// For the samples.
    pub tokenizer: &'a Gpt2Tokenizer,
}

/// What the book's function returns, and what it prints.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TrainingHistory {
    /// One an evaluation.
    pub train_losses: Vec<f64>,
    /// One an evaluation.
    pub val_losses: Vec<f64>,
    /// Input tokens before each evaluation.
    pub track_tokens_seen: Vec<u64>,
    /// Every step.
    pub steps: Vec<StepReport>,
    /// Every evaluation, with its step.
    pub evaluations: Vec<Evaluation>,
    /// The ids of each epoch's sample, prompt included.
    pub samples: Vec<Vec<u32>>,
}

/// Trains for some epochs with a constant learning rate; what happens is also told to `on_event`, which may stop it.
///
/// # Errors
/// As [`Trainer::run`]; model and optimizer are then lost.
pub fn train_model_simple(
    model: GptModel,
    optimizer: AdamW,
    (train_loader, val_loader): (&DataLoader, &DataLoader),
    training: &SimpleTraining<'_>,
    rng: &mut TorchRng,
    on_event: &mut dyn FnMut(Event<'_>) -> Signal,
) -> Result<(GptModel, AdamW, TrainingHistory), TrainError> {
    let prompt = training
        .tokenizer
        .encode(training.start_context, AllowedSpecial::All)?;
    let config = TrainConfig {
        max_steps: training
            .num_epochs
            .saturating_mul(train_loader.len() as u64),
        eval_every: Some(training.eval_freq),
        eval_batches: training.eval_iter,
        sample: Some(SampleConfig {
            prompt,
            max_new_tokens: SAMPLE_TOKENS,
            every: None,
        }),
        ..TrainConfig::default()
    };
    let loaders = (train_loader.clone(), Some(val_loader.clone()));
    let mut trainer = Trainer::with_optimizer(config, model, optimizer, loaders, rng.clone())?;
    let mut samples = Vec::new();
    trainer.run(None, &mut |event| {
        if let Event::Sample { ids, .. } = event {
            samples.push(ids.to_vec());
        }
        on_event(event)
    })?;
    let evaluations = trainer.evaluations().to_vec();
    let history = TrainingHistory {
        train_losses: evaluations.iter().map(|e| e.train_loss).collect(),
        val_losses: evaluations.iter().filter_map(|e| e.val_loss).collect(),
        track_tokens_seen: evaluations.iter().map(|e| e.tokens_seen).collect(),
        steps: trainer.steps().to_vec(),
        evaluations,
        samples,
    };
    let (model, optimizer, generator) = trainer.into_parts()?;
    *rng = generator;
    Ok((model, optimizer, history))
}
