//! `gpt info`: the shapes, parameters and memory of a model, without loading or making one.

use std::path::PathBuf;

use anyhow::{Context, Result};
use checkpoint::{CheckpointError, ModelFolder, load_config};
use clap::Args;
use gpt::{GptConfig, thousands};
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
    /// As the argument
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

/// What `--json` prints.
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
    f32: u128,
    f16: u128,
    bf16: u128,
    int8: u128,
    /// Weights, gradients and AdamW's two moments in f32, without activations.
    training: u128,
    /// Keys and values of a full context in f32.
    kv_cache: u128,
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
    let name = asked.unwrap_or(&folder).display().to_string();
    if !args.json {
        ModelName(asked.is_none().then_some(folder)).tell();
    }
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
    let parameters = size.total();
    let weights = parameters as u128;
    let kv_cache = [config.n_layers, config.context_length, config.emb_dim].into_iter();
    let mut kv_cache = kv_cache.map(|size| size as u128);
    let kv_cache = kv_cache.try_fold(8u128, u128::checked_mul);
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
        parameters,
        parameters_without_out_head: size.without_out_head(),
        memory: Memory {
            f32: 4 * weights,
            f16: 2 * weights,
            bf16: 2 * weights,
            int8: weights,
            training: 16 * weights,
            kv_cache: kv_cache.context("a key-value cache of more bytes than can be counted")?,
        },
        tensors: tensors(config),
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
        let parameters = shape.iter().product();
        match name.strip_prefix("trf_blocks.0.") {
            Some(rest) => Tensor {
                name: format!("trf_blocks.{{i}}.{rest}"),
                shape,
                parameters: config.n_layers.saturating_mul(parameters),
            },
            None => Tensor {
                name,
                shape,
                parameters,
            },
        }
    };
    of_one_block.parameters().map(tensor).collect()
}

/// Columns of the words at the beginning of the lines.
const LABEL: usize = 16;

fn lines(report: &Report, config: &GptConfig) -> Vec<String> {
    let Report { memory, .. } = report;
    let mut lines = vec![format!("model           {}", report.name)];
    lines.extend(config.to_string().lines().map(ToOwned::to_owned));
    let size = |size: u128| bytes(size as f64);
    lines.extend([
        String::new(),
        "memory of the weights".to_owned(),
        format!("  f32           {}", size(memory.f32)),
        format!("  f16, bf16     {}", size(memory.bf16)),
        format!("  int8          {}", size(memory.int8)),
        format!(
            "key-value cache {} for a full context in f32",
            size(memory.kv_cache)
        ),
        format!("training        {} and activations", size(memory.training)),
        String::new(),
        format!("tensors (i is 0 to {})", report.n_layers - 1),
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

    #[test]
    fn sizes_beyond_any_memory_are_told_right_or_not_at_all() {
        let long = GptConfig {
            vocab_size: 1,
            context_length: 1 << 40,
            emb_dim: 1,
            n_heads: 1,
            n_layers: 1 << 40,
            ..GptConfig::GPT2_124M
        };
        let told = report("long".into(), &long).unwrap();
        assert_eq!(told.memory.kv_cache, 1 << 83);
        let wide = GptConfig {
            emb_dim: 1 << 40,
            ..long
        };
        assert!(report("wide".into(), &wide).is_err());
    }
}
