//! Tests that models with different number formats can share a thread pool without affecting each
//! other's results.
//!
//! While a thread of the pool waits for one task to finish, it may execute a different task, which
//! may belong to a different model. If the number format were stored in a thread-local variable,
//! matrix products could therefore use the number format of the wrong model.
//!
//! The environment variable `SHARED_POOL_TRIES` determines how often each task is repeated for each
//! size of the pool. The default is 20.

#![allow(clippy::unwrap_used, reason = "helpers of a test")]

use std::sync::atomic::{AtomicBool, Ordering};

use generate::Decoder;
use gpt::{BatchParts, DropRates, GptConfig, GptModel};
use ndarray::Array2;
use tensor_ops::Dtype;
use torch_rng::TorchRng;

fn model(context_length: usize, dtype: Dtype) -> GptModel {
    let config = GptConfig {
        vocab_size: 61,
        context_length,
        emb_dim: 32,
        n_heads: 8,
        n_layers: 2,
        drop_rates: DropRates::all(0.1),
        ..GptConfig::GPT2_124M
    };
    let mut model = GptModel::new(config, &mut TorchRng::manual_seed(1)).unwrap();
    model.set_dtype(dtype).unwrap();
    model
}

fn ids(batch: usize, num_tokens: usize) -> Array2<u32> {
    Array2::from_shape_fn((batch, num_tokens), |(i, j)| {
        (i as u32 * 37 + j as u32 * 11) % 61
    })
}

fn bits<'a>(numbers: impl IntoIterator<Item = &'a f32>) -> Vec<u32> {
    numbers.into_iter().map(|x| x.to_bits()).collect()
}

/// Computes the logits of a fixed input with a forward pass in training mode, which includes
/// dropout. Returns their bit patterns, so that a test can check whether two results are exactly
/// equal.
fn forward(model: &GptModel) -> Vec<u32> {
    let (logits, _) = model
        .forward_train(&ids(1, 60), &mut TorchRng::manual_seed(2))
        .unwrap();
    bits(&logits)
}

/// Computes the logits that follow a fixed prompt with a decoder. Returns their bit patterns, so
/// that a test can check whether two results are exactly equal.
fn decode(model: &GptModel) -> Vec<u32> {
    let mut decoder = Decoder::new(model.clone());
    decoder.start(&(0..60).collect::<Vec<u32>>()).unwrap();
    bits(decoder.advance().unwrap())
}

/// Returns the bit patterns of the loss and of one gradient that a training step computes.
fn step(model: &GptModel) -> Vec<u32> {
    let mut grads = GptModel::zeros(model.config()).unwrap();
    let mut rng = TorchRng::manual_seed(3);
    let ids = ids(2, 40);
    let loss = model.loss_and_grads(&ids, &ids, 1.0, &mut rng, &mut grads);
    let mut all = vec![loss.unwrap().to_bits()];
    all.extend(bits(&grads.trf_blocks[0].ff.expand.weight));
    all
}

/// A computation that the tests perform with a model, such as a training step. It consists of its
/// name, which is shown if a test fails, and of a function that returns the bit patterns of the
/// results.
type Task = (&'static str, fn(&GptModel) -> Vec<u32>);

const TASKS: [Task; 3] = [
    ("forward_train", forward),
    ("a decoder", decode),
    ("a training step", step),
];

fn tries() -> usize {
    let tries = std::env::var("SHARED_POOL_TRIES");
    tries.map_or(20, |tries| tries.parse().expect("a number of attempts"))
}

#[test]
fn a_result_is_the_same_inside_and_outside_of_the_pool() {
    for threads in [1, 2, 3, 4, 8] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.unwrap();
        for dtype in [Dtype::Float32, Dtype::BFloat16] {
            let model = model(64, dtype);
            for (name, task) in TASKS {
                let inside = pool.install(|| task(&model));
                assert!(
                    task(&model) == inside,
                    "{name} in {dtype}, {threads} threads"
                );
            }
        }
    }
}

#[test]
fn float32_models_beside_bfloat16_training_keep_their_bits() {
    let asked = &model(64, Dtype::Float32);
    let expected = TASKS.map(|(_, task)| task(asked));
    let in_bf16 = TASKS.map(|(_, task)| task(&model(64, Dtype::BFloat16)));
    // Check that training and the forward pass have different results in bf16 than in f32.
    // Otherwise, the test couldn't detect that a computation uses the wrong number format. The
    // decoder (index 1) isn't checked, because it ignores the model's number format for training.
    assert!(expected[0] != in_bf16[0] && expected[2] != in_bf16[2]);
    let (trained, ids) = (&model(256, Dtype::BFloat16), &ids(2, 256));
    for threads in [2, 3, 4, 8] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let (pool, stop) = (&pool.unwrap(), &AtomicBool::new(false));
        std::thread::scope(|scope| {
            for in_parts in [false, true] {
                scope.spawn(move || {
                    let mut parts = BatchParts::new(trained);
                    let mut rng = TorchRng::manual_seed(9);
                    let mut grads = GptModel::zeros(trained.config()).unwrap();
                    while !stop.load(Ordering::Relaxed) {
                        let (rng, grads) = (&mut rng, &mut grads);
                        let loss = pool.install(|| match in_parts {
                            true => parts.loss_and_grads(trained, ids, ids, 1.0, rng, grads),
                            false => trained.loss_and_grads(ids, ids, 1.0, rng, grads),
                        });
                        loss.unwrap();
                    }
                });
            }
            for attempt in 0..tries() {
                for ((name, task), expected) in TASKS.iter().zip(&expected) {
                    let found = match attempt % 2 {
                        0 => pool.install(|| task(asked)),
                        _ => pool.scope(|_| task(asked)),
                    };
                    if found != *expected {
                        stop.store(true, Ordering::Relaxed);
                        panic!(
                            "{name} with {threads} threads, attempt {attempt}: the result is different while the same threads also train a model in bf16"
                        );
                    }
                }
            }
            stop.store(true, Ordering::Relaxed);
        });
    }
}
