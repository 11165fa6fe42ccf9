//! A small model and small data sets for the tests. Training the model takes only milliseconds, but
//! uses every feature that draws random numbers.
// The lint `dead_code` is turned off because each test binary uses only some of the functions in
// this module. The lint `unwrap_used` is turned off because a test may panic if its preparation
// fails.
#![allow(dead_code, clippy::unwrap_used)]

use std::ops::ControlFlow;
use std::path::Path;

use dataloader::{Corpus, DataLoader, DataLoaderConfig};
use gpt::{DropRates, GptConfig, GptModel};
use torch_rng::TorchRng;
use train::{Evaluation, Event, RunFolder, StepReport, TrainConfig, Trainer};

/// Returns the configuration of a model that has two transformer blocks, an embedding size of 8, a
/// vocabulary of 13 tokens, and all kinds of dropout.
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

/// Returns a training data loader with 11 shuffled batches, and a validation data loader with 2
/// batches that aren't shuffled.
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

/// Returns settings with three batches per optimizer step, an evaluation every four steps, and
/// gradient clipping.
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

/// Creates a run whose random number generator is in a special state. The generator computes
/// normally distributed numbers in pairs, and an odd number of them has been drawn, so it stores
/// the second number of the last pair. A checkpoint must preserve this number.
pub(crate) fn trainer(config: TrainConfig) -> Trainer {
    trainer_of(model_config(), config)
}

/// Creates a run in the same way as [`trainer`], but with the given model configuration.
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

/// Resumes a run in the same way as [`resume`], but with the given model configuration.
pub(crate) fn resume_of(
    model: GptConfig,
    folder: impl AsRef<Path>,
    config: TrainConfig,
) -> Result<Trainer, train::TrainError> {
    let checkpoint = train::latest_checkpoint(folder)?;
    let (train, validation) = loaders();
    Trainer::resume(checkpoint, config, model, train, validation)
}

/// Continues a run to its last step. Returns the reports of all steps and the results of all
/// evaluations.
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

/// Continues a run until `n` steps have been taken. The run saves a checkpoint before it stops.
pub(crate) fn stop_after(trainer: &mut Trainer, folder: &RunFolder, n: u64) {
    trainer
        .run(Some(folder), &mut |event| match event {
            Event::Step(step) if step.step + 1 >= n => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .unwrap();
}

/// Checks that two runs are bit for bit the same: their weights, their moments, the states of their
/// random number generators, their last steps, and their last evaluations.
pub(crate) fn assert_same_run(one: &Trainer, other: &Trainer) {
    assert_eq!(one.last_step(), other.last_step());
    assert_eq!(one.last_evaluation(), other.last_evaluation());
    assert!(one.model() == other.model(), "the weights differ");
    assert!(one.optimizer() == other.optimizer(), "the moments differ");
    assert!(one.rng() == other.rng(), "the generators differ");
}
