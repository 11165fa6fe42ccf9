//! A model and a corpus that train in milliseconds, with everything that draws switched on.
#![allow(dead_code, clippy::unwrap_used)] // each test binary uses a part; a test that can't begin panics

use std::ops::ControlFlow;
use std::path::Path;

use dataloader::{Corpus, DataLoader, DataLoaderConfig};
use gpt::{DropRates, GptConfig, GptModel};
use torch_rng::TorchRng;
use train::{Evaluation, Event, RunFolder, StepReport, TrainConfig, Trainer};

/// 2 blocks of width 8 over 13 tokens, dropout at all sites.
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

/// 11 training batches an epoch, shuffled, and 2 to validate with.
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

/// Three batches per step, an evaluation every four steps, clipping.
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

/// A new run whose generator holds back a normal value.
pub(crate) fn trainer(config: TrainConfig) -> Trainer {
    trainer_of(model_config(), config)
}

/// As [`trainer`], for another model.
pub(crate) fn trainer_of(model: GptConfig, config: TrainConfig) -> Trainer {
    let mut rng = TorchRng::manual_seed(123);
    let model = GptModel::new(model, &mut rng).unwrap();
    let (train, validation) = loaders();
    rng.randn(3);
    assert!(rng.state().pending_normal.is_some());
    Trainer::new(config, model, train, validation, rng).unwrap()
}

/// The run that the newest checkpoint in `folder` continues.
pub(crate) fn resume(
    folder: impl AsRef<Path>,
    config: TrainConfig,
) -> Result<Trainer, train::TrainError> {
    resume_of(model_config(), folder, config)
}

/// As [`resume`], for another model.
pub(crate) fn resume_of(
    model: GptConfig,
    folder: impl AsRef<Path>,
    config: TrainConfig,
) -> Result<Trainer, train::TrainError> {
    let checkpoint = train::latest_checkpoint(folder)?;
    let (train, validation) = loaders();
    Trainer::resume(checkpoint, config, model, train, validation)
}

/// Trains to the end; all steps and evaluations.
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

/// Trains until `n` steps have been taken, and saves.
pub(crate) fn stop_after(trainer: &mut Trainer, folder: &RunFolder, n: u64) {
    trainer
        .run(Some(folder), &mut |event| match event {
            Event::Step(step) if step.step + 1 >= n => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        })
        .unwrap();
}

/// Everything that a run leaves, bit for bit: weights, moments, generator, the last losses.
pub(crate) fn assert_same_run(one: &Trainer, other: &Trainer) {
    assert_eq!(one.last_step(), other.last_step());
    assert_eq!(one.last_evaluation(), other.last_evaluation());
    assert!(one.model() == other.model(), "the weights differ");
    assert!(one.optimizer() == other.optimizer(), "the moments differ");
    assert!(one.rng() == other.rng(), "the generators differ");
}
