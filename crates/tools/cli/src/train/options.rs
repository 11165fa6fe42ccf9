//! The options of `gpt train`: each a flag, a key of `--config FILE.toml`, and a line of the run's
//! `options.toml`.
//!
//! This is their one description: a preset and a file are flags too (`flags.rs`), before those that
//! are typed, and the last that names an option wins.
//! `None` is what other options or the data decide; `settings.rs` fills it in, and what then stands
//! here is what the run uses and keeps, and what is compared when it goes on.

use std::fmt::Display;
use std::path::PathBuf;

use anyhow::{Result, bail};
use clap::{ArgAction, Args};
use gpt::{DropRates, GptConfig};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value as Json};
use torch_rng::Build;

use super::tokenizer::TokenizerChoice;
use crate::numbers::{at_least_1, below_1, not_negative, part, seed};
use crate::presets::{PRESETS, Preset, Training, training};
use crate::threads::parse_threads;

/// A run: what it reads, the model, how that is trained, and what is shown.
#[derive(Args, Clone, Debug, Serialize)]
#[group(skip)]
pub(crate) struct TrainOptions {
    #[command(flatten, next_help_heading = "Data")]
    #[serde(flatten)]
    pub(crate) data: DataOptions,
    #[command(flatten, next_help_heading = "Model")]
    #[serde(flatten)]
    pub(crate) model: ModelOptions,
    #[command(flatten, next_help_heading = "Training")]
    #[serde(flatten)]
    pub(crate) training: TrainingOptions,
    #[command(flatten, next_help_heading = "Run")]
    #[serde(flatten)]
    pub(crate) free: Free,
    /// Folder for checkpoint, log and loss curve [default: a new one in runs/]
    #[arg(short = 'o', long, value_name = "DIR", help_heading = "Run")]
    #[serde(skip)] // the folder may be moved
    pub(crate) out_dir: Option<PathBuf>,
}

/// What is read, and how it is cut.
#[derive(Args, Clone, Debug, Serialize)]
#[group(skip)]
pub(crate) struct DataOptions {
    /// Text (UTF-8) or token ids to train on, or a folder of them [default: a story that comes with
    /// the program]. Ids are nanoGPT's .bin of u16, llm.c's with its header, or numpy's .npy
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) data: Option<PathBuf>,
    /// The part of the text that is trained on; the rest validates, unless a folder has its own
    /// val.txt or val.bin
    #[arg(long, value_name = "X", value_parser = part, default_value_t = 0.9)]
    pub(crate) train_ratio: f64,
    /// Tokens in a training window [default: the context length; at most 256 with --init-from]
    #[arg(long, value_name = "N", value_parser = at_least_1)]
    pub(crate) max_length: Option<usize>,
    /// Tokens between the starts of two windows [default: the window's length, 8 for the story that
    /// comes with the program]
    #[arg(long, value_name = "N", value_parser = at_least_1)]
    pub(crate) stride: Option<usize>,
}

/// The model's shape and its tokens.
#[derive(Args, Clone, Debug, Serialize)]
#[group(skip)]
pub(crate) struct ModelOptions {
    /// Sizes and training settings by name [default: story]
    #[arg(long, value_name = "NAME", value_enum, ignore_case = true)]
    pub(crate) preset: Option<Preset>,
    /// Where the weights come from: scratch, or a model folder to go on from, with settings for
    /// that [default: scratch]
    #[arg(long, value_name = "scratch|DIR")]
    pub(crate) init_from: Option<PathBuf>,
    /// Transformer blocks
    #[arg(long, value_name = "N", visible_alias = "n-layer")]
    pub(crate) n_layers: usize,
    /// Attention heads
    #[arg(long, value_name = "N", visible_alias = "n-head")]
    pub(crate) n_heads: usize,
    /// Features of a token
    #[arg(long, value_name = "N", visible_alias = "n-embd")]
    pub(crate) emb_dim: usize,
    /// The most tokens the model can see
    #[arg(long, value_name = "N", value_parser = at_least_1, visible_alias = "block-size")]
    pub(crate) context_length: usize,
    /// What the tokens of a new model are: GPT-2's, the data's characters, N byte pairs of the
    /// data, or a folder's [default: bpe:1221 for the preset story, gpt2 for the others and for
    /// token ids]
    #[arg(long, value_name = "gpt2|chars|bpe:N|DIR")]
    #[serde(serialize_with = "name")]
    pub(crate) tokenizer: Option<TokenizerChoice>,
    /// Tokens in the vocabulary [default: the tokenizer's]
    #[arg(long, value_name = "N")]
    pub(crate) vocab_size: Option<usize>,
    /// Dropout rate [default: 0.2 for the preset story, 0.1 for the others, and as it was with
    /// --init-from]
    #[arg(long, value_name = "P", value_parser = below_1, visible_alias = "dropout")]
    pub(crate) drop_rate: Option<f64>,
    /// Give query, key and value projections a bias
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub(crate) qkv_bias: bool,
    /// Share the token embedding with the output head
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", visible_aliases = ["tie-weights", "weight-tying"])]
    pub(crate) tied: bool,
}

/// How the weights change, and when that is measured.
#[derive(Args, Clone, Debug, Serialize)]
#[group(skip)]
pub(crate) struct TrainingOptions {
    /// Passes over the data to train, in place of steps
    #[arg(long, value_name = "N", value_parser = at_least_1, visible_alias = "num-epochs", conflicts_with = "max_steps")]
    pub(crate) epochs: Option<usize>,
    /// Windows in a batch
    #[arg(long, value_name = "N", value_parser = at_least_1)]
    pub(crate) batch_size: usize,
    /// Batches whose gradients make one step
    #[arg(long, value_name = "N", value_parser = at_least_1, default_value_t = 1)]
    pub(crate) gradient_accumulation_steps: usize,
    /// Highest learning rate
    #[arg(long, value_name = "X", value_parser = not_negative, visible_alias = "lr")]
    pub(crate) learning_rate: f64,
    /// Learning rate at the end of the decay [default: a tenth of the highest]
    #[arg(long, value_name = "X", value_parser = not_negative)]
    pub(crate) min_lr: Option<f64>,
    /// Learning rate of the first step of the warmup [default: one warmup step's share of the
    /// highest]
    #[arg(long, value_name = "X", value_parser = not_negative)]
    pub(crate) initial_lr: Option<f64>,
    /// Steps in which the learning rate rises
    #[arg(long, value_name = "N", visible_alias = "warmup-iters")]
    pub(crate) warmup_steps: Option<usize>,
    /// The step at which the decay ends [default: the last]
    #[arg(long, value_name = "N", value_parser = at_least_1, visible_alias = "lr-decay-iters")]
    pub(crate) lr_decay_steps: Option<usize>,
    /// Whether the learning rate decays along a cosine
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_value_t = true, default_missing_value = "true")]
    pub(crate) decay_lr: bool,
    /// AdamW's weight decay
    #[arg(long, value_name = "X", value_parser = not_negative, default_value_t = 0.1)]
    pub(crate) weight_decay: f64,
    /// AdamW's beta 1
    #[arg(long, value_name = "X", value_parser = below_1, default_value_t = 0.9)]
    pub(crate) beta1: f64,
    /// AdamW's beta 2
    #[arg(long, value_name = "X", value_parser = below_1, default_value_t = 0.999)]
    pub(crate) beta2: f64,
    /// Largest gradient norm; 0 leaves gradients as they are
    #[arg(long, value_name = "X", value_parser = not_negative, default_value_t = 1.0)]
    pub(crate) grad_clip: f64,
    /// Where the random numbers start; below 0 as PyTorch counts
    #[arg(short = 's', long, value_name = "N", value_parser = seed, default_value_t = 123)]
    pub(crate) seed: u64,
    /// The PyTorch build whose dropout is drawn: portable or mkl
    #[arg(long, value_name = "BUILD", default_value_t)]
    #[serde(serialize_with = "build")]
    pub(crate) dropout_build: Build,
    /// Steps between evaluations
    #[arg(long, value_name = "N", value_parser = at_least_1, visible_alias = "eval-freq", help_heading = "Evaluation")]
    pub(crate) eval_interval: usize,
    /// Batches of each part in an evaluation
    #[arg(long, value_name = "N", value_parser = at_least_1, visible_alias = "eval-iter", help_heading = "Evaluation")]
    pub(crate) eval_iters: usize,
}

/// What may be other when a run goes on: how long, how fast and what is shown.
#[derive(Args, Clone, Debug, Serialize)]
#[group(skip)]
pub(crate) struct Free {
    /// Steps to train
    // A default that is not shown: `--epochs` takes the place of a preset's.
    #[arg(long, value_name = "N", value_parser = at_least_1, default_value_t = 1000, hide_default_value = true, visible_aliases = ["max-iters", "steps"], help_heading = "Training")]
    pub(crate) max_steps: usize,
    /// Steps between samples of text; 0 for none before the end [default: every second evaluation]
    #[arg(long, value_name = "N", help_heading = "Evaluation")]
    pub(crate) sample_interval: Option<usize>,
    /// What samples of text begin with
    #[arg(
        short = 'p',
        long,
        value_name = "TEXT",
        visible_alias = "start",
        help_heading = "Evaluation"
    )]
    pub(crate) prompt: Option<String>,
    /// Tokens in a sample of text
    #[arg(
        long,
        value_name = "N",
        default_value_t = 40,
        help_heading = "Evaluation"
    )]
    pub(crate) sample_tokens: usize,
    /// Steps between checkpoints; one is written at the end anyway [default: every fourth
    /// evaluation]
    #[arg(long, value_name = "N", value_parser = at_least_1)]
    pub(crate) save_interval: Option<usize>,
    /// Newest checkpoints to keep; the one with the lowest validation loss stays too
    // Two, to have one to go back to if the newest is damaged.
    #[arg(long, value_name = "N", value_parser = at_least_1, default_value_t = 2)]
    pub(crate) keep: usize,
    /// Steps between lines of progress
    #[arg(long, value_name = "N", value_parser = at_least_1, default_value_t = 10)]
    pub(crate) log_interval: usize,
    /// Threads to compute with (the results don't depend on it) [default: one for each core]
    #[arg(short = 't', long, value_name = "N", value_parser = parse_threads)]
    pub(crate) threads: Option<usize>,
}

impl ModelOptions {
    /// The preset that was named, or the default one.
    pub(crate) fn preset(&self) -> Preset {
        self.preset.unwrap_or(PRESETS[0])
    }

    /// The training settings that hold where nothing else is said.
    pub(crate) fn recipe(&self) -> Training {
        training(self.preset, self.init_from.is_some())
    }

    /// The model that is asked for; what no option says is `base`'s.
    pub(crate) fn over(&self, base: GptConfig) -> GptConfig {
        GptConfig {
            vocab_size: self.vocab_size.unwrap_or(base.vocab_size),
            context_length: self.context_length,
            emb_dim: self.emb_dim,
            n_heads: self.n_heads,
            n_layers: self.n_layers,
            drop_rates: self.drop_rate.map_or(base.drop_rates, DropRates::all),
            qkv_bias: self.qkv_bias,
            tied: self.tied,
            ..base
        }
    }
}

/// The options that weights fit, and the dropout rate if it is one: [`ModelOptions::over`] turned
/// round.
pub(crate) fn of_model(model: &GptConfig) -> [(&'static str, Option<String>); 8] {
    let rate = model.drop_rates.common();
    [
        ("vocab_size", Some(model.vocab_size.to_string())),
        ("context_length", Some(model.context_length.to_string())),
        ("emb_dim", Some(model.emb_dim.to_string())),
        ("n_heads", Some(model.n_heads.to_string())),
        ("n_layers", Some(model.n_layers.to_string())),
        ("qkv_bias", Some(model.qkv_bias.to_string())),
        ("tied", Some(model.tied.to_string())),
        ("drop_rate", rate.map(|rate| rate.to_string())),
    ]
}

/// Whether an option is one that other weights would be needed for.
pub(crate) fn is_shape(option: &str) -> bool {
    let shape = of_model(&GptConfig::GPT2_124M);
    option == "tokenizer"
        || shape
            .iter()
            .any(|(name, _)| option == *name && option != "drop_rate")
}

impl TrainOptions {
    /// The options that are set, by name.
    pub(crate) fn to_json(&self) -> Result<Map<String, Json>> {
        match serde_json::to_value(self)? {
            Json::Object(mut all) => {
                all.retain(|_, value| !value.is_null());
                if all.contains_key("epochs") {
                    all.remove("max_steps"); // which the epochs decide
                }
                Ok(all)
            }
            other => bail!("expected options by name, got {other}"),
        }
    }

    /// The options that are set, as a file that `--config` takes.
    pub(crate) fn to_toml(&self) -> Result<String> {
        let mut table = toml::Table::new();
        for (key, value) in self.to_json()? {
            let value = match value.as_u64() {
                // TOML's integers end at 2^63 - 1.
                Some(n) if i64::try_from(n).is_err() => toml::Value::String(n.to_string()),
                _ => toml::Value::try_from(value)?,
            };
            table.insert(key, value);
        }
        Ok(toml::to_string(&table)?)
    }
}

/// A choice by its name.
fn name<S: Serializer>(choice: &Option<impl Display>, to: S) -> Result<S::Ok, S::Error> {
    match choice {
        Some(choice) => to.collect_str(choice),
        None => to.serialize_none(),
    }
}

fn build<S: Serializer>(build: &Build, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(build)
}
