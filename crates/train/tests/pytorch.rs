//! Compares the results of AdamW, gradient clipping and the learning rate schedule with the results
//! of PyTorch, which the script `fixtures/pytorch.py` has written to `pytorch.json`.
#![allow(clippy::unwrap_used)] // a test may panic if its preparation fails

mod common;

use gpt::{GptConfig, GptModel};
use serde::Deserialize;
use tensor_ops::Parameters;
use train::{AdamW, AdamWConfig, Schedule, clip_grad_norm};

#[derive(Deserialize)]
struct Fixture {
    n: usize,
    watched: Vec<usize>,
    steps: Vec<Step>,
}

#[derive(Deserialize)]
struct Step {
    lr: f64,
    norm: f64,
    weights: Vec<f32>,
}

/// Sets the weights, or the gradients that are stored in a `GptModel`, to the same numbers as in
/// the script `pytorch.py`. The first `n` elements are set to `f(i)`, where `i` is the index of the
/// element. All other elements are set to 0, so that they don't affect the results.
fn fill(model: &mut GptModel, n: usize, f: impl Fn(usize) -> f32) {
    let mut i = 0;
    model.visit_mut("", &mut |_, mut view| {
        for value in &mut view {
            *value = if i < n { f(i) } else { 0.0 };
            i += 1;
        }
    });
    assert!(i >= n);
}

#[test]
fn thirty_steps_of_adamw_with_clipping_and_warmup_are_pytorchs() {
    let fixture: Fixture = serde_json::from_str(include_str!("fixtures/pytorch.json")).unwrap();
    let n = fixture.n;
    let config = GptConfig {
        emb_dim: 8,
        n_heads: 2,
        ..common::model_config()
    };
    let mut model = GptModel::zeros(config).unwrap();
    let mut grads = GptModel::zeros(config).unwrap();
    let settings = AdamWConfig {
        lr: 1e-2,
        ..AdamWConfig::default()
    };
    let mut optimizer = AdamW::new(settings, &model).unwrap();
    let schedule = Schedule {
        warmup_steps: 6,
        total_steps: 30,
        initial_lr: 1e-4,
        min_lr: 1e-5,
    };
    fill(&mut model, n, |i| {
        ((i * 37 + 11) % 101) as f32 / 64.0 - 50.0 / 64.0
    });
    for (step, expected) in fixture.steps.iter().enumerate() {
        let lr = schedule.learning_rate(step as u64, settings.lr);
        assert!(
            (lr / expected.lr - 1.0).abs() < 1e-12,
            "step {step}: lr {lr}, expected {}",
            expected.lr
        );
        let size = if step % 3 == 0 { 4.0 } else { 0.0078125 };
        fill(&mut grads, n, |i| {
            (((i * 29 + step * 13) % 97) as f32 - 48.0) / 64.0 * size
        });
        let norm = clip_grad_norm(&mut grads, 1.0);
        assert!(
            (norm / expected.norm - 1.0).abs() < 1e-6,
            "step {step}: norm {norm}, expected {}",
            expected.norm
        );
        optimizer.config.lr = lr;
        optimizer.step(&mut model, &mut grads);
        let mut weights = Vec::new();
        model.visit("", &mut |_, view| weights.extend(view.iter().copied()));
        for (&i, &expected) in fixture.watched.iter().zip(&expected.weights) {
            let (got, allowed) = (weights[i], 2e-6 * expected.abs().max(0.1));
            assert!(
                (got - expected).abs() <= allowed,
                "step {step}, weight {i}: {got}, expected {expected}"
            );
        }
    }
}
