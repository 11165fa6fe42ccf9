//! A small model and data for the tests. Training takes only milliseconds, but uses every feature
//! that draws random numbers.
// These lints are turned off because each test binary uses only some of the functions, and because
// a test may panic if its preparation fails.
#![allow(dead_code, clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::path::Path;

use dataloader::{Corpus, DataLoader, DataLoaderConfig};
use gpt::{DropRates, GptConfig, GptModel};
use torch_rng::TorchRng;
use train::{Evaluation, Event, RunFolder, StepReport, TrainConfig, Trainer};

/// Returns the configuration of a model with two blocks of 8 features, a vocabulary of 13 tokens,
/// and all kinds of dropout.
pub(crate) fn model_config() -> GptConfig {
    GptConfig {
        vocab_size: 13,
        context_length: 6,
        emb_dim: 8,
        n_heads: 2,
        n_layers: 2,
        drop_rates: DropRates::all(0.1),
        ..GptConfig::GPT2_124M
    }
}

/// Returns loaders with 11 shuffled batches for training and 2 batches for validation.
pub(crate) fn loaders() -> (DataLoader, Option<DataLoader>) {
    let corpus =
        |n: u32, k: u32| Corpus::from_ids((0..n).map(|i| i * i * k % 13).collect::<Vec<_>>());
    let training = DataLoaderConfig {
        batch_size: 2,
        max_length: 6,
        stride: 6,
        shuffle: true,
        drop_last: true,
    };
    let validation = DataLoaderConfig {
        shuffle: false,
        drop_last: false,
        ..training
    };
    (
        DataLoader::new(&corpus(140, 1), training).unwrap(),
        Some(DataLoader::new(&corpus(30, 3), validation).unwrap()),
    )
}

/// Returns settings with three batches per step, an evaluation every four steps, and clipping.
pub(crate) fn config(max_steps: u64) -> TrainConfig {
    TrainConfig {
        max_steps,
        accumulation: 3,
        eval_every: Some(4),
        eval_batches: 2,
        max_grad_norm: Some(1.0),
        ..TrainConfig::default()
    }
}

/// Creates a run whose random number generator stores a normal sample. Normal samples are computed
/// in pairs, and an odd number of them has been drawn. A checkpoint must preserve the stored
/// sample.
pub(crate) fn trainer(config: TrainConfig) -> Trainer {
    trainer_of(model_config(), config)
}

/// Creates a run like [`trainer`], but for another model.
pub(crate) fn trainer_of(model: GptConfig, config: TrainConfig) -> Trainer {
    let mut rng = TorchRng::manual_seed(123);
    let model = GptModel::new(model, &mut rng).unwrap();
    let (train, validation) = loaders();
    rng.randn(3);
    assert!(rng.state().pending_normal.is_some());
    Trainer::new(config, model, train, validation, rng).unwrap()
}

/// Resumes the run in `folder` from its newest checkpoint.
pub(crate) fn resume(
    folder: impl AsRef<Path>,
    config: TrainConfig,
) -> Result<Trainer, train::TrainError> {
    resume_of(model_config(), folder, config)
}

/// Resumes a run like [`resume`], but for another model.
pub(crate) fn resume_of(
    model: GptConfig,
    folder: impl AsRef<Path>,
    config: TrainConfig,
) -> Result<Trainer, train::TrainError> {
    let checkpoint = train::latest_checkpoint(folder)?;
    let (train, validation) = loaders();
    Trainer::resume(checkpoint, config, model, train, validation)
}

/// Trains to the end and returns the reports of all steps and all evaluations.
pub(crate) fn finish(
    trainer: &mut Trainer,
    folder: Option<&RunFolder>,
) -> (Vec<StepReport>, Vec<Evaluation>) {
    let (mut steps, mut evaluations) = (Vec::new(), Vec::new());
    let outcome = trainer.run(folder, &mut |event| {
        match event {
            Event::Step(step) => steps.push(*step),
            Event::Evaluation(evaluation) => evaluations.push(*evaluation),
            _ => {}
        }
        ControlFlow::Continue(())
    });
    outcome.unwrap();
    (steps, evaluations)
}

/// Trains until `n` steps have been taken. The run then saves a checkpoint.
pub(crate) fn stop_after(trainer: &mut Trainer, folder: &RunFolder, n: u64) {
    trainer
        .run(Some(folder), &mut |event| match event {
            Event::Step(step) if step.step + 1 >= n => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .unwrap();
}

/// Checks that two runs have the same weights, moments, random number generators and last losses,
/// bit for bit.
pub(crate) fn assert_same_run(one: &Trainer, other: &Trainer) {
    assert_eq!(one.last_step(), other.last_step());
    assert_eq!(one.last_evaluation(), other.last_evaluation());
    assert!(one.model() == other.model(), "the weights differ");
    assert!(one.optimizer() == other.optimizer(), "the moments differ");
    assert!(one.rng() == other.rng(), "the generators differ");
}
