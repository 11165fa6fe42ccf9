//! Training steps: GPT-2 124M beside the book's model in PyTorch and GPT2LMHeadModel, and models
//! that a reader trains on a laptop beside nanoGPT's own.

use std::hint::black_box;

use gpt::{BatchParts, DropRates, GptConfig, GptModel};
use ndarray::Array2;
use tensor_ops::KeepBuffers;
use torch_rng::TorchRng;
use train::{AdamW, AdamWConfig};

use crate::floors::Floor;
use crate::inference::{HEADS, ids, operations};
use crate::peer::{Kind, NANO_GPT};
use crate::turns::{Bench, Ours};

/// Batches of GPT-2, and tokens of each of its sequences.
const BATCHES: [(usize, usize); 3] = [(4, 64), (4, 256), (2, 256)];

/// Small models: names, shapes, sequences a step, and dropout.
///
/// nanoGPT's recipe for a CPU as its README has it, and with dropout; its configuration for
/// characters with a quarter of the batch; and the model of plain `gpt train`.
const MODELS: [(&str, GptConfig, usize, f64); 4] = [
    ("nanoGPT for a CPU", CPU, 12, 0.0),
    ("nanoGPT for a CPU, dropout 0.1", CPU, 12, 0.1),
    (
        "nanoGPT on characters",
        shape([65, 256, 384, 6, 6]),
        16,
        0.2,
    ),
    ("story", shape([1221, 64, 192, 4, 2]), 16, 0.2),
];
const CPU: GptConfig = shape([65, 64, 128, 4, 4]);

/// Vocabulary, context, features, heads, layers
const fn shape(sizes: [usize; 5]) -> GptConfig {
    let [vocab_size, context_length, emb_dim, n_heads, n_layers] = sizes;
    GptConfig {
        vocab_size,
        context_length,
        emb_dim,
        n_heads,
        n_layers,
        ..GptConfig::GPT2_124M
    }
}

/// Operations of a turn of a small model at least: most of a second.
const TURN: f64 = 1.6e11;

/// The rows of training.
pub(crate) fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    for (head, config, peers) in HEADS {
        for (batch, num_tokens) in BATCHES {
            let work = format!("train {batch}x{num_tokens}, {head}");
            row(bench, work, config, (batch, num_tokens), 0.0, peers)?;
        }
    }
    for (name, config, batch, drop_rate) in MODELS {
        let config = GptConfig {
            tied: true,
            drop_rates: DropRates::all(drop_rate),
            ..config
        };
        let (work, batch) = (format!("train {name}"), (batch, config.context_length));
        row(bench, work, config, batch, TURN, NANO_GPT)?;
    }
    Ok(())
}

/// A row, whose turns are as many steps as do so many operations, and one at least.
fn row(
    bench: &mut Bench,
    work: String,
    config: GptConfig,
    (batch, num_tokens): (usize, usize),
    turn: f64,
    peers: &[Kind],
) -> anyhow::Result<()> {
    if !bench.wants(&work) {
        return Ok(());
    }
    let mut training = Training::new(config, batch, num_tokens)?;
    let operations = 3.0 * operations(&training.model, batch, num_tokens, num_tokens);
    let steps = (turn / operations).ceil().max(1.0);
    let (c, rate) = (&config, config.drop_rates.emb);
    let sizes = [
        c.vocab_size,
        c.context_length,
        c.emb_dim,
        c.n_heads,
        c.n_layers,
    ];
    let sizes = sizes.map(|size| size.to_string()).join(",");
    let command = format!("train {batch}x{num_tokens} {sizes} {steps} {rate}");
    let ours = Ours {
        work,
        precision: "f32",
        step: Box::new(|| (0..steps as usize).for_each(|_| training.step())),
        floor: Some(Floor::Products(steps * operations)),
        peers,
    };
    let tokens = steps * (batch * num_tokens) as f64;
    bench.turns(&command, (tokens, "tokens/s"), vec![ours]);
    Ok(())
}

/// A model in training, on one batch.
pub(crate) struct Training {
    model: GptModel,
    grads: GptModel,
    parts: BatchParts,
    optimizer: AdamW,
    rng: TorchRng,
    inputs: Array2<u32>,
    targets: Array2<u32>,
    buffers: KeepBuffers,
}

impl Training {
    pub(crate) fn new(config: GptConfig, batch: usize, num_tokens: usize) -> anyhow::Result<Self> {
        let mut rng = TorchRng::manual_seed(123);
        let model = GptModel::new(config, &mut rng)?;
        let ids = ids(batch, num_tokens);
        Ok(Self {
            parts: BatchParts::new(&model),
            grads: GptModel::zeros(config)?,
            optimizer: AdamW::new(AdamWConfig::default(), &model)?,
            model,
            rng,
            inputs: ids.mapv(|id| id % config.vocab_size as u32),
            targets: ids.mapv(|id| (id + 7) % config.vocab_size as u32),
            buffers: KeepBuffers::new(),
        })
    }

    /// Forward, backward and one update, as a turn of the peers.
    pub(crate) fn step(&mut self) {
        let (inputs, targets) = (&self.inputs, &self.targets);
        let loss = self.parts.loss_and_grads(
            &self.model,
            inputs,
            targets,
            1.0,
            &mut self.rng,
            &mut self.grads,
        );
        black_box(loss.expect("ids and length suit the model"));
        self.optimizer.step(&mut self.model, &mut self.grads); // leaves the gradients at zero
        self.buffers.end_step();
    }
}
