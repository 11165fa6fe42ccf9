//! Prints the bits of the results of a computation that is large enough to run in several threads.
//! The argument selects the computation: `print-bits forward|train|generate`.
//!
//! Tests run this program with different numbers of threads and require the same output, except for
//! the first line, which contains the number of threads. Most of the other lines contain a name,
//! followed by the bits of a result or a hash of the bits of several results. For `generate`, the
//! output also contains the generated token IDs.

use std::hash::{DefaultHasher, Hash, Hasher};

use generate::generate_text_simple;
use gpt::{DropRates, GptConfig, GptModel};
use ndarray::Array2;
use tensor_ops::Parameters;
use torch_rng::{Build, TorchRng};
use train::{AdamW, AdamWConfig, clip_grad_norm};

/// Configuration of a model that has the same embedding size and number of heads as GPT-2 124M. It
/// has fewer transformer blocks and a smaller vocabulary, which makes the tests faster.
const CONFIG: GptConfig = GptConfig {
    vocab_size: 5003,
    context_length: 256,
    n_layers: 2,
    drop_rates: DropRates::all(0.1),
    ..GptConfig::GPT2_124M
};

/// Vocabulary size of the model that `print-bits train` trains. It is small to make the tests fast,
/// but large enough for many parallel tasks.
const FEW_TOKENS: usize = 1009;

fn main() {
    println!("threads {}", rayon::current_num_threads());
    match std::env::args().nth(1).as_deref() {
        Some("forward") => forward(),
        Some("train") => {
            train_steps(Build::Portable);
            train_steps(Build::Mkl);
        }
        Some("generate") => generate(),
        other => panic!("unknown argument {other:?}; expected forward, train, or generate"),
    }
}

fn forward() {
    let model =
        GptModel::new(CONFIG, &mut TorchRng::manual_seed(123)).expect("a valid configuration");
    for (batch, num_tokens) in [(1, 256), (4, 64), (3, 1)] {
        let logits = model
            .forward(&ids(batch, num_tokens, 1))
            .expect("ids of the vocabulary");
        print_hash(
            &format!("logits of {batch} x {num_tokens}"),
            logits.iter().copied(),
        );
    }
}

fn train_steps(build: Build) {
    let config = GptConfig {
        vocab_size: FEW_TOKENS,
        ..CONFIG
    };
    let mut rng = TorchRng::manual_seed(123).with_build(build);
    let mut model = GptModel::new(config, &mut rng).expect("a valid configuration");
    let mut grads = GptModel::zeros(config).expect("a valid configuration");
    let settings = AdamWConfig {
        lr: 1e-3,
        ..AdamWConfig::default()
    };
    let mut optimizer = AdamW::new(settings, &model).expect("a valid configuration");
    for step in 0..20 {
        grads.fill_zero();
        let (inputs, targets) = (ids(2, 64, step), ids(2, 64, step + 1));
        let loss = model
            .loss_and_grads(&inputs, &targets, 1.0, &mut rng, &mut grads)
            .expect("ids of the vocabulary");
        let norm = clip_grad_norm(&mut grads, 1.0);
        optimizer.step(&mut model, &mut grads);
        println!(
            "{build} step {step}: loss {:08x} norm {:016x}",
            loss.to_bits(),
            norm.to_bits()
        );
    }
    for (name, view) in model.named_parameters() {
        print_hash(&format!("{build} {name}"), view.iter().copied());
    }
}

fn generate() {
    let model =
        GptModel::new(CONFIG, &mut TorchRng::manual_seed(123)).expect("a valid configuration");
    for (name, view) in model.named_parameters() {
        print_hash(&name, view.iter().copied());
    }
    let out = generate_text_simple(&model, ids(2, 5, 3), 20, CONFIG.context_length)
        .expect("ids of the vocabulary");
    println!("{out}");
}

/// Returns token IDs, of shape (batch, num_tokens), that are valid in the vocabularies of both
/// models.
fn ids(batch: usize, num_tokens: usize, seed: usize) -> Array2<u32> {
    Array2::from_shape_fn((batch, num_tokens), |(i, j)| {
        ((i * 7919 + j * 104_729 + seed * 31) % FEW_TOKENS) as u32
    })
}

fn print_hash(name: &str, values: impl Iterator<Item = f32>) {
    let mut hasher = DefaultHasher::new();
    for value in values {
        value.to_bits().hash(&mut hasher);
    }
    println!("{name}: {:016x}", hasher.finish());
}
