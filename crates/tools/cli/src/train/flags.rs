//! Options as they are typed, whatever says them: those of a preset, of a file, of the command line
//! stand one behind the other, and clap takes the last of each.
//!
//! A key of a file is a flag's name or alias, with `_` for `-`; its value is what one would type
//! behind the flag.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, Command, FromArgMatches};
use gpt::GptConfig;
use toml::Value;

use super::options::{TrainOptions, of_model};
use crate::failure::{Usage, one_line};
use crate::ids::read_text;
use crate::presets::{PRESETS, Preset, training};
use crate::runs::MOST_OPTIONS_BYTES;

/// `--init-from scratch`: a new model.
pub(crate) const SCRATCH: &str = "scratch";

/// Options, `--name=value` each; the last of a name counts.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flags(Vec<OsString>);

impl Flags {
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
        let (mut command, mut flags) = (command(), Self::default());
        for (key, value) in file {
            let value = match value {
                Value::String(text) => text,
                Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => value.to_string(),
                _ => bail!("key {key:?}: expected a number, a text, true or false"),
            };
            flags.add(&key, value);
            // With those before it, which may have said the same by another name.
            let parsed = command.try_get_matches_from_mut(&flags.0);
            parsed.map_err(|error| mistake(&key, &error))?;
        }
        Ok(flags)
    }

    fn add(&mut self, name: &str, value: impl AsRef<OsStr>) {
        let mut flag = OsString::from(format!("--{}=", name.replace('_', "-")));
        flag.push(value);
        self.0.push(flag);
    }

    /// Whether a file that names its options as [`TrainOptions::to_toml`] does has this one.
    pub(crate) fn has(&self, name: &str) -> bool {
        let begin = format!("--{}=", name.replace('_', "-"));
        let mut flags = self.0.iter();
        flags.any(|flag| flag.as_encoded_bytes().starts_with(begin.as_bytes()))
    }

    /// These over those `below`, which count where these say nothing.
    pub(crate) fn over(self, below: &Self) -> Self {
        Self([below.0.clone(), self.0].concat())
    }

    /// The options: what is said here, over the model that a run goes on from, over the preset and
    /// the defaults.
    ///
    /// # Errors
    /// If a value is none of its option; files and the command line have been checked before.
    pub(crate) fn options(&self, base: Option<&GptConfig>) -> Result<TrainOptions> {
        let usage = |error: clap::Error| Usage(one_line(&error));
        // Of steps and epochs, too, the one that is said last counts.
        let mut command = command()
            .args_override_self(true)
            .mut_arg("epochs", |arg| arg.overrides_with("max_steps"))
            .mut_arg("max_steps", |arg| arg.overrides_with("epochs"));
        let said = command.try_get_matches_from_mut(&self.0).map_err(usage)?;
        let preset = said.get_one::<Preset>("preset").copied();
        let from = said.get_one::<PathBuf>("init_from");
        let goes_on = from.is_some_and(|from| from != Path::new(SCRATCH));
        let mut lowest = Self::default();
        let serde_json::Value::Object(training) = serde_json::to_value(training(preset, goes_on))?
        else {
            bail!("expected settings by name");
        };
        for (name, value) in training {
            lowest.add(&name, value.to_string());
        }
        let model = &preset.unwrap_or(PRESETS[0]).model;
        for (name, value) in of_model(base.unwrap_or(model)) {
            // The tokenizer of a new model says how many tokens there are.
            if let Some(value) = value.filter(|_| base.is_some() || name != "vocab_size") {
                lowest.add(name, value);
            }
        }
        let all = command.try_get_matches_from(self.clone().over(&lowest).0);
        let options = all.and_then(|all| TrainOptions::from_arg_matches(&all));
        Ok(options.map_err(usage)?)
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
impl Args for Flags {
    fn augment_args(command: Command) -> Command {
        TrainOptions::augment_args_for_update(command)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// What was typed, without what is merely the default.
impl FromArgMatches for Flags {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut flags = Self::default();
        for arg in command().get_arguments() {
            let id = arg.get_id().as_str();
            if matches.value_source(id) == Some(ValueSource::CommandLine)
                && let Some(value) = matches.get_raw(id).and_then(Iterator::last)
            {
                flags.add(id, value);
            }
        }
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
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
        Flags::parse(text)?.options(None)
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
            (
                "n_layers = 1\nn_layer = 1",
                "key \"n_layers\": the argument '--n-layers <N>' cannot be used multiple times",
            ),
            ("a = 1\nb = = 2", "line 2: "),
            ("seed = 99999999999999999999", ""),
            ("[model]\nn_layers = 1", "key \"model\""),
        ] {
            let error = format!("{:#}", parsed(text).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn of_flags_the_last_counts_and_steps_and_epochs_are_one_option() {
        let flags = |text: &str| Flags::parse(text).unwrap();
        let below = flags("n_layers = 7\nseed = 7\nepochs = 3");
        let both = flags("seed = -1\nmax_steps = 5").over(&below);
        let options = both.options(None).unwrap();
        assert_eq!(
            (options.model.n_layers, options.training.seed),
            (7, u64::MAX)
        );
        assert_eq!((options.free.max_steps, options.training.epochs), (5, None));
        let epochs = flags("epochs = 2").over(&both).options(None).unwrap();
        assert_eq!(epochs.training.epochs, Some(2));
    }

    #[test]
    fn a_model_to_go_on_from_says_what_it_is_like_and_how_it_is_trained() {
        let small = GptConfig {
            n_layers: 5,
            ..GptConfig::GPT2_124M
        };
        let said = Flags::parse("init_from = 'm'").unwrap();
        let options = said.options(Some(&small)).unwrap();
        assert_eq!(options.model.over(small), small);
        assert_eq!(options.training.learning_rate, FINE_TUNING.learning_rate);
        for preset in PRESETS {
            let said = Flags::parse(&format!("preset = '{}'", preset.name())).unwrap();
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
