//! Checks that a custom training loop can be interrupted and resumed. The loop uses a mix of two
//! data sources, dropout, two groups of parameters with different settings, and a frozen
//! transformer block.
#![allow(clippy::disallowed_methods, reason = "tests write files as they like")]

use std::fs;

use dataloader::{Corpus, DataLoader, DataLoaderConfig, Mix};
use gpt::{GptConfig, GptModel};
use torch_rng::TorchRng;
use train::{AdamW, AdamWConfig, LoopState, Parameters};

const CONFIG: GptConfig = GptConfig {
    vocab_size: 10,
    context_length: 8,
    emb_dim: 8,
    n_heads: 2,
    n_layers: 2,
    ..GptConfig::GPT2_124M
};

type State = LoopState<GptModel, Mix>;

fn is_frozen(name: &str) -> bool {
    name.starts_with("trf_blocks.0.")
}

fn matrices(name: &str, shape: &[usize]) -> bool {
    !is_frozen(name) && shape.len() > 1
}

fn vectors(name: &str, shape: &[usize]) -> bool {
    !is_frozen(name) && shape.len() == 1
}

fn begin() -> State {
    let mut rng = TorchRng::manual_seed(123);
    let mut model = GptModel::new(CONFIG, &mut rng).expect("a valid configuration");
    let decay = AdamWConfig {
        lr: 1e-2,
        ..AdamWConfig::default()
    };
    let none = AdamWConfig {
        weight_decay: 0.0,
        ..decay
    };
    let mut optimizer = |config, group: &dyn Fn(&str, &[usize]) -> bool| {
        AdamW::new(config, &model.select_mut(group)).expect("valid settings")
    };
    let optimizers = vec![optimizer(decay, &matrices), optimizer(none, &vectors)];
    let windows = DataLoaderConfig {
        max_length: 8,
        stride: 8,
        ..DataLoaderConfig::default()
    };
    let loader = |factor| {
        let corpus = Corpus::from_ids((0..200u32).map(|i| i * factor % 10).collect::<Vec<u32>>());
        DataLoader::new(&corpus, windows).expect("enough windows")
    };
    let batches = Mix::new(vec![(loader(1), 0.7), (loader(3), 0.3)]).expect("valid weights");
    LoopState {
        step: 0,
        rng,
        batches,
        model,
        optimizers,
    }
}

/// A custom training loop, whose interruption the tests in this file simulate. Continues the
/// training until `end` steps have been taken, and returns the losses of these steps.
fn train(state: &mut State, end: u64) -> Vec<f32> {
    let mut grads = GptModel::zeros(CONFIG).expect("a valid configuration");
    let mut losses = Vec::new();
    while state.step < end {
        let lr = 1e-2 / (1.0 + state.step as f64);
        let LoopState {
            rng,
            batches,
            model,
            optimizers,
            ..
        } = &mut *state;
        let batch = batches.next_batch(rng).expect("it is in memory");
        let (inputs, targets) = (&batch.input_ids, &batch.target_ids);
        let loss = model.loss_and_grads(inputs, targets, 1.0, rng, &mut grads);
        losses.push(loss.expect("a good batch"));
        optimizers[0].config.lr = lr;
        optimizers[0].step(
            &mut model.select_mut(&matrices),
            &mut grads.select_mut(&matrices),
        );
        optimizers[1].step(
            &mut model.select_mut(&vectors),
            &mut grads.select_mut(&vectors),
        );
        grads.fill_zero(); // also for the frozen block
        state.step += 1;
    }
    losses
}

#[test]
fn a_loop_resumes_with_the_bits_of_an_uninterrupted_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.safetensors");
    let mut state = begin();
    train(&mut state, 7);
    state.save(&path).unwrap();
    train(&mut state, 13);
    state.save(&path).unwrap(); // replaces the first file
    let losses = train(&mut state, 30);

    let mut resumed = begin();
    resumed.load(&path).unwrap();
    assert_eq!(resumed.step, 13);
    assert_eq!(train(&mut resumed, 30), losses);
    assert_eq!(resumed.model, state.model);
    assert_eq!(resumed.optimizers, state.optimizers);
    assert_eq!(
        (resumed.rng, begin().model.trf_blocks[0].clone()),
        (state.rng, state.model.trf_blocks[0].clone())
    );
}

#[test]
fn a_file_of_another_loop_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.safetensors");
    let mut state = begin();
    let error = |state: &mut State| state.load(&path).unwrap_err().to_string();
    state.optimizers.pop();
    state.save(&path).unwrap();
    let message = error(&mut begin());
    assert!(
        message.contains("1 optimizers, but the training loop has 2"),
        "{message}"
    );

    let mut state = begin();
    state.model.trf_blocks.pop();
    state.save(&path).unwrap();
    let message = error(&mut begin());
    assert!(
        message.contains("model.trf_blocks.1.att.W_query.weight"),
        "{message}"
    );

    checkpoint::save_tensors(&path, state.model.named_parameters()).unwrap();
    let message = error(&mut begin());
    assert!(
        message.contains("doesn't contain the state of a training loop"),
        "{message}"
    );
    begin().save(&path).unwrap();
    let text = fs::read(&path).unwrap();
    fs::write(&path, &text[..text.len() / 2]).unwrap();
    error(&mut begin());
    // A save that fails must not change the existing file.
    fs::write(&path, &text).unwrap();
    let mut state = begin();
    state.model.final_norm.scale[0] = f32::NAN;
    state.save(&path).unwrap_err();
    assert!(fs::read(&path).unwrap() == text);
}
