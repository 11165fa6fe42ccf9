//! Checks that training computes the right losses and weights, and that it rejects invalid
//! settings.
//!
//! The results of training must not depend on the number of threads. This requirement is checked
//! elsewhere, by the workspace's test `threads` and by the tests of the crate `gpt`.
#![allow(clippy::unwrap_used)] // a test may panic if its preparation fails

mod common;

use std::ops::ControlFlow;

use common::{config, finish, loaders, model_config};
use dataloader::{Corpus, DataLoader, DataLoaderConfig};
use gpt::{DropRates, GptConfig, GptModel};
use torch_rng::TorchRng;
use train::{
    AdamW, AdamWConfig, Event, Outcome, Schedule, SimpleTraining, TrainConfig, Trainer,
    calc_loss_loader, train_model_simple,
};

#[test]
fn settings_outside_their_range_are_named() {
    type Change = fn(&mut TrainConfig);
    let changes: [(Change, &str); 5] = [
        (|c| c.max_steps = 0, "max_steps must be at least 1, got 0"),
        (
            |c| c.optimizer.lr = -1.0,
            "lr must be a finite number that is at least 0, got -1",
        ),
        (|c| c.eval_every = Some(0), "eval_every"),
        (|c| c.max_grad_norm = Some(f64::NAN), "got NaN"),
        (
            |c| {
                c.schedule = Some(Schedule {
                    warmup_steps: 5,
                    total_steps: 5,
                    initial_lr: 0.0,
                    min_lr: 0.0,
                });
            },
            "total_steps must be greater than warmup_steps (5), got 5",
        ),
    ];
    for (change, expected) in changes {
        let mut config = config(1);
        change(&mut config);
        let line = config.validate().expect_err(expected).to_string();
        assert!(line.contains(expected), "{line}, expected {expected}");
    }
}

#[test]
fn windows_that_the_model_cannot_take_are_refused_before_the_first_step() {
    let mut rng = TorchRng::manual_seed(1);
    let short = GptConfig {
        context_length: 5,
        ..model_config()
    };
    let model = GptModel::new(short, &mut rng).unwrap();
    let (train, validation) = loaders();
    let error = Trainer::new(config(1), model, train, validation, rng).unwrap_err();
    let expected = "the input has 6 tokens, but the context length is 5; use shorter sequences";
    assert!(error.to_string().starts_with(expected), "{error}");
}

/// Checks that a [`Trainer`] computes bit for bit the same weights and losses as
/// [`train_model_simple`], which is the book's training loop. For this comparison, each batch
/// contains only one sequence. If a batch contained several sequences, `Trainer` would divide it
/// into parts, which would change the rounding errors.
#[test]
fn the_trainer_gives_the_bits_of_the_books_loop() {
    let (train_loader, val_loader) = loaders();
    let windows = DataLoaderConfig {
        batch_size: 1,
        ..train_loader.config()
    };
    let train_loader = DataLoader::new(train_loader.dataset().corpus(), windows).unwrap();
    let val_loader = val_loader.unwrap();
    let new_model = || {
        let mut rng = TorchRng::manual_seed(123);
        (GptModel::new(model_config(), &mut rng).unwrap(), rng)
    };

    let (mut model, mut rng) = new_model();
    let mut optimizer = AdamW::new(AdamWConfig::default(), &model).unwrap();
    let training = SimpleTraining {
        num_epochs: 2,
        eval_freq: 1,
        eval_iter: 3,
    };
    let (mut losses, mut samples) = (Vec::new(), Vec::new());
    let history = train_model_simple(
        &mut model,
        &mut optimizer,
        (&train_loader, &val_loader),
        training,
        &mut rng,
        |event| match event {
            Event::Batch { loss } => losses.push(loss),
            Event::SampleDue { steps_done, model } => samples.push((steps_done, model.clone())),
            _ => {}
        },
    )
    .unwrap();

    let (model_again, rng_again) = new_model();
    let steps = train_loader.len() as u64;
    let config = TrainConfig {
        max_steps: 2 * steps,
        eval_every: Some(1),
        eval_batches: 3,
        sample_every: Some(steps),
        ..TrainConfig::default()
    };
    let mut trainer = Trainer::new(
        config,
        model_again,
        train_loader,
        Some(val_loader),
        rng_again,
    )
    .unwrap();
    let (mut losses_again, mut samples_again) = (Vec::new(), Vec::new());
    let mut numbers = Vec::new();
    let outcome = trainer.run(None, &mut |event| {
        match event {
            Event::Step(step) => losses_again.push(step.loss),
            Event::SampleDue { steps_done, model } => {
                samples_again.push((steps_done, model.clone()));
            }
            Event::Evaluation(e) => {
                numbers.push((e.train_loss, e.val_loss.unwrap(), e.tokens_seen));
            }
            _ => {}
        }
        ControlFlow::Continue(())
    });
    assert_eq!(outcome.unwrap(), Outcome::Finished);
    assert_eq!(losses_again, losses);
    assert!(samples_again == samples && samples.len() == 2);
    let expected: Vec<_> = (history.train_losses.into_iter())
        .zip(history.val_losses)
        .zip(history.track_tokens_seen)
        .map(|((train_loss, val_loss), tokens)| (train_loss, val_loss, tokens))
        .collect();
    assert_eq!(numbers, expected);
    assert!(*trainer.model() == model && *trainer.optimizer() == optimizer);
    assert!(*trainer.rng() == rng);
}

/// The validation loss of a `Trainer` is the mean over all tokens, so a smaller last batch has less
/// influence on it than the other batches. In contrast, the book's function computes the mean over
/// all batches, so all batches have the same influence.
#[test]
fn the_validation_loss_of_a_run_is_the_mean_over_tokens() {
    let corpus = Corpus::from_ids((0..31u32).map(|i| i * i % 13).collect::<Vec<_>>());
    let windows = DataLoaderConfig {
        batch_size: 4,
        max_length: 6,
        stride: 6,
        shuffle: false,
        drop_last: false,
    };
    let validation = DataLoader::new(&corpus, windows).unwrap();
    let (train, _) = loaders();
    let mut rng = TorchRng::manual_seed(123);
    let model = GptModel::new(model_config(), &mut rng).unwrap();
    let losses = validation.epoch(&mut rng).flat_map(|batch| {
        let batch = batch.unwrap();
        model
            .token_losses(&batch.input_ids, &batch.target_ids)
            .unwrap()
    });
    let losses: Vec<f64> = losses.map(f64::from).collect();
    assert_eq!(losses.len(), 30);
    let expected = losses.iter().sum::<f64>() / 30.0;
    let config = TrainConfig {
        eval_batches: 9,
        ..config(1)
    };
    let own_rng = rng.clone();
    let trainer = Trainer::new(config, model, train, Some(validation.clone()), own_rng).unwrap();
    let evaluation = trainer.evaluate(&mut || false).unwrap().unwrap();
    assert!((evaluation.val_loss.unwrap() - expected).abs() < 1e-6);
    let of_batches = calc_loss_loader(&validation, trainer.model(), None, &mut rng).unwrap();
    assert!(
        (of_batches - expected).abs() > 1e-4,
        "{of_batches}, {expected}"
    );
}

/// The expected losses and gradient norms, which were computed with the class `Trainer` of Hugging
/// Face's transformers in the same training run. The script `fixtures/trainer.py` has written them
/// to `trainer.json`.
#[derive(serde::Deserialize)]
struct Logged {
    losses: Vec<f32>,
    grad_norms: Vec<f64>,
}

/// Checks that the losses and the gradient norms of all steps are the same as in a run of Hugging
/// Face's `Trainer`. The training data consists of eleven batches, and the run makes three passes
/// over them. Each step uses four batches, except for the last step of each pass, which uses the
/// remaining three.
#[test]
fn passes_over_the_data_have_the_steps_losses_and_norms_of_transformers_trainer() {
    let logged: Logged = serde_json::from_str(include_str!("fixtures/trainer.json")).unwrap();
    let model_config = GptConfig {
        vocab_size: 61,
        context_length: 16,
        emb_dim: 16,
        n_heads: 2,
        n_layers: 2,
        drop_rates: DropRates::all(0.0),
        qkv_bias: true,
        ..GptConfig::GPT2_124M
    };
    let windows = DataLoaderConfig {
        batch_size: 2,
        max_length: 15,
        stride: 15,
        shuffle: true,
        drop_last: true,
    };
    let ids: Vec<u32> = (0..350).map(|i| i * i % 61).collect();
    let loader = DataLoader::new(&Corpus::from_ids(ids), windows).unwrap();
    assert_eq!(loader.len(), 11);
    let rng = || TorchRng::manual_seed(123);
    let model = GptModel::new(model_config, &mut rng()).unwrap();
    let config = TrainConfig {
        max_steps: 9,
        optimizer: AdamWConfig {
            lr: 1e-2,
            ..AdamWConfig::default()
        },
        max_grad_norm: Some(1.0),
        accumulation: 4,
        whole_epochs: true,
        eval_every: None,
        ..TrainConfig::default()
    };
    let mut trainer = Trainer::new(config, model, loader, None, rng()).unwrap();
    let (steps, _) = finish(&mut trainer, None);
    assert_eq!(steps.len(), logged.losses.len());
    assert_eq!(steps[2].tokens_seen, 22 * 15);
    assert_eq!((steps[8].epoch, steps[8].tokens_seen), (2, 3 * 22 * 15));
    for (i, step) in steps.iter().enumerate() {
        let (loss, norm) = (logged.losses[i], logged.grad_norms[i]);
        assert!((step.loss - loss).abs() < 1e-5, "{step:?}, Trainer {loss}");
        assert!(
            (step.grad_norm / norm - 1.0).abs() < 1e-5,
            "{step:?}, Trainer {norm}"
        );
    }
}
