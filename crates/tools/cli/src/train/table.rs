//! Options as a table of names and texts: those of a preset, of a file, of the command line; laid
//! one over the other and read by clap.
//!
//! A key of a file is a flag's name or alias, with `_` for `-`; its value is what one would type
//! behind the flag.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches, ValueEnum};
use gpt::GptConfig;
use toml::Value;

use super::options::{TrainOptions, of_model};
use crate::failure::{Usage, one_line};
use crate::ids::read_text;
use crate::presets::{PRESETS, Preset, training};
use crate::runs::MOST_OPTIONS_BYTES;

/// `--init-from scratch`: a new model.
pub(crate) const SCRATCH: &str = "scratch";

/// Options by name, as they were said.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table(BTreeMap<String, OsString>);

impl Table {
    /// # Errors
    /// Names the file, the line or key, and for an unknown key the nearest known one.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = read_text(path, MOST_OPTIONS_BYTES)?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    /// As [`read`](Self::read), without the file's name.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let file: toml::Table = text.parse().map_err(|error: toml::de::Error| {
            let line = error.span().map_or(1, |span| {
                1 + text[..span.start.min(text.len())].matches('\n').count()
            });
            anyhow!("line {line}: {}", error.message())
        })?;
        let mut command = command();
        let mut table = Self::default();
        for (key, value) in file {
            let value = match value {
                Value::String(text) => text,
                Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => value.to_string(),
                _ => bail!("key {key:?}: expected a number, a text, true or false"),
            };
            let flag = format!("--{}={value}", key.replace('_', "-"));
            let matches = command.try_get_matches_from_mut([flag]);
            let one = Self::said(&matches.map_err(|error| mistake(&key, &error))?);
            if one.0.keys().any(|name| table.0.contains_key(name)) {
                bail!("key {key:?} is there twice, as itself and as an alias");
            }
            table.0.extend(one.0);
        }
        Ok(table)
    }

    /// What was typed, without what is merely the default.
    fn said(matches: &ArgMatches) -> Self {
        let command = command();
        let typed = command.get_arguments().filter_map(|arg| {
            let id = arg.get_id().as_str();
            let is_said = matches.value_source(id) == Some(ValueSource::CommandLine);
            let text = matches.get_raw(id).filter(|_| is_said)?.next_back()?;
            Some((id.to_owned(), text.to_owned()))
        });
        Self(typed.collect())
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    fn get(&self, name: &str) -> Option<&OsStr> {
        self.0.get(name).map(OsString::as_os_str)
    }

    /// This table, and what it doesn't say from the one `below`; of steps and epochs the one that
    /// is said last counts.
    pub(crate) fn over(self, mut below: Self) -> Self {
        for (said, other) in [("epochs", "max_steps"), ("max_steps", "epochs")] {
            if self.has(said) {
                below.0.remove(other);
            }
        }
        below.0.extend(self.0);
        below
    }

    /// The options: what is said here, over the model that a run goes on from, over the preset and
    /// the defaults.
    ///
    /// # Errors
    /// If a value is none of its option; files and flags have been checked before.
    pub(crate) fn options(&self, base: Option<&GptConfig>) -> Result<TrainOptions> {
        let preset = self.get("preset").map(OsStr::to_string_lossy);
        let preset = preset.map(|name| Preset::from_str(&name, true)).transpose();
        let preset = preset.map_err(Usage)?;
        let goes_on = self.get("init_from").is_some_and(|from| from != SCRATCH);
        let mut lowest = Self::default();
        let serde_json::Value::Object(training) = serde_json::to_value(training(preset, goes_on))?
        else {
            bail!("expected settings by name");
        };
        for (name, value) in training {
            lowest.0.insert(name, value.to_string().into());
        }
        let model = &preset.unwrap_or(PRESETS[0]).model;
        for (name, value) in of_model(base.unwrap_or(model)) {
            // The tokenizer of a new model says how many tokens there are.
            if let Some(value) = value.filter(|_| base.is_some() || name != "vocab_size") {
                lowest.0.insert(name.to_owned(), value.into());
            }
        }
        let all = self.clone().over(lowest);
        let typed = all.0.iter().map(|(name, value)| {
            let mut flag = OsString::from(format!("--{}=", name.replace('_', "-")));
            flag.push(value);
            flag
        });
        let matches = command().try_get_matches_from(typed);
        let options = matches.and_then(|matches| TrainOptions::from_arg_matches(&matches));
        Ok(options.map_err(|error| Usage(one_line(&error)))?)
    }
}

/// All options, none of which has to be said.
fn command() -> Command {
    let command = Command::new("train")
        .no_binary_name(true)
        .disable_help_flag(true);
    TrainOptions::augment_args_for_update(command)
}

/// The options as a part of a command line.
impl Args for Table {
    fn augment_args(command: Command) -> Command {
        TrainOptions::augment_args_for_update(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for Table {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self::said(matches))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::said(matches);
        Ok(())
    }
}

fn mistake(key: &str, error: &clap::Error) -> anyhow::Error {
    if error.kind() != ErrorKind::UnknownArgument {
        return anyhow!("key {key:?}: {}", one_line(error));
    }
    match error.get(ContextKind::SuggestedArg) {
        Some(ContextValue::String(flag)) => {
            let near = flag.trim_start_matches('-').replace('-', "_");
            anyhow!("unknown key {key:?}, did you mean {near:?}?")
        }
        _ => anyhow!("unknown key {key:?} (see gpt train --help: a key is a flag's name)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::FINE_TUNING;

    fn parsed(text: &str) -> Result<TrainOptions> {
        Table::parse(text)?.options(None)
    }

    #[test]
    fn keys_are_flags_and_their_aliases() {
        let text =
            "\u{feff}n_embd = 64\r\nn-layer = 3\r\nlr = 1\ndropout_build = 'mkl'\ntied = true";
        let options = parsed(text).unwrap();
        assert_eq!((options.model.emb_dim, options.model.n_layers), (64, 3));
        assert_eq!(
            (options.training.learning_rate, options.model.tied),
            (1.0, true)
        );
        assert_eq!(options.training.dropout_build, torch_rng::Build::Mkl);
    }

    #[test]
    fn mistakes_are_told_by_key_or_line() {
        for (text, expected) in [
            (
                "learnign_rate = 1",
                "unknown key \"learnign_rate\", did you mean \"learning_rate\"?",
            ),
            ("zzz = 1", "unknown key \"zzz\" (see"),
            ("n_layers = -1", "key \"n_layers\": invalid value '-1'"),
            ("n_layers = 1.5", "key \"n_layers\": invalid value '1.5'"),
            ("n_layers = [1]", "key \"n_layers\": expected a number"),
            ("max_steps = 0", "key \"max_steps\": invalid value '0'"),
            ("beta1 = nan", "key \"beta1\": invalid value 'nan'"),
            ("n_layers = 'two'", "key \"n_layers\": invalid value 'two'"),
            ("n_layers = 1\nn_layer = 1", "is there twice"),
            ("a = 1\nb = = 2", "line 2: "),
            ("seed = 99999999999999999999", ""),
            ("[model]\nn_layers = 1", "key \"model\""),
        ] {
            let error = format!("{:#}", parsed(text).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn of_two_tables_the_one_above_wins_and_steps_and_epochs_are_one_option() {
        let table = |text: &str| Table::parse(text).unwrap();
        let below = table("n_layers = 7\nseed = 7\nepochs = 3");
        let both = table("seed = -1\nmax_steps = 5").over(below.clone());
        let options = both.options(None).unwrap();
        assert_eq!(
            (options.model.n_layers, options.training.seed),
            (7, u64::MAX)
        );
        assert_eq!((options.free.max_steps, options.training.epochs), (5, None));
        let epochs = table("epochs = 2").over(both).options(None).unwrap();
        assert_eq!(epochs.training.epochs, Some(2));
    }

    #[test]
    fn a_model_to_go_on_from_says_what_it_is_like_and_how_it_is_trained() {
        let small = GptConfig {
            n_layers: 5,
            ..GptConfig::GPT2_124M
        };
        let said = Table::parse("init_from = 'm'").unwrap();
        let options = said.options(Some(&small)).unwrap();
        assert_eq!(options.model.over(small), small);
        assert_eq!(options.training.learning_rate, FINE_TUNING.learning_rate);
        for preset in PRESETS {
            let said = Table::parse(&format!("preset = '{}'", preset.name())).unwrap();
            let options = said.options(None).unwrap();
            assert_eq!(options.model.over(preset.model), preset.model);
            assert_eq!(options.training.batch_size, preset.training.batch_size);
        }
    }

    #[test]
    fn what_is_written_reads_back_the_same_whatever_its_size() {
        let text = "seed = '18446744073709551615'\neval_interval = '18446744073709551615'\n\
            learning_rate = 1e-300\nprompt = \"\\\"\\\\\\u0001\\n= 'x'\"\ntied = false\npreset = 'gpt2'\ndropout_build = 'mkl'";
        let options = parsed(text).unwrap();
        assert_eq!(options.training.seed, u64::MAX);
        assert_eq!(options.free.prompt.as_deref(), Some("\"\\\u{1}\n= 'x'"));
        let read = parsed(&options.to_toml().unwrap()).unwrap();
        assert_eq!(read.to_json().unwrap(), options.to_json().unwrap());
    }
}
