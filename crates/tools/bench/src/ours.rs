//! The works, as our crates do them: forward passes, training steps, decoding, building a model, encoding text.

use std::cell::RefCell;
use std::hint::black_box;
use std::path::Path;

use anyhow::Context;
use generate::{Decoder, DecoderConfig, Precision, greedy_id};
use gpt::{BatchParts, GptConfig, GptModel};
use ndarray::{Array2, ArrayViewMutD, Axis, s};
use tensor_ops::{KeepBuffers, Parameters};
use tokenizer::{AllowedSpecial, Gpt2Tokenizer};
use torch_rng::{Build, TorchRng};
use train::{AdamW, AdamWConfig};

use crate::floors::Floor;
use crate::peer::Name::{
    self, Candle, LlamaF16, LlamaF32, LlamaQ4, LlamaQ8, Pytorch, Tiktoken, TransformersBf16,
    TransformersF32,
};
use crate::turns::{Bench, Ours};

/// The prompt and what follows it.
const DECODED: (usize, usize) = (16, 128);

/// The two shapes of the model, each with the peers that have it.
pub(crate) const HEADS: [(&str, GptConfig, &[Name]); 2] = [
    ("untied", GptConfig::GPT2_124M, &[Pytorch, Candle]),
    (
        "tied",
        GptConfig {
            tied: true,
            qkv_bias: true,
            ..GptConfig::GPT2_124M
        },
        &[
            TransformersF32,
            TransformersBf16,
            LlamaF32,
            LlamaF16,
            LlamaQ8,
            LlamaQ4,
        ],
    ),
];

/// All rows but those of memory.
pub(crate) fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    for (head, config, peers) in HEADS {
        let wanted = ["forward 1x256", "forward 1x1024", "prefill 1x1024"]
            .map(|work| format!("{work}, {head}"));
        if wanted.iter().any(|work| bench.wants(work)) {
            forward(
                bench,
                head,
                &GptModel::new(config, &mut TorchRng::manual_seed(123))?,
                peers,
            );
        }
        let decode = format!("decode {}+{}, {head}", DECODED.0, DECODED.1);
        if bench.wants(&decode) {
            decoding(
                bench,
                &decode,
                &GptModel::new(config, &mut TorchRng::manual_seed(123))?,
                peers,
            )?;
        }
        for (batch, num_tokens) in [(4, 64), (4, 256), (2, 256)] {
            let work = format!("train {batch}x{num_tokens}");
            let names = ["", ", MKL draws", ", small embeddings"]
                .map(|variant| format!("{work}, {head}{variant}"));
            if names.iter().any(|name| bench.wants(name)) {
                training(bench, (&work, head), (batch, num_tokens), (config, peers))?;
            }
        }
        build(bench, head, config, peers);
    }
    encode(bench)
}

fn forward(bench: &mut Bench, head: &str, model: &GptModel, peers: &[Name]) {
    for (work, num_tokens, last_only) in [
        ("forward 1x256", 256, false),
        ("forward 1x1024", 1024, false),
        ("prefill 1x1024", 1024, true),
    ] {
        let ids = ids(1, num_tokens);
        let step = || {
            let hidden = model
                .forward_hidden(&ids)
                .expect("ids and length suit the model");
            let hidden = if last_only {
                hidden.slice(s![.., -1.., ..])
            } else {
                hidden.view()
            };
            black_box(model.logits(&hidden));
        };
        let positions = if last_only { 1 } else { num_tokens };
        let ours = Ours {
            work: format!("{work}, {head}"),
            precision: "f32",
            step: Box::new(step),
            floor: Some(Floor::Products(operations(model, 1, num_tokens, positions))),
            peers,
        };
        bench.turns(work, (num_tokens as f64, "tokens/s"), vec![ours]);
    }
}

fn decoding(bench: &mut Bench, work: &str, model: &GptModel, peers: &[Name]) -> anyhow::Result<()> {
    let (prompt, new_tokens) = DECODED;
    let prompt: Vec<u32> = ids(1, prompt).into_iter().collect();
    let mut decoders = Vec::new();
    for precision in Precision::ALL {
        let config = DecoderConfig {
            precision,
            ..DecoderConfig::default()
        };
        decoders.push((precision, Decoder::with_config(model, config)?));
    }
    let ours = decoders.iter_mut().map(|(precision, decoder)| Ours {
        work: work.to_owned(),
        precision: match precision {
            Precision::F32 => "f32",
            Precision::F16 => "f16",
            Precision::Bf16 => "bf16",
            Precision::Int8 => "int8",
            Precision::Int4 => "int4",
        },
        // Each token reads every weight once, the prompt's tokens together.
        floor: Some(Floor::Reading(
            decoder.weight_bytes() as f64 * new_tokens as f64,
        )),
        step: Box::new(|| decode(decoder, &prompt, new_tokens)),
        peers,
    });
    let ours = ours.collect();
    bench.turns(
        &format!("decode {}+{}", DECODED.0, DECODED.1),
        (new_tokens as f64, "tokens/s"),
        ours,
    );
    Ok(())
}

fn decode(decoder: &mut Decoder<'_>, prompt: &[u32], new_tokens: usize) {
    let choose =
        |decoder: &Decoder<'_>| greedy_id(&decoder.logits(0)).expect("the logits are finite");
    decoder
        .prompt(&[prompt])
        .expect("the prompt suits the model");
    for _ in 1..new_tokens {
        decoder
            .step(&[choose(decoder)])
            .expect("prompt and text fit the context");
    }
    black_box(choose(decoder));
}

fn training(
    bench: &mut Bench,
    (work, head): (&str, &str),
    (batch, num_tokens): (usize, usize),
    (config, peers): (GptConfig, &[Name]),
) -> anyhow::Result<()> {
    let trainer = RefCell::new(Training::new(config, batch, num_tokens)?);
    // Where the head is tied, logits of N(0, 1) embeddings are peaked as those of a trained model.
    let small = RefCell::new(Training::new(config, batch, num_tokens)?);
    for embedding in ["tok_emb", "pos_emb"] {
        let shrink = &mut |name: String, mut weight: ArrayViewMutD<f32>| {
            if name.starts_with(embedding) {
                weight *= 0.02;
            }
        };
        small.borrow_mut().model.visit_mut("", shrink);
    }
    let operations = trainer.borrow().operations();
    let variants = [
        ("", Build::Portable, &trainer),
        (", MKL draws", Build::Mkl, &trainer),
        (", small embeddings", Build::Portable, &small),
    ];
    let ours = variants.map(|(variant, build, trainer)| {
        let mut rng = TorchRng::manual_seed(1).with_build(build);
        Ours {
            work: format!("{work}, {head}{variant}"),
            precision: "f32",
            step: Box::new(move || trainer.borrow_mut().step(&mut rng)),
            floor: Some(Floor::Products(operations)),
            peers,
        }
    });
    bench.turns(work, ((batch * num_tokens) as f64, "tokens/s"), ours.into());
    Ok(())
}

/// A model in training, on one batch.
pub(crate) struct Training {
    model: GptModel,
    grads: GptModel,
    parts: BatchParts,
    optimizer: AdamW,
    inputs: Array2<u32>,
    targets: Array2<u32>,
    buffers: KeepBuffers,
}

impl Training {
    pub(crate) fn new(config: GptConfig, batch: usize, num_tokens: usize) -> anyhow::Result<Self> {
        let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
        Ok(Self {
            parts: BatchParts::new(&model),
            model,
            grads: GptModel::zeros(config)?,
            optimizer: AdamW::new(AdamWConfig::default(), &config)?,
            buffers: KeepBuffers::new(),
            inputs: ids(batch, num_tokens).mapv(|id| id % config.vocab_size as u32),
            targets: ids(batch, num_tokens).mapv(|id| (id + 1) % config.vocab_size as u32),
        })
    }

    /// Operations of a step's matrix products.
    pub(crate) fn operations(&self) -> f64 {
        let (batch, num_tokens) = self.inputs.dim();
        3.0 * operations(&self.model, batch, num_tokens, num_tokens)
    }

    /// Forward, backward and one update, as a turn of the peers.
    pub(crate) fn step(&mut self, rng: &mut TorchRng) {
        let Self {
            model,
            grads,
            parts,
            optimizer,
            inputs,
            targets,
            buffers,
        } = self;
        let loss = parts
            .loss_and_grads(model, inputs, targets, 1.0, rng, grads)
            .expect("ids and length suit the model");
        optimizer.step(model, grads, 4e-4, 1.0); // leaves the gradients at zero
        buffers.end_step();
        black_box(loss);
    }
}

fn build(bench: &mut Bench, head: &str, config: GptConfig, peers: &[Name]) {
    let step = || {
        let model = GptModel::new(config, &mut TorchRng::manual_seed(123));
        black_box(model.expect("the configuration is valid"));
    };
    let ours = Ours {
        work: format!("build 124M from a seed, {head}"),
        precision: "f32",
        step: Box::new(step),
        floor: None,
        peers: &peers[..1],
    };
    bench.turns("build", (1.0, "models/s"), vec![ours]);
}

fn encode(bench: &mut Bench) -> anyhow::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../cli/data/the-answering-bell.txt");
    let text = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let tokenizer = Gpt2Tokenizer::new();
    let step = || {
        let ids = tokenizer.encode(&text, AllowedSpecial::None);
        black_box(ids.expect("a text without special tokens"));
    };
    let ours = Ours {
        work: "encode text".to_owned(),
        precision: "",
        step: Box::new(step),
        floor: None,
        peers: &[Tiktoken],
    };
    bench.turns(
        &format!("encode {}", path.display()),
        (text.len() as f64 / 1e6, "MB/s"),
        vec![ours],
    );
    Ok(())
}

/// Ids that differ and are the same in every run.
fn ids(batch: usize, num_tokens: usize) -> Array2<u32> {
    Array2::from_shape_fn((batch, num_tokens), |(i, j)| {
        ((i * num_tokens + j) * 7 % 50257) as u32
    })
}

/// Operations of the matrix products of a forward pass: 2 m k n each, attention's masked half not counted.
fn operations(model: &GptModel, batch: usize, num_tokens: usize, positions: usize) -> f64 {
    let config = model.config();
    let blocks: usize = model
        .trf_blocks
        .iter()
        .map(Parameters::num_parameters)
        .sum();
    let head = model.head_weight().len_of(Axis(0)) * config.emb_dim;
    let attention = 2 * config.n_layers * num_tokens * config.emb_dim;
    2.0 * (batch * (num_tokens * blocks + positions * head)) as f64
        + (batch * num_tokens * attention) as f64
}
