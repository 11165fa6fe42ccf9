//! `gpt info`: the shapes, parameters and memory of a model, without loading or making one.

use std::path::PathBuf;

use anyhow::Result;
use checkpoint::{CheckpointError, ModelFolder, load_config};
use clap::Args;
use generate::Precision;
use gpt::{GptConfig, GptError, thousands};
use serde::Serialize;

use crate::model::{self, ModelName};
use crate::numbers::bytes;
use crate::output::{print_folded, print_json};
use crate::presets::Preset;

#[derive(Args, Debug)]
pub(crate) struct InfoArgs {
    /// A model folder, its config.json, or a run [default: the newest run in runs/]
    #[arg(value_name = "MODEL")]
    model: Option<PathBuf>,
    /// The same as the argument
    #[arg(
        short = 'm',
        long = "model",
        value_name = "DIR",
        conflicts_with = "model",
        id = "model-flag"
    )]
    model_flag: Option<PathBuf>,
    /// A model by name in place of a folder
    #[arg(long, value_name = "NAME", value_enum, ignore_case = true, conflicts_with_all = ["model", "model-flag"])]
    preset: Option<Preset>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// One weight.
#[derive(Serialize)]
struct Tensor {
    name: String,
    shape: Vec<usize>,
    parameters: usize,
}

/// The object that `--json` prints.
#[derive(Serialize)]
struct Report {
    name: String,
    vocab_size: usize,
    context_length: usize,
    emb_dim: usize,
    n_heads: usize,
    n_layers: usize,
    hidden_dim: usize,
    /// Null if it differs from site to site.
    drop_rate: Option<f64>,
    qkv_bias: bool,
    tied: bool,
    parameters: usize,
    parameters_without_out_head: usize,
    memory: Memory,
    tensors: Vec<Tensor>,
}

/// Bytes.
#[derive(Serialize)]
struct Memory {
    f32: u64,
    f16: u64,
    bf16: u64,
    int8: u64,
    int4: u64,
    /// Training on one window at a time.
    training: u64,
    /// Keys and values of a full context in f32.
    kv_cache: u64,
}

pub(crate) fn run(args: &InfoArgs) -> Result<()> {
    let asked = args.model.as_deref().or(args.model_flag.as_deref());
    if let Some(preset) = args.preset {
        return show(args, preset.name().to_owned(), &preset.model);
    }
    let path = model::asked(asked)?;
    let (config, folder) = model::read(&path, |folder| {
        match ModelFolder::open(folder) {
            Ok(model) => Ok(*model.config()),
            // A configuration without weights is a model that may be.
            Err(CheckpointError::Folder { .. }) => Ok(load_config(folder)?),
            Err(error) => Err(error.into()),
        }
    })?;
    ModelName::of(asked, &folder).tell();
    let name = asked.unwrap_or(&folder).display().to_string();
    show(args, name, &config)
}

fn show(args: &InfoArgs, name: String, config: &GptConfig) -> Result<()> {
    let report = report(name, config)?;
    match args.json {
        true => print_json(&report),
        false => Ok(print_folded(lines(&report, config), LABEL)?),
    }
}

fn report(name: String, config: &GptConfig) -> Result<Report> {
    let size = config.size()?;
    Ok(Report {
        name,
        vocab_size: config.vocab_size,
        context_length: config.context_length,
        emb_dim: config.emb_dim,
        n_heads: config.n_heads,
        n_layers: config.n_layers,
        hidden_dim: config.feed_forward_dim(),
        drop_rate: config.drop_rates.common(),
        qkv_bias: config.qkv_bias,
        tied: config.tied,
        parameters: size.total(),
        parameters_without_out_head: size.without_out_head(),
        memory: memory(config)?,
        tensors: tensors(config),
    })
}

/// The memory of uses of a model, as the commands count it before they begin.
fn memory(config: &GptConfig) -> Result<Memory, GptError> {
    let decoding = |precision: Precision| precision.weight_bytes(config) as u64;
    let tokens = config.context_length;
    Ok(Memory {
        f32: config.weights_memory()?.total(),
        f16: decoding(Precision::F16),
        bf16: decoding(Precision::Bf16),
        int8: decoding(Precision::Int8),
        int4: decoding(Precision::Int4),
        training: config.training_memory(1, tokens)?.total(),
        kv_cache: config.decoding_memory(1, tokens)?.parts()[0].1,
    })
}

/// The book's names and shapes, those of one block standing for all: `trf_blocks.{i}` is as often
/// there as there are layers.
fn tensors(config: &GptConfig) -> Vec<Tensor> {
    let of_one_block = GptConfig {
        n_layers: 1,
        ..*config
    };
    let tensor = |(name, shape): (String, Vec<usize>)| {
        let times = match name.starts_with("trf_blocks.0.") {
            true => config.n_layers,
            false => 1,
        };
        Tensor {
            name: name.replacen("trf_blocks.0.", "trf_blocks.{i}.", 1),
            parameters: shape.iter().product::<usize>().saturating_mul(times),
            shape,
        }
    };
    of_one_block.parameters().map(tensor).collect()
}

/// Columns of the words at the beginning of the lines.
const LABEL: usize = 16;

fn lines(report: &Report, config: &GptConfig) -> Vec<String> {
    let Report { memory, .. } = report;
    let size = |size: u64| bytes(size as f64);
    let mut lines = vec![format!("model           {}", report.name)];
    lines.extend(config.to_string().lines().map(ToOwned::to_owned));
    lines.extend([
        format!(
            "memory          {} of weights in f32, {} in int8; keys and values of a full context {}",
            size(memory.f32),
            size(memory.int8),
            size(memory.kv_cache)
        ),
        format!("training        {} for one window", size(memory.training)),
        format!("tensors         i is 0 to {}", report.n_layers - 1),
    ]);
    lines.extend(report.tensors.iter().map(|tensor| {
        let (shape, parameters) = (format!("{:?}", tensor.shape), thousands(tensor.parameters));
        format!("  {:<34} {shape:<16} {parameters:>13}", tensor.name)
    }));
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tensors_add_up_to_the_parameters_of_the_book() {
        let config = GptConfig {
            tied: true,
            qkv_bias: true,
            ..GptConfig::GPT2_124M
        };
        let report = report("small".into(), &config).unwrap();
        let sum: usize = report.tensors.iter().map(|tensor| tensor.parameters).sum();
        assert_eq!(sum, report.parameters);
    }
}
