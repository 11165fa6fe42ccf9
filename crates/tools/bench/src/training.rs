//! Measures how long training steps take. When this project trains GPT-2 124M, it is compared with
//! the book's model in PyTorch and with transformers' `GPT2LMHeadModel`. When it trains small
//! models, which can be trained on a laptop, it is compared with nanoGPT.

use std::hint::black_box;

use gpt::{BatchParts, DropRates, GptConfig, GptModel};
use tensor_ops::Dtype;
use torch_rng::TorchRng;
use train::{AdamW, AdamWConfig};

use crate::floors::Floor;
use crate::inference::{HEADS, ids, operations};
use crate::peer::{Kind, NANO_GPT};
use crate::turns::{Bench, Ours};

/// Batch sizes for training GPT-2. Each consists of a number of sequences and a number of tokens
/// per sequence.
const BATCHES: [(usize, usize); 3] = [(4, 64), (4, 256), (2, 256)];

/// Small models to train. Each has a name, dimensions (vocabulary size, context length, embedding
/// dimension, number of heads, number of layers), a number of sequences per step, and a dropout
/// rate.
///
/// The first model is the one that nanoGPT's README recommends for training on a CPU. The second is
/// the same model with dropout. The third is nanoGPT's configuration for character-level models,
/// with a quarter of its batch size. The fourth is the model that `gpt train` trains by default.
const MODELS: [(&str, [usize; 5], usize, f64); 4] = [
    ("nanoGPT for a CPU", CPU, 12, 0.0),
    ("nanoGPT for a CPU, dropout 0.1", CPU, 12, 0.1),
    ("nanoGPT on characters", [65, 256, 384, 6, 6], 16, 0.2),
    ("story", [1221, 64, 192, 4, 2], 16, 0.2),
];
const CPU: [usize; 5] = [65, 64, 128, 4, 4];

/// Minimum number of floating-point operations per measurement of a small model. A measurement
/// consists of as many training steps as are needed to reach this number, and takes nearly a
/// second.
const TURN_OPERATIONS: f64 = 1.6e11;

/// Measures the speed of training and adds the results to the table.
pub(crate) fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    for (head, config, peers) in HEADS {
        for (batch, num_tokens) in BATCHES {
            let work = format!("train {batch}x{num_tokens}, {head}");
            let batch = (batch, num_tokens);
            row(bench, work, config, batch, None, Dtype::Float32, peers)?;
        }
        let batch = BATCHES[1];
        let work = format!("train {}x{}, bf16, {head}", batch.0, batch.1);
        row(bench, work, config, batch, None, Dtype::BFloat16, peers)?;
    }
    for (name, sizes, batch, drop_rate) in MODELS {
        let config = small(sizes, drop_rate);
        let sizes = sizes.map(|size| size.to_string()).join(",");
        let (work, batch) = (format!("train {name}"), (batch, config.context_length));
        row(
            bench,
            work,
            config,
            batch,
            Some(&sizes),
            Dtype::Float32,
            NANO_GPT,
        )?;
    }
    Ok(())
}

/// Returns the configuration of the model that `gpt train` trains by default, and the number of
/// sequences per training step.
pub(crate) fn story() -> (GptConfig, usize) {
    let [.., (_, sizes, batch, drop_rate)] = MODELS;
    (small(sizes, drop_rate), batch)
}

/// Returns the configuration of one of the [`MODELS`].
fn small(sizes: [usize; 5], drop_rate: f64) -> GptConfig {
    let [vocab_size, context_length, emb_dim, n_heads, n_layers] = sizes;
    GptConfig {
        vocab_size,
        context_length,
        emb_dim,
        n_heads,
        n_layers,
        tied: true,
        drop_rates: DropRates::all(drop_rate),
        ..GptConfig::GPT2_124M
    }
}

/// Measures training steps and adds a row to the table. If `sizes` is given, a small model is
/// trained, and each measurement consists of as many steps as are needed for [`TURN_OPERATIONS`]
/// operations. Otherwise, GPT-2 is trained, and each measurement is a single step.
fn row(
    bench: &mut Bench,
    work: String,
    config: GptConfig,
    (batch, num_tokens): (usize, usize),
    sizes: Option<&str>,
    dtype: Dtype,
    peers: &[Kind],
) -> anyhow::Result<()> {
    if !bench.wants(&work) {
        return Ok(());
    }
    let mut rng = TorchRng::manual_seed(123);
    let mut model = GptModel::new(config, &mut rng)?;
    model.set_dtype(dtype)?;
    let mut grads = GptModel::zeros(config)?;
    let mut parts = BatchParts::new(&model);
    let mut optimizer = AdamW::new(AdamWConfig::default(), &model)?;
    let (ids, vocab_size) = (ids(batch, num_tokens), config.vocab_size as u32);
    let [inputs, targets] = [0, 7].map(|add| ids.mapv(|id| (id + add) % vocab_size));
    let operations = 3.0 * operations(&model, (batch, num_tokens), num_tokens);
    let (mut steps, mut command) = (1, format!("train {batch}x{num_tokens}"));
    if let Some(sizes) = sizes {
        steps = (TURN_OPERATIONS / operations).ceil() as usize;
        command += &format!(" {sizes} {steps} {}", config.drop_rates.emb);
    }
    // Measure complete training steps. As in the programs that this project is compared with, a
    // training step consists of the forward pass, the backward pass, and one update of the weights.
    let mut step = || {
        let (model, grads) = (&mut model, &mut grads);
        let loss = parts.loss_and_grads(model, &inputs, &targets, 1.0, &mut rng, grads);
        black_box(loss.expect("ids and length suit the model"));
        optimizer.step(model, grads); // also sets the gradients to zero
    };
    let operations = steps as f64 * operations;
    let floor = match dtype {
        Dtype::BFloat16 => Floor::Bf16Products(operations),
        _ => Floor::Products(operations),
    };
    let ours = Ours {
        work,
        precision: dtype.short_name(),
        step: Box::new(|| (0..steps).for_each(|_| step())),
        floor: Some(floor),
        peers,
    };
    let tokens = (steps * batch * num_tokens) as f64;
    bench.turns(&command, (tokens, "tokens/s"), vec![ours]);
    Ok(())
}
