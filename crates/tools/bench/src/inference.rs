//! Measures GPT-2 124M without training it: building the model, loading it from disk, forward
//! passes, and decoding.

use std::hint::black_box;

use checkpoint::ModelFolder;
use generate::{
    AsWeights, Decoder, DecoderState, DecoderWeights, GenerateOptions, Sampling, StreamEvent,
    TokenStreams, step_bytes,
};
use gpt::{GptConfig, GptModel};
use ndarray::{Array2, Axis, array, s};
use tensor_ops::engine::Pooled;
use tensor_ops::{Dtype, Parameters};
use torch_rng::TorchRng;

use crate::floors::Floor;
use crate::peer::{Kind, TIED, UNTIED};
use crate::turns::{Bench, Ours};

/// Forward passes to measure. Each has a name and a number of tokens. The last element is the
/// number of positions, counted from the end of the sequence, for which logits are computed. For
/// example, only the logits of the last position are needed to continue a prompt.
const PASSES: [(&str, usize, usize); 3] = [
    ("forward 1x256", 256, 256),
    ("forward 1x1024", 1024, 1024),
    ("prefill 1x1024", 1024, 1),
];

/// Number of prompt tokens and number of generated tokens in each decoding workload.
const DECODED: (usize, usize) = (16, 128);

/// Numbers of sequences that the decoding benchmarks decode together. Each number defines a
/// separate workload.
const TEXTS: [usize; 5] = [2, 4, 8, 16, 64];

/// A variant of GPT-2 124M, described by its name, its configuration, and the peers that implement
/// it. In the variant "tied", the output head and the token embedding share their weights. In the
/// variant "untied", they have separate weights.
type Head = (&'static str, GptConfig, &'static [Kind]);

/// The two variants of GPT-2 124M that are measured.
pub(crate) const HEADS: [Head; 2] = [
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

/// Measures the speed of inference and adds the results to the table.
pub(crate) fn measure(bench: &mut Bench) -> anyhow::Result<()> {
    for of in HEADS {
        let (head, config, peers) = of;
        let decodes = decoded_texts(of).next();
        if bench.alone && decodes.is_some_and(|(_, work, _)| work == bench.filter) {
            return decode_int8(config);
        }
        let commands = PASSES.iter().map(|pass| pass.0);
        let commands = commands.chain(["prefill 1x1024, decoder"]);
        let mut works: Vec<String> = commands.map(|it| format!("{it}, {head}")).collect();
        works.extend(decoded_texts(of).map(|(_, work, _)| work));
        if bench.wants_any(&works) {
            let mut model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
            for pass in PASSES {
                forward(bench, of, &mut model, pass);
            }
            prompts(bench, of, &model)?;
            decoding(bench, of, &model)?;
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
    loading(bench)
}

/// Measures one of the [`PASSES`] in bf16 and in f32.
fn forward(bench: &mut Bench, of: Head, model: &mut GptModel, pass: (&str, usize, usize)) {
    let ((head, _, peers), (command, num_tokens, positions)) = (of, pass);
    let ids = ids(1, num_tokens);
    let step = |model: &GptModel| {
        let hidden = model.forward_hidden(&ids);
        let hidden = Pooled::from(hidden.expect("ids and length suit the model"));
        let last = hidden.slice(s![.., num_tokens - positions.., ..]);
        black_box(model.logits(&last));
    };
    let operations = operations(&*model, (1, num_tokens), positions);
    // In each call of `turns`, all variants of a workload are compared with the same peak speed of
    // the machine. The peak speeds differ between products of f32 matrices and products of bf16
    // matrices, so each number format needs a call of its own.
    for (dtype, floor) in [
        (Dtype::BFloat16, Floor::Bf16Products(operations)),
        (Dtype::Float32, Floor::Products(operations)),
    ] {
        model.set_dtype(dtype).expect("a format of operands");
        let ours = Ours {
            work: format!("{command}, {head}"),
            precision: dtype.short_name(),
            step: Box::new(|| step(model)),
            floor: Some(floor),
            peers,
        };
        bench.turns(command, (num_tokens as f64, "tokens/s"), vec![ours]);
    }
}

/// Measures how fast a [`Decoder`] processes a prompt of 1,024 tokens. Adds a row to the table for
/// each number format.
fn prompts(bench: &mut Bench, of: Head, model: &GptModel) -> anyhow::Result<()> {
    let ((head, _, peers), command) = (of, "prefill 1x1024");
    let work = format!("{command}, decoder, {head}");
    if !bench.wants(&work) {
        return Ok(());
    }
    let prompt: Vec<u32> = ids(1, 1024).into_iter().collect();
    for &dtype in Dtype::ALL {
        let mut decoder = Decoder::new(DecoderWeights::new(model, dtype)?);
        let ours = Ours {
            work: work.clone(),
            precision: dtype.short_name(),
            step: Box::new(|| {
                decoder.start(&prompt).expect("a prompt of known ids");
                black_box(decoder.advance().expect("its logits"));
            }),
            floor: None,
            peers,
        };
        bench.turns(command, (prompt.len() as f64, "tokens/s"), vec![ours]);
    }
    Ok(())
}

/// Returns the decoding workloads for a variant of GPT-2. Each consists of the number of sequences
/// that are decoded together, the name under which the results appear in the table, and the command
/// that tells a peer (a competing program) to execute the workload. Several sequences are decoded
/// together only if the output head is tied.
fn decoded_texts((head, config, _): Head) -> impl Iterator<Item = (usize, String, String)> {
    let command = format!("decode {}+{}", DECODED.0, DECODED.1);
    let one = (1, format!("{command}, {head}"), command.clone());
    let several = TEXTS.into_iter().filter(move |_| config.tied);
    let several = several.map(move |texts| {
        let work = format!("{command}, {texts} texts");
        (texts, work, format!("{command} {texts}"))
    });
    std::iter::once(one).chain(several)
}

/// Measures how many tokens per second the model generates, both for a single sequence and for
/// several sequences that are decoded together. In the second case, the tokens of all sequences are
/// counted. Adds a row to the table for each workload and number format.
fn decoding(bench: &mut Bench, of: Head, model: &GptModel) -> anyhow::Result<()> {
    let rows = decoded_texts(of).filter(|(_, work, _)| bench.wants(work));
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return Ok(());
    }
    let mut formats = Vec::new();
    for &dtype in Dtype::ALL {
        formats.push((dtype, DecoderWeights::new(model, dtype)?));
    }
    let (_, config, peers) = of;
    let (prompt, new_tokens) = DECODED;
    for (texts, work, command) in rows {
        let prompts = &ids(texts, prompt);
        let ours = formats.iter().map(|(dtype, weights)| Ours {
            work: work.clone(),
            precision: dtype.short_name(),
            // The minimum time for decoding is the time for reading the weights from memory. Each
            // step of the decoder reads every weight once, regardless of how many sequences are
            // decoded. The first step also processes all tokens of the prompts, so there is one
            // step for each new token.
            floor: Some(Floor::Reading(
                (step_bytes(*dtype, &config) * new_tokens) as f64,
            )),
            step: Box::new(move || decode(weights, prompts, new_tokens)),
            peers,
        });
        let amount = ((texts * new_tokens) as f64, "tokens/s");
        bench.turns(&command, amount, ours.collect());
    }
    Ok(())
}

/// Decodes text with int8 weights, so that the peak memory of the process can be measured. The
/// weights are created in the same way as when a model is loaded from disk: only one matrix at a
/// time is in memory as f32, so the peak memory doesn't include a complete copy in f32.
fn decode_int8(model: GptConfig) -> anyhow::Result<()> {
    let weights = DecoderWeights::read(&model, Dtype::Int8, |_, _, rows| {
        rows.fill(0.01);
        Ok::<(), anyhow::Error>(())
    })?;
    decode(weights, &ids(1, DECODED.0), DECODED.1);
    Ok(())
}

/// Continues each prompt with the most probable tokens, in the same way as `gpt generate` does.
/// `prompts` has shape (sequences, tokens).
fn decode(weights: impl AsWeights, prompts: &Array2<u32>, max_new_tokens: usize) {
    let mut streams = TokenStreams::new(weights);
    for prompt in prompts.rows() {
        let options = GenerateOptions {
            sampling: Sampling::GREEDY,
            max_new_tokens,
            stop_ids: Vec::new(),
        };
        let (state, rng) = (DecoderState::default(), TorchRng::manual_seed(123));
        let added = streams.add(state, &prompt.to_vec(), options, rng);
        added.expect("the prompt and the options suit the model");
    }
    while !streams.is_empty() {
        for (_, event) in streams.step() {
            if let StreamEvent::Ended(text) = event {
                text.reason.expect("the logits are finite");
            }
        }
    }
}

/// Measures how long `gpt generate` takes to print the first token. During this time, the program
/// loads a model from disk and computes one token. The model is GPT-2 124M with a tied head, in
/// f32. Its file is in the operating system's page cache, because the workload is executed once
/// before it is timed.
fn loading(bench: &mut Bench) -> anyhow::Result<()> {
    /// Token IDs of the prompt.
    const PROMPT: [u32; 4] = [15496, 11, 314, 716];
    let work = "load 124M and one token, tied".to_owned();
    if !bench.wants(&work) {
        return Ok(());
    }
    let folder = tempfile::tempdir()?;
    let [_, (_, config, peers)] = HEADS;
    let model = GptModel::new(config, &mut TorchRng::manual_seed(123))?;
    let tokens = checkpoint::SpecialTokens::default();
    checkpoint::save_hugging_face(&model, folder.path(), Dtype::Float32, &tokens)?;
    drop(model);
    let ours = Ours {
        work,
        precision: "f32",
        step: Box::new(|| {
            let model = ModelFolder::open(folder.path()).expect("a folder just written");
            let weights =
                DecoderWeights::read(&model.config(), Dtype::Float32, |name, rows, out| {
                    model
                        .read_rows(name, rows, out)
                        .map_err(anyhow::Error::from)
                });
            decode(weights.expect("readable weights"), &array![PROMPT], 1);
        }),
        floor: None,
        peers,
    };
    let command = format!("load {}", folder.path().display());
    bench.turns(&command, (1.0, "per s"), vec![ours]);
    Ok(())
}

/// Returns token IDs of shape (batch, num_tokens) for use in a benchmark. The IDs vary from
/// position to position, but each call with the same shape returns the same IDs.
pub(crate) fn ids(batch: usize, num_tokens: usize) -> Array2<u32> {
    Array2::from_shape_fn((batch, num_tokens), |(i, j)| {
        ((i * num_tokens + j) * 7 % 50257) as u32
    })
}

/// Returns the number of floating-point operations in the matrix products of a forward pass. The
/// pass computes the logits of `positions` positions per sequence. A product of an m x k matrix and
/// a k x n matrix counts as 2 m k n operations. Attention scores that the causal mask removes
/// aren't counted.
pub(crate) fn operations(
    model: &GptModel,
    (batch, num_tokens): (usize, usize),
    positions: usize,
) -> f64 {
    let config = model.config();
    let blocks = model.trf_blocks.iter().map(Parameters::num_parameters);
    let blocks: usize = blocks.sum();
    let head = model.head_weight().len_of(Axis(0)) * config.emb_dim;
    let attention = 2 * config.n_layers * num_tokens * config.emb_dim;
    2.0 * (batch * (num_tokens * blocks + positions * head)) as f64
        + (batch * num_tokens * attention) as f64
}
