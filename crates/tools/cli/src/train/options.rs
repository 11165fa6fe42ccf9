//! The options of `gpt train` as they are said: each a flag, a key of `--config FILE.toml`, and a line of the run's `options.toml`.
//!
//! All are optional, and each value that is there is in its range; what holds where nothing is said is `settings.rs`'s.

use std::fmt::Display;
use std::path::PathBuf;

use clap::Args;
use serde::{Serialize, Serializer};
use torch_rng::Build;

use super::tokenizer::TokenizerChoice;
use crate::numbers::{at_least_1, below_1, not_negative, part};
use crate::presets::Preset;
use crate::threads::parse_threads;

/// What a user says about a training run.
#[derive(Args, Clone, Debug, Default, Serialize)]
#[group(skip)]
pub(crate) struct TrainOptions {
    /// Text (UTF-8) or token ids (.bin, u16) to train on, or a folder of them [default: a story that comes with the program]
    #[arg(long, value_name = "FILE|DIR", help_heading = "Data")]
    pub(crate) data: Option<PathBuf>,
    /// The part of the text that is trained on; the rest validates, unless a folder has its own val.txt or val.bin [default: 0.9]
    #[arg(long, value_name = "X", value_parser = part, help_heading = "Data")]
    pub(crate) train_ratio: Option<f64>,
    /// Tokens in a training window [default: the context length]
    #[arg(long, value_name = "N", value_parser = at_least_1, help_heading = "Data")]
    pub(crate) max_length: Option<usize>,
    /// Tokens between the starts of two windows [default: the window's length, 8 for the story that comes with the program]
    #[arg(long, value_name = "N", value_parser = at_least_1, help_heading = "Data")]
    pub(crate) stride: Option<usize>,

    /// Sizes by name [default: story]
    #[arg(
        long,
        value_name = "NAME",
        value_enum,
        ignore_case = true,
        help_heading = "Model"
    )]
    pub(crate) preset: Option<Preset>,
    /// Where the weights come from: scratch, or a model folder to go on from [default: scratch]
    #[arg(long, value_name = "scratch|DIR", help_heading = "Model")]
    pub(crate) init_from: Option<PathBuf>,
    /// Transformer blocks
    #[arg(
        long,
        value_name = "N",
        visible_alias = "n-layer",
        help_heading = "Model"
    )]
    pub(crate) n_layers: Option<usize>,
    /// Attention heads
    #[arg(
        long,
        value_name = "N",
        visible_alias = "n-head",
        help_heading = "Model"
    )]
    pub(crate) n_heads: Option<usize>,
    /// Features of a token
    #[arg(
        long,
        value_name = "N",
        visible_alias = "n-embd",
        help_heading = "Model"
    )]
    pub(crate) emb_dim: Option<usize>,
    /// The most tokens the model can see
    #[arg(long, value_name = "N", value_parser = at_least_1, visible_alias = "block-size", help_heading = "Model")]
    pub(crate) context_length: Option<usize>,
    /// What the tokens of a new model are: GPT-2's, the data's characters, N byte pairs of the data, or a folder's [default: bpe:1221 for the preset story, gpt2 for the others and for token ids]
    #[arg(long, value_name = "gpt2|chars|bpe:N|DIR", help_heading = "Model")]
    #[serde(serialize_with = "name")]
    pub(crate) tokenizer: Option<TokenizerChoice>,
    /// Tokens in the vocabulary [default: the tokenizer's]
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) vocab_size: Option<usize>,
    /// Dropout rate
    #[arg(long, value_name = "P", value_parser = below_1, visible_alias = "dropout", help_heading = "Model")]
    pub(crate) drop_rate: Option<f64>,
    /// Give query, key and value projections a bias
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Model")]
    pub(crate) qkv_bias: Option<bool>,
    /// Share the token embedding with the output head
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", visible_aliases = ["tie-weights", "weight-tying"], help_heading = "Model")]
    pub(crate) tied: Option<bool>,

    /// Steps to train
    #[arg(long, value_name = "N", value_parser = at_least_1, visible_aliases = ["max-iters", "steps"], help_heading = "Training")]
    pub(crate) max_steps: Option<usize>,
    /// Passes over the data to train, in place of steps
    #[arg(
        long,
        value_name = "N", value_parser = at_least_1,
        visible_alias = "num-epochs",
        conflicts_with = "max_steps",
        help_heading = "Training"
    )]
    pub(crate) epochs: Option<usize>,
    /// Windows in a batch
    #[arg(long, value_name = "N", value_parser = at_least_1, help_heading = "Training")]
    pub(crate) batch_size: Option<usize>,
    /// Batches whose gradients make one step [default: 1]
    #[arg(long, value_name = "N", value_parser = at_least_1, help_heading = "Training")]
    pub(crate) gradient_accumulation_steps: Option<usize>,
    /// Highest learning rate
    #[arg(long, value_name = "X", value_parser = not_negative, visible_alias = "lr", help_heading = "Training")]
    pub(crate) learning_rate: Option<f64>,
    /// Learning rate at the end of the decay
    #[arg(long, value_name = "X", value_parser = not_negative, help_heading = "Training")]
    pub(crate) min_lr: Option<f64>,
    /// Learning rate of the first step of the warmup [default: one warmup step's share of the highest]
    #[arg(long, value_name = "X", value_parser = not_negative, help_heading = "Training")]
    pub(crate) initial_lr: Option<f64>,
    /// Steps in which the learning rate rises
    #[arg(
        long,
        value_name = "N",
        visible_alias = "warmup-iters",
        help_heading = "Training"
    )]
    pub(crate) warmup_steps: Option<usize>,
    /// The step at which the decay ends [default: the last]
    #[arg(
        long,
        value_name = "N", value_parser = at_least_1,
        visible_alias = "lr-decay-iters",
        help_heading = "Training"
    )]
    pub(crate) lr_decay_steps: Option<usize>,
    /// Whether the learning rate decays along a cosine
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Training")]
    pub(crate) decay_lr: Option<bool>,
    /// AdamW's weight decay [default: 0.1]
    #[arg(long, value_name = "X", value_parser = not_negative, help_heading = "Training")]
    pub(crate) weight_decay: Option<f64>,
    /// AdamW's beta 1 [default: 0.9]
    #[arg(long, value_name = "X", value_parser = below_1, help_heading = "Training")]
    pub(crate) beta1: Option<f64>,
    /// AdamW's beta 2 [default: 0.999]
    #[arg(long, value_name = "X", value_parser = below_1, help_heading = "Training")]
    pub(crate) beta2: Option<f64>,
    /// Largest gradient norm; 0 leaves gradients as they are [default: 1]
    #[arg(long, value_name = "X", value_parser = not_negative, help_heading = "Training")]
    pub(crate) grad_clip: Option<f64>,
    /// Where the random numbers start [default: 123]
    #[arg(short = 's', long, value_name = "N", help_heading = "Training")]
    pub(crate) seed: Option<u64>,
    /// The PyTorch build whose dropout is drawn: portable or mkl [default: portable]
    #[arg(long, value_name = "BUILD", help_heading = "Training")]
    #[serde(serialize_with = "name")]
    pub(crate) dropout_build: Option<Build>,

    /// Steps between evaluations
    #[arg(
        long,
        value_name = "N", value_parser = at_least_1,
        visible_alias = "eval-freq",
        help_heading = "Evaluation"
    )]
    pub(crate) eval_interval: Option<usize>,
    /// Batches of each part in an evaluation
    #[arg(
        long,
        value_name = "N", value_parser = at_least_1,
        visible_alias = "eval-iter",
        help_heading = "Evaluation"
    )]
    pub(crate) eval_iters: Option<usize>,
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
    #[arg(long, value_name = "N", help_heading = "Evaluation")]
    pub(crate) sample_tokens: Option<usize>,

    /// Folder for checkpoint, log and loss curve [default: a new one in runs/]
    #[arg(short = 'o', long, value_name = "DIR", help_heading = "Run")]
    #[serde(skip)] // the folder may be moved
    pub(crate) out_dir: Option<PathBuf>,
    /// Steps between checkpoints; one is written at the end anyway [default: every fourth evaluation]
    #[arg(long, value_name = "N", value_parser = at_least_1, help_heading = "Run")]
    pub(crate) save_interval: Option<usize>,
    /// Newest checkpoints to keep; the one with the lowest validation loss stays too [default: 2]
    #[arg(long, value_name = "N", value_parser = at_least_1, help_heading = "Run")]
    pub(crate) keep: Option<usize>,
    /// Steps between lines of progress
    #[arg(long, value_name = "N", value_parser = at_least_1, help_heading = "Run")]
    pub(crate) log_interval: Option<usize>,
    /// Threads to compute with (the results don't depend on it) [default: one for each core]
    #[arg(short = 't', long, value_name = "N", value_parser = parse_threads, help_heading = "Run")]
    pub(crate) threads: Option<usize>,
}

/// A choice by its name.
fn name<S: Serializer>(choice: &Option<impl Display>, to: S) -> Result<S::Ok, S::Error> {
    match choice {
        Some(choice) => to.collect_str(choice),
        None => to.serialize_none(),
    }
}
