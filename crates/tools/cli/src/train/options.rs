//! The options of `gpt train`: each with its help, its values and its default in one place.
//!
//! A preset, a file and the command line each give a table of options by name; they are laid over
//! each other, and one struct is read from the result. The run uses it, keeps it in its
//! `options.toml`, and compares with it when it resumes. A key of a file is a flag's name or one of
//! its other names, with `_` or `-`.
//!
//! Options that are `None` follow from other options or the data (`setup.rs`).

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use gpt::{DropRates, GptConfig};
use serde::{Deserialize, Serialize};
use toml::{Table, Value};
use torch_rng::Build;
use train::Dtype;

use super::choice::TokenizerChoice;
use crate::model::ids::{STDIN, read_text};
use crate::terminal::numbers::{AtLeast1, Below1, Count, NotNegative, Part, Threads, signed_seed};
use crate::terminal::shell::program;
use crate::train::presets::{PRESETS, Preset, Training, training};
use crate::train::runs::{MAX_OPTIONS_BYTES, kept_path};

/// The beginning of samples of the story.
const STORY_PROMPT: &str = "Marta looked at the river";

/// The two options for the length of a run: the later one counts.
const LENGTH: [&str; 2] = ["max_steps", "epochs"];

/// The defaults of options that a preset sets: the first preset's.
const MODEL: GptConfig = PRESETS[0].model;
const TRAINING: Training = PRESETS[0].training;

/// The options of a run; those without a heading are the ones that people set first.
#[derive(Args, Clone, Debug, Serialize, Deserialize)]
#[group(skip)]
#[serde(default)]
pub(crate) struct TrainOptions {
    /// Text, token ids, or a folder of them [default: a story]
    #[arg(long, value_name = "FILE|DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Tokens of a new model [default: the preset's]
    #[arg(long, value_name = "gpt2|chars|bpe:N|DIR")]
    #[serde(with = "text")]
    pub(crate) tokenizer: Option<TokenizerChoice>,
    /// Sizes and training settings by name, instead of the defaults below [default: story]
    #[arg(long, value_name = "NAME", value_enum, ignore_case = true)]
    #[serde(with = "text")]
    pub(crate) preset: Option<Preset>,
    /// Fine-tune a model
    #[arg(long, value_name = "DIR")]
    pub(crate) init_from: Option<PathBuf>,
    /// Steps to train [default: the preset's]
    #[arg(long, value_name = "N", aliases = ["max-iters", "steps"])]
    pub(crate) max_steps: Option<AtLeast1>,
    /// Passes over the data, instead of steps
    #[arg(
        long,
        value_name = "N",
        alias = "num-epochs",
        conflicts_with = "max_steps"
    )]
    pub(crate) epochs: Option<AtLeast1>,
    /// Windows in a batch
    #[arg(long, value_name = "N", default_value_t = AtLeast1(TRAINING.batch_size))]
    pub(crate) batch_size: AtLeast1,
    /// Highest learning rate
    #[arg(long, value_name = "X", alias = "lr", default_value_t = NotNegative(TRAINING.learning_rate))]
    pub(crate) learning_rate: NotNegative,
    /// Seed of the random numbers
    #[arg(short = 's', long, value_name = "N", value_parser = signed_seed, default_value_t = 123)]
    pub(crate) seed: i64,
    /// Folder of the run [default: a new one in runs/]
    #[arg(short = 'o', long, value_name = "DIR")]
    #[serde(skip_serializing)] // the folder may be moved
    pub(crate) out_dir: Option<PathBuf>,

    /// Part of the data to train on; the rest is for validation
    #[arg(long, value_name = "X", help_heading = "Data", default_value_t = Part(0.9))]
    pub(crate) train_ratio: Part,
    /// Tokens in a window [default: the context length]
    #[arg(long, value_name = "N", help_heading = "Data")]
    pub(crate) max_length: Option<AtLeast1>,
    /// Tokens from window to window [default: max-length]
    #[arg(long, value_name = "N", help_heading = "Data")]
    pub(crate) stride: Option<AtLeast1>,

    /// Transformer blocks
    #[arg(long, value_name = "N", alias = "n-layer", help_heading = "Model", default_value_t = Count(MODEL.n_layers))]
    n_layers: Count,
    /// Attention heads
    #[arg(long, value_name = "N", alias = "n-head", help_heading = "Model", default_value_t = Count(MODEL.n_heads))]
    n_heads: Count,
    /// Features of a token
    #[arg(long, value_name = "N", alias = "n-embd", help_heading = "Model", default_value_t = Count(MODEL.emb_dim))]
    emb_dim: Count,
    /// The longest context in tokens
    #[arg(long, value_name = "N", alias = "block-size", help_heading = "Model", default_value_t = AtLeast1(MODEL.context_length))]
    context_length: AtLeast1,
    /// Tokens in the vocabulary [default: the tokenizer's]
    #[arg(long, value_name = "N", help_heading = "Model")]
    pub(crate) vocab_size: Option<Count>,
    /// Dropout rate [default: the preset's]
    #[arg(long, value_name = "P", alias = "dropout", help_heading = "Model")]
    drop_rate: Option<Below1>, // None if the base model's sites have different rates
    /// Add a bias to queries, keys and values
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true, help_heading = "Model", default_value_t = false)]
    qkv_bias: bool,
    /// Share the token embedding with the head
    #[arg(long, value_name = "BOOL", action = ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true", hide_possible_values = true, aliases = ["tie-weights", "weight-tying"], help_heading = "Model", default_value_t = false)]
    tied: bool,

    /// Batches in a step
    #[arg(long, value_name = "N", help_heading = "Training", default_value_t = AtLeast1(1))]
    pub(crate) gradient_accumulation_steps: AtLeast1,
    /// Steps of rising learning rate
    #[arg(long, value_name = "N", alias = "warmup-iters", help_heading = "Training", default_value_t = Count(TRAINING.warmup_steps))]
    pub(crate) warmup_steps: Count,
    /// Learning rate at the end [default: a tenth]
    #[arg(long, value_name = "X", help_heading = "Training")]
    pub(crate) min_lr: Option<NotNegative>,
    /// Weight decay
    #[arg(long, value_name = "X", help_heading = "Training", default_value_t = NotNegative(0.1))]
    pub(crate) weight_decay: NotNegative,
    /// AdamW's first beta
    #[arg(long, value_name = "X", help_heading = "Training", default_value_t = Below1(0.9))]
    pub(crate) beta1: Below1,
    /// AdamW's second beta
    #[arg(long, value_name = "X", help_heading = "Training", default_value_t = Below1(0.999))]
    pub(crate) beta2: Below1,
    /// Clip gradients to this norm; 0: no clipping
    #[arg(long, value_name = "X", help_heading = "Training", default_value_t = NotNegative(1.0))]
    pub(crate) grad_clip: NotNegative,
    /// Operands of the linear layers: float32, bfloat16
    #[arg(long, value_name = "TYPE", help_heading = "Training", default_value_t = Dtype::Float32)]
    pub(crate) dtype: Dtype,
    /// PyTorch build that draws dropout: portable, mkl
    #[arg(
        long,
        value_name = "BUILD",
        help_heading = "Training",
        default_value = "portable"
    )]
    #[serde(with = "text")]
    pub(crate) dropout_build: Option<Build>,

    /// Steps between evaluations
    #[arg(long, value_name = "N", alias = "eval-freq", help_heading = "Evaluation", default_value_t = AtLeast1(TRAINING.eval_interval))]
    pub(crate) eval_interval: AtLeast1,
    /// Batches of each part in an evaluation
    #[arg(long, value_name = "N", alias = "eval-iter", help_heading = "Evaluation", default_value_t = AtLeast1(TRAINING.eval_iters))]
    pub(crate) eval_iters: AtLeast1,
    /// The beginning of samples [default: the data's]
    #[arg(
        short = 'p',
        long,
        value_name = "TEXT",
        alias = "start",
        help_heading = "Evaluation"
    )]
    pub(crate) prompt: Option<String>,
    /// Steps between samples; 0: only the last [default: two evaluations]
    #[arg(long, value_name = "N", help_heading = "Evaluation")]
    pub(crate) sample_interval: Option<Count>,
    /// Tokens of a sample; 0: no samples
    #[arg(long, value_name = "N", help_heading = "Evaluation", default_value_t = Count(40))]
    pub(crate) sample_tokens: Count,

    /// Steps between checkpoints [default: an evaluation]
    #[arg(long, value_name = "N", help_heading = "Run")]
    pub(crate) save_interval: Option<AtLeast1>,
    /// Threads to compute with [default: one per core]
    #[arg(short = 't', long, value_name = "N", help_heading = "Run")]
    pub(crate) threads: Option<Threads>,
    /// Newest checkpoints to keep, beside the best
    #[arg(long, value_name = "N", help_heading = "Run", default_value_t = AtLeast1(2))]
    // Two, to have one to go back to if the newest is damaged. The last field is never left out, so
    // that a file that was cut lacks it.
    pub(crate) keep: AtLeast1,
}

/// An empty command line's.
impl Default for TrainOptions {
    fn default() -> Self {
        let command = Self::augment_args(Command::new("train"));
        Self::from_arg_matches(&command.get_matches_from(["train"])).expect("defaults are values")
    }
}

impl TrainOptions {
    /// The options of a new run: the user's options over the base model's or the preset's, over the
    /// defaults.
    ///
    /// # Errors
    /// If a value is none of its option; a file's and the command line's have been checked before.
    pub(crate) fn new(parsed: &Table, base: Option<&GptConfig>) -> Result<Self> {
        let preset = parsed.get("preset").and_then(Value::as_str);
        let preset = preset.map(str::parse::<Preset>).transpose();
        let preset = preset.map_err(anyhow::Error::msg)?;
        let mut lower = Table::try_from(Self::default())?;
        let recipe = training(preset, parsed.contains_key("init_from"));
        lower.extend(Table::try_from(recipe)?);
        let model = base.copied().unwrap_or(preset.unwrap_or(PRESETS[0]).model);
        lower.extend(shape(&model));
        if base.is_none() {
            lower.remove("vocab_size"); // of which the tokenizer of a new model decides
        }
        if !parsed.contains_key("data") {
            lower.insert("prompt".to_owned(), STORY_PROMPT.into());
        }
        Ok(merge(parsed, lower).try_into()?)
    }

    /// The preset that was named, or the default one.
    pub(crate) fn preset(&self) -> Preset {
        self.preset.unwrap_or(PRESETS[0])
    }

    /// The requested model: the preset's with changes, or the base model's, `own`.
    ///
    /// # Errors
    /// If the weights are of another; names the option.
    pub(crate) fn model(&self, own: Option<&GptConfig>) -> Result<GptConfig> {
        let base = *own.unwrap_or(&self.preset().model);
        let rates = self.drop_rate.map(|rate| DropRates::all(rate.0));
        let model = GptConfig {
            vocab_size: self.vocab_size.map_or(base.vocab_size, |size| size.0),
            context_length: self.context_length.0,
            emb_dim: self.emb_dim.0,
            n_heads: self.n_heads.0,
            n_layers: self.n_layers.0,
            drop_rates: rates.unwrap_or(base.drop_rates),
            qkv_bias: self.qkv_bias,
            tied: self.tied,
            ..base
        };
        let Some(own) = own.map(shape) else {
            return Ok(model);
        };
        let asked = shape(&model);
        for (name, asked) in asked.iter().filter(|(name, _)| *name != "drop_rate") {
            if &own[name] != asked {
                bail!(
                    "--{} {asked}: the base model has {}, and its weights can't be loaded with a different value",
                    name.replace('_', "-"),
                    own[name]
                );
            }
        }
        Ok(model)
    }
}

/// A model's options by name: the ones whose values weights fit, and the dropout rate, unless its
/// sites have different ones.
fn shape(model: &GptConfig) -> Table {
    let sizes = [
        ("vocab_size", model.vocab_size),
        ("context_length", model.context_length),
        ("emb_dim", model.emb_dim),
        ("n_heads", model.n_heads),
        ("n_layers", model.n_layers),
    ];
    let sizes = sizes.map(|(name, size)| (name, Value::from(size as i64)));
    let choices = [("qkv_bias", model.qkv_bias), ("tied", model.tied)];
    let choices = choices.map(|(name, choice)| (name, Value::from(choice)));
    let rate = model.drop_rates.common();
    let rate = rate.map(|rate| ("drop_rate", Value::from(rate)));
    let all = sizes.into_iter().chain(choices).chain(rate);
    all.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The options of a command line or a file: their values, and the names of those that are there.
#[derive(Clone, Debug, Default)]
pub(crate) struct ParsedOptions {
    options: TrainOptions,
    names: Vec<String>,
}

impl Args for ParsedOptions {
    fn augment_args(command: Command) -> Command {
        TrainOptions::augment_args(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        TrainOptions::augment_args_for_update(command)
    }
}

impl FromArgMatches for ParsedOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let is_flag = |id: &str| matches.value_source(id) == Some(ValueSource::CommandLine);
        let ids = matches.ids().map(|id| id.as_str());
        Ok(Self {
            options: TrainOptions::from_arg_matches(matches)?,
            names: ids.filter(|id| is_flag(id)).map(str::to_owned).collect(),
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl ParsedOptions {
    /// Reads a file of options.
    ///
    /// # Errors
    /// Names the file, the line or key, and for an unknown key the nearest known one.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = read_text(path, MAX_OPTIONS_BYTES)?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    /// Reads the options that a run keeps.
    ///
    /// # Errors
    /// As [`read`](Self::read); if one is missing, as in a file that was cut.
    pub(crate) fn read_kept(path: &Path) -> Result<Table> {
        let kept = Self::read(path)?.table()?;
        let all = Table::try_from(TrainOptions::default())?;
        match all.keys().find(|name| !kept.contains_key(*name)) {
            None => Ok(kept),
            Some(name) => bail!("{}: missing field `{name}`", path.display()),
        }
    }

    /// Reads a file's text; its errors don't name the file.
    fn parse(text: &str) -> Result<Self> {
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
                bail!("key {key:?}: {name} is also set by another name; use only one of them");
            }
        }
        if LENGTH.iter().all(|name| named.contains_key(*name)) {
            bail!("keys \"max_steps\" and \"epochs\": use only one of the two");
        }
        Ok(Self {
            names: named.keys().cloned().collect(),
            options: named.try_into()?,
        })
    }

    /// The options by name; paths are absolute, because a run keeps them.
    ///
    /// # Errors
    /// If a path is not UTF-8.
    pub(crate) fn table(&self) -> Result<Table> {
        let mut kept = self.options.clone();
        let stdin = Path::new(STDIN);
        let paths = [&mut kept.data, &mut kept.init_from].into_iter().flatten();
        for path in paths.filter(|path| *path != stdin) {
            *path = kept_path(path)?;
        }
        if let Some(TokenizerChoice::Folder(path)) = &mut kept.tokenizer {
            *path = kept_path(path)?;
        }
        let mut table = Table::try_from(kept)?;
        table.retain(|name, _| self.names.iter().any(|own| own == name));
        Ok(table)
    }

    /// The folder of the run, which its file of options doesn't keep.
    pub(crate) fn out_dir(&self) -> Option<&PathBuf> {
        self.options.out_dir.as_ref()
    }

    pub(crate) fn threads(&self) -> Option<Threads> {
        self.options.threads
    }
}

/// Merges two tables of options; `upper` overrides `lower`.
pub(crate) fn merge(upper: &Table, mut lower: Table) -> Table {
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
mod text {
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
    use crate::train::presets::FINE_TUNING;

    fn parsed(text: &str) -> Result<Table> {
        ParsedOptions::parse(text)?.table()
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
                "key \"n_layers\": n_layers is also set by another name",
            ),
            ("epochs = 1\nmax_iters = 1", "\"max_steps\" and \"epochs\""),
            ("a = 1\nb = = 2", "line 2: "),
        ] {
            let error = format!("{:#}", parsed(text).unwrap_err());
            let error = error.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    fn table_of(text: &str) -> Table {
        parsed(text).unwrap()
    }

    #[test]
    fn the_last_counts_and_steps_and_epochs_are_one_option() {
        let below = table_of("n_layers = 7\nseed = 7\nepochs = 3");
        let both = merge(&table_of("seed = -1\nmax_steps = 5"), below);
        let options = TrainOptions::new(&both, None).unwrap();
        assert_eq!((options.n_layers.0, options.seed), (7, -1));
        assert_eq!(
            (options.max_steps, options.epochs),
            (Some(AtLeast1(5)), None)
        );
        let epochs = TrainOptions::new(&merge(&table_of("epochs = 2"), both), None).unwrap();
        assert_eq!((epochs.max_steps, epochs.epochs), (None, Some(AtLeast1(2))));
        let default = TrainOptions::new(&Table::new(), None).unwrap();
        assert_eq!(default.max_steps, Some(AtLeast1(TRAINING.max_steps)));
    }

    #[test]
    fn a_model_to_go_on_from_says_what_it_is_like_and_how_it_is_trained() {
        let small = GptConfig {
            n_layers: 5,
            ..GptConfig::GPT2_124M
        };
        let options = TrainOptions::new(&table_of("init_from = 'm'"), Some(&small)).unwrap();
        assert_eq!(options.model(Some(&small)).unwrap(), small);
        assert_eq!(options.learning_rate.0, FINE_TUNING.learning_rate);
        for preset in PRESETS {
            let parsed = table_of(&format!("preset = '{}'", preset.name()));
            let options = TrainOptions::new(&parsed, None).unwrap();
            assert_eq!(options.model(None).unwrap(), preset.model);
            assert_eq!(options.batch_size.0, preset.training.batch_size);
        }
    }

    #[test]
    fn what_is_kept_reads_back_the_same_whatever_its_size() {
        let most = i64::MAX;
        let text = format!(
            "seed = -1\neval_interval = {most}\nlearning_rate = 1e-300\ntied = false\n\
            prompt = \"\\\"\\\\\\u0001\\n= 'x'\"\npreset = 'gpt2'\ndropout_build = 'mkl'"
        );
        let options = TrainOptions::new(&table_of(&text), None).unwrap();
        assert_eq!(options.prompt.as_deref(), Some("\"\\\u{1}\n= 'x'"));
        let kept = toml::to_string(&options).unwrap();
        let read = table_of(&kept);
        assert_eq!(read, Table::try_from(&options).unwrap());
        assert_eq!(
            kept,
            toml::to_string(&read.try_into::<TrainOptions>().unwrap()).unwrap()
        );
    }
}
