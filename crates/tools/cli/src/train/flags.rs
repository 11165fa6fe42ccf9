//! The options of `gpt train` in flags and files, all optional.
//!
//! A key of a file is a flag's name or one of its other names, with `_` or `-`.
//! Both become a table by the flags' names, whose values are checked; `options.rs` reads it over
//! the defaults.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::{Arg, ArgAction, Args, Command};
use serde::{Deserialize, Serialize};
use toml::Table;
use torch_rng::Build;
use train::Dtype;

use super::choice::TokenizerChoice;
use crate::hints::program;
use crate::ids::{STDIN, read_text};
use crate::numbers::{AtLeast1, Below1, Count, NotNegative, Part, Threads, signed_seed};
use crate::presets::Preset;
use crate::runs::{MOST_OPTIONS_BYTES, kept_path};

/// The two options for the length of a run: the later one counts.
const LENGTH: [&str; 2] = ["max_steps", "epochs"];

/// The options as they are typed; those without a heading are the ones that people set first.
#[derive(Args, Clone, Debug, Default, Serialize, Deserialize)]
#[group(skip)]
#[serde(default)]
pub(crate) struct TrainFlags {
    /// Text, token ids, or a folder of them [default: a story]
    #[arg(long, value_name = "FILE|DIR")]
    data: Option<PathBuf>,
    /// Tokens of a new model [default: the preset's]
    #[arg(long, value_name = "gpt2|chars|bpe:N|DIR")]
    #[serde(with = "text")]
    tokenizer: Option<TokenizerChoice>,
    /// Sizes and training settings by name [default: story]
    #[arg(long, value_name = "NAME", value_enum, ignore_case = true)]
    #[serde(with = "text")]
    preset: Option<Preset>,
    /// Fine-tune a model
    #[arg(long, value_name = "DIR")]
    init_from: Option<PathBuf>,
    /// Steps to train
    #[arg(long, value_name = "N", aliases = ["max-iters", "steps"])]
    max_steps: Option<AtLeast1>,
    /// Passes over the data, instead of steps
    #[arg(
        long,
        value_name = "N",
        alias = "num-epochs",
        conflicts_with = "max_steps"
    )]
    epochs: Option<AtLeast1>,
    /// Windows in a batch
    #[arg(long, value_name = "N")]
    batch_size: Option<AtLeast1>,
    /// Highest learning rate
    #[arg(long, value_name = "X", alias = "lr")]
    learning_rate: Option<NotNegative>,
    /// Seed of the random numbers [default: 123]
    #[arg(short = 's', long, value_name = "N", value_parser = signed_seed)]
    seed: Option<i64>,
    /// Folder of the run [default: a new one in runs/]
    #[arg(short = 'o', long, value_name = "DIR")]
    #[serde(skip_serializing)] // the folder may be moved
    pub(crate) out_dir: Option<PathBuf>,

    /// Part to train on; the rest validates [default: 0.9]
    #[arg(long, value_name = "X", help_heading = "Data")]
    train_ratio: Option<Part>,
    /// Tokens in a window [default: the context length]
    #[arg(long, value_name = "N", help_heading = "Data")]
    max_length: Option<AtLeast1>,
    /// Tokens from window to window [default: max-length]
    #[arg(long, value_name = "N", help_heading = "Data")]
    stride: Option<AtLeast1>,

    /// Transformer blocks
    #[arg(long, value_name = "N", alias = "n-layer", help_heading = "Model")]
    n_layers: Option<Count>,
    /// Attention heads
    #[arg(long, value_name = "N", alias = "n-head", help_heading = "Model")]
    n_heads: Option<Count>,
    /// Features of a token
    #[arg(long, value_name = "N", alias = "n-embd", help_heading = "Model")]
    emb_dim: Option<Count>,
    /// The longest context in tokens
    #[arg(long, value_name = "N", alias = "block-size", help_heading = "Model")]
    context_length: Option<AtLeast1>,
    /// Tokens in the vocabulary [default: the tokenizer's]
    #[arg(long, value_name = "N", help_heading = "Model")]
    vocab_size: Option<Count>,
    /// Dropout rate
    #[arg(long, value_name = "P", alias = "dropout", help_heading = "Model")]
    drop_rate: Option<Below1>,
    /// Add a bias to queries, keys and values
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true, help_heading = "Model")]
    qkv_bias: Option<bool>,
    /// Share the token embedding with the head
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true, aliases = ["tie-weights", "weight-tying"], help_heading = "Model")]
    tied: Option<bool>,

    /// Batches in a step [default: 1]
    #[arg(long, value_name = "N", help_heading = "Training")]
    gradient_accumulation_steps: Option<AtLeast1>,
    /// Steps of rising learning rate
    #[arg(
        long,
        value_name = "N",
        alias = "warmup-iters",
        help_heading = "Training"
    )]
    warmup_steps: Option<Count>,
    /// Learning rate at the end [default: a tenth]
    #[arg(long, value_name = "X", help_heading = "Training")]
    min_lr: Option<NotNegative>,
    /// Weight decay [default: 0.1]
    #[arg(long, value_name = "X", help_heading = "Training")]
    weight_decay: Option<NotNegative>,
    /// AdamW's first beta [default: 0.9]
    #[arg(long, value_name = "X", help_heading = "Training")]
    beta1: Option<Below1>,
    /// AdamW's second beta [default: 0.999]
    #[arg(long, value_name = "X", help_heading = "Training")]
    beta2: Option<Below1>,
    /// Largest gradient norm, 0 for any [default: 1]
    #[arg(long, value_name = "X", help_heading = "Training")]
    grad_clip: Option<NotNegative>,
    /// Operands of the linear layers: float32, bfloat16 [default: float32]
    #[arg(long, value_name = "TYPE", help_heading = "Training")]
    #[serde(with = "text")]
    dtype: Option<Dtype>,
    /// PyTorch build that draws dropout: portable, mkl
    #[arg(long, value_name = "BUILD", help_heading = "Training")]
    #[serde(with = "text")]
    dropout_build: Option<Build>,

    /// Steps between evaluations
    #[arg(
        long,
        value_name = "N",
        alias = "eval-freq",
        help_heading = "Evaluation"
    )]
    eval_interval: Option<AtLeast1>,
    /// Batches of each part in an evaluation
    #[arg(
        long,
        value_name = "N",
        alias = "eval-iter",
        help_heading = "Evaluation"
    )]
    eval_iters: Option<AtLeast1>,
    /// The beginning of samples [default: the data's]
    #[arg(
        short = 'p',
        long,
        value_name = "TEXT",
        alias = "start",
        help_heading = "Evaluation"
    )]
    prompt: Option<String>,
    /// Steps between samples, 0 for the last alone [default: two evaluations]
    #[arg(long, value_name = "N", help_heading = "Evaluation")]
    sample_interval: Option<Count>,
    /// Tokens of a sample, 0 for none [default: 40]
    #[arg(long, value_name = "N", help_heading = "Evaluation")]
    sample_tokens: Option<Count>,

    /// Steps between checkpoints [default: an evaluation]
    #[arg(long, value_name = "N", help_heading = "Run")]
    save_interval: Option<AtLeast1>,
    /// Newest checkpoints to keep, beside the best [default: 2]
    #[arg(long, value_name = "N", help_heading = "Run")]
    keep: Option<AtLeast1>,
    /// Threads to compute with [default: one a core]
    #[arg(short = 't', long, value_name = "N", help_heading = "Run")]
    pub(crate) threads: Option<Threads>,
}

impl TrainFlags {
    /// Reads a file of options.
    ///
    /// # Errors
    /// Names the file, the line or key, and for an unknown key the nearest known one.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = read_text(path, MOST_OPTIONS_BYTES)?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    /// Reads a file's text; its errors don't name the file.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let file: Table = text.parse().map_err(|error: toml::de::Error| {
            let before = error.span().and_then(|span| text.get(..span.start));
            let line = 1 + before.map_or(0, |before| before.matches('\n').count());
            let windows = match error.message().contains("unicode") || text.contains(":\\") {
                true => "; write a Windows path in single quotes: 'C:\\Users\\me'",
                false => "",
            };
            anyhow!("line {line}: {}{windows}", error.message())
        })?;
        let command = Self::augment_args(Command::new("train"));
        let mut named = Table::new();
        for (key, value) in file {
            let name = name_of(&command, &key)?;
            if named.insert(name.clone(), value).is_some() {
                bail!("key {key:?}: {name} is there by another name, expected one of the two");
            }
        }
        if named.contains_key("max_steps") && named.contains_key("epochs") {
            bail!("keys \"max_steps\" and \"epochs\": expected one of the two");
        }
        Ok(named.try_into()?)
    }

    /// The options that are set, by the flags' names with `_`; paths are absolute, because a run
    /// keeps them.
    ///
    /// # Errors
    /// If a path is not UTF-8.
    pub(crate) fn table(&self) -> Result<Table> {
        let mut kept = self.clone();
        let stdin = Path::new(STDIN);
        let paths = [&mut kept.data, &mut kept.init_from].into_iter().flatten();
        for path in paths.filter(|path| *path != stdin) {
            *path = kept_path(path)?;
        }
        if let Some(TokenizerChoice::Folder(path)) = &mut kept.tokenizer {
            *path = kept_path(path)?;
        }
        Ok(Table::try_from(kept)?)
    }
}

/// Merges options over others, which count where these are missing.
pub(crate) fn over(upper: &Table, mut lower: Table) -> Table {
    if LENGTH.iter().any(|name| upper.contains_key(*name)) {
        lower.retain(|name, _| !LENGTH.contains(&name));
    }
    lower.extend(upper.clone());
    lower
}

/// The name of the option that a file's key means.
fn name_of(command: &Command, key: &str) -> Result<String> {
    let flag = key.replace('_', "-");
    let is_meant = |arg: &&Arg| {
        let others = arg.get_all_aliases().unwrap_or_default();
        arg.get_long() == Some(&flag) || others.contains(&flag.as_str())
    };
    match command.get_arguments().find(is_meant) {
        Some(arg) => Ok(arg.get_id().to_string()),
        None => bail!(
            "unknown key {key:?} (see {} train --help: a key is a flag's name)",
            program()
        ),
    }
}

/// Choices by their names, in files as on the command line.
pub(super) mod text {
    use std::fmt::Display;
    use std::str::FromStr;

    use serde::{Deserialize, Deserializer, Serializer, de::Error};

    pub(crate) fn serialize<T: Display, S: Serializer>(
        choice: &Option<T>,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        match choice {
            Some(choice) => to.collect_str(choice),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, T: FromStr<Err: Display>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Option<T>, D::Error> {
        let name = String::deserialize(from)?;
        name.parse().map(Some).map_err(Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Table> {
        TrainFlags::parse(text)?.table()
    }

    #[test]
    fn keys_are_flags_and_their_aliases() {
        let text = "n_embd = 64\r\nn-layer = 3\r\nlr = 1\ndropout_build = 'mkl'\ntied = true\n\
            preset = 'gpt2'\nseed = -1";
        let expected = "emb_dim = 64\nn_layers = 3\nlearning_rate = 1.0\ndropout_build = 'mkl'\n\
            tied = true\npreset = 'gpt2-124m'\nseed = -1";
        assert_eq!(parsed(text).unwrap(), expected.parse().unwrap());
    }

    #[test]
    fn mistakes_are_told_by_key_or_line() {
        for (text, expected) in [
            ("learnign_rate = 1", "unknown key \"learnign_rate\" (see"),
            (
                "n_layers = -1",
                "expected a whole number of at least 0, got -1 in `n_layers`",
            ),
            (
                "n_layers = 1.5",
                "invalid type: floating point `1.5`, expected i64 in `n_layers`",
            ),
            (
                "beta1 = nan",
                "expected at least 0 and below 1, got NaN in `beta1`",
            ),
            ("preset = 'gpt'", "expected one of story, gpt2-124m"),
            (
                "n_layers = 1\nn_layer = 1",
                "key \"n_layers\": n_layers is there by another name",
            ),
            ("epochs = 1\nmax_iters = 1", "\"max_steps\" and \"epochs\""),
            ("a = 1\nb = = 2", "line 2: "),
        ] {
            let error = format!("{:#}", parsed(text).unwrap_err());
            let error = error.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(error.contains(expected), "{text}: {error}");
        }
    }
}
