//! What is done with GPT-2 124M without training it: building it, reading it from disk, forward
//! passes, decoding.

use std::hint::black_box;

use generate::{Decoder, DecoderConfig, Precision, greedy_id};
use gpt::{GptConfig, GptModel};
use ndarray::{Array2, Axis, s};
use tensor_ops::{KeepBuffers, Parameters, Pooled};
use torch_rng::TorchRng;

use crate::floors::Floor;
use crate::peer::{Kind, TIED, UNTIED};
use crate::turns::{Bench, Ours};

/// The prompt and what follows it.
const DECODED: (usize, usize) = (16, 128);

/// The two shapes of the model, each with the peers that have it.
pub(crate) const HEADS: [(&str, GptConfig, &[Kind]); 2] = [
    ("untied", GptConfig::GPT2_124M, UNTIED),
    (
        "tied",
        GptConfig {
            tied: true,
            qkv_bias: true,
            ..GptConfig::GPT2_124M
        },
        TIED,
    ),
];

/// All rows of inference.
pub(crate) fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    for (head, config, peers) in HEADS {
        let names = [
            format!("forward 1x256, {head}"),
            format!("forward 1x1024, {head}"),
            format!("prefill 1x1024, {head}"),
            format!("decode {}+{}, {head}", DECODED.0, DECODED.1),
        ];
        if names.iter().any(|name| bench.wants(name)) {
            let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
            let [short, long, prefill, decode] = names;
            forward(bench, short, &model, (256, 256), peers);
            forward(bench, long, &model, (1024, 1024), peers);
            forward(bench, prefill, &model, (1024, 1), peers);
            if bench.wants(&decode) {
                decoding(bench, &decode, &model, peers)?;
            }
        }
        let ours = Ours {
            work: format!("build 124M from a seed, {head}"),
            precision: "f32",
            step: Box::new(|| {
                let model = GptModel::new(config, &mut TorchRng::manual_seed(123));
                black_box(model.expect("the configuration is valid"));
            }),
            floor: None,
            peers: &peers[..1],
        };
        bench.turns("build", (1.0, "models/s"), vec![ours]);
    }
    Ok(())
}

/// A forward pass, with the logits of so many last positions.
fn forward(
    bench: &mut Bench,
    work: String,
    model: &GptModel,
    (num_tokens, positions): (usize, usize),
    peers: &[Kind],
) {
    let ids = ids(1, num_tokens);
    // Who goes through many texts keeps the memory of the one before.
    let buffers = KeepBuffers::new();
    let step = move || {
        let hidden = model.forward_hidden(&ids);
        let hidden = Pooled::from(hidden.expect("ids and length suit the model"));
        let last = hidden.slice(s![.., num_tokens - positions.., ..]);
        black_box(Pooled::from(model.logits(&last)));
        buffers.end_step();
    };
    let command = work.split(',').next().unwrap_or_default().to_owned();
    let ours = Ours {
        work,
        precision: "f32",
        step: Box::new(step),
        floor: Some(Floor::Products(operations(model, 1, num_tokens, positions))),
        peers,
    };
    bench.turns(&command, (num_tokens as f64, "tokens/s"), vec![ours]);
}

fn decoding(bench: &mut Bench, work: &str, model: &GptModel, peers: &[Kind]) -> anyhow::Result<()> {
    let (prompt, new_tokens) = DECODED;
    let prompt: Vec<u32> = ids(1, prompt).into_iter().collect();
    let mut decoders = Vec::new();
    for precision in Precision::ALL {
        let config = DecoderConfig {
            precision,
            ..DecoderConfig::default()
        };
        decoders.push((precision.name(), Decoder::with_config(model, config)?));
    }
    let ours = decoders.iter_mut().map(|(precision, decoder)| Ours {
        work: work.to_owned(),
        precision,
        // Each token reads every weight once, the prompt's tokens together.
        floor: Some(Floor::Reading(
            decoder.weight_bytes() as f64 * new_tokens as f64,
        )),
        step: Box::new(|| decode(decoder, &prompt, new_tokens)),
        peers,
    });
    let ours = ours.collect();
    let command = format!("decode {}+{}", DECODED.0, DECODED.1);
    bench.turns(&command, (new_tokens as f64, "tokens/s"), ours);
    Ok(())
}

fn decode(decoder: &mut Decoder<'_>, prompt: &[u32], new_tokens: usize) {
    let choose =
        |decoder: &Decoder<'_>| greedy_id(&decoder.logits(0)).expect("the logits are finite");
    let advance = |decoder: &mut Decoder<'_>| {
        decoder.advance().expect("there is a prompt");
    };
    decoder
        .start(&[prompt])
        .expect("the prompt suits the model");
    advance(decoder);
    for _ in 1..new_tokens {
        decoder
            .push(0, &[choose(decoder)])
            .expect("prompt and text fit the context");
        advance(decoder);
    }
    black_box(choose(decoder));
}

/// Ids that differ and are the same in every run.
pub(crate) fn ids(batch: usize, num_tokens: usize) -> Array2<u32> {
    Array2::from_shape_fn((batch, num_tokens), |(i, j)| {
        ((i * num_tokens + j) * 7 % 50257) as u32
    })
}

/// Operations of the matrix products of a forward pass: 2 m k n each, attention's masked half not
/// counted.
pub(crate) fn operations(
    model: &GptModel,
    batch: usize,
    num_tokens: usize,
    positions: usize,
) -> f64 {
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
