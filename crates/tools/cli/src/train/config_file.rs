//! Options as TOML: `--config FILE.toml`, and the `options.toml` that a run keeps.
//!
//! A key is a flag's name or alias, with `_` for `-`; its value is what one would type behind the flag, and clap reads both.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use serde_json::Value as Json;
use toml::{Table, Value};

use super::options::TrainOptions;
use crate::failure::one_line;
use crate::ids::read_text;

/// What a user says in a file, and over it on the command line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Said<'a> {
    pub(crate) file: Option<&'a Path>,
    pub(crate) flags: &'a ArgMatches,
}

impl Said<'_> {
    /// What is said, over options that held before.
    pub(crate) fn over(&self, mut options: TrainOptions) -> Result<TrainOptions> {
        if let Some(path) = self.file {
            read(path, &mut options)?;
        }
        replace(&mut options, self.flags)?;
        Ok(options)
    }
}

/// Replaces in `options` what is said; of steps and epochs the one that is said last counts.
fn replace(options: &mut TrainOptions, said: &ArgMatches) -> Result<(), clap::Error> {
    if said.contains_id("epochs") {
        options.max_steps = None;
    }
    if said.contains_id("max_steps") {
        options.epochs = None;
    }
    options.update_from_arg_matches(said)
}

/// The most bytes of a file of options.
pub(crate) const MOST_OPTIONS_BYTES: u64 = 1 << 20;

/// Replaces in `options` what a file says.
///
/// # Errors
/// Names the file, the line or key, and for an unknown key the nearest known one.
pub(crate) fn read(path: &Path, options: &mut TrainOptions) -> Result<()> {
    let text = read_text(path, MOST_OPTIONS_BYTES)?;
    parse(&text, options).with_context(|| path.display().to_string())
}

fn parse(text: &str, options: &mut TrainOptions) -> Result<()> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| {
            1 + text[..span.start.min(text.len())].matches('\n').count()
        });
        anyhow!("line {line}: {}", error.message())
    })?;
    let command = Command::new("train")
        .no_binary_name(true)
        .disable_help_flag(true);
    let mut command = TrainOptions::augment_args(command);
    let mut said = HashSet::new();
    for (key, value) in table {
        let value = match value {
            Value::String(text) => text,
            Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => value.to_string(),
            _ => bail!("key {key:?}: expected a number, a text, true or false"),
        };
        let flag = format!("--{}={value}", key.replace('_', "-"));
        let matches = command.try_get_matches_from_mut([flag]);
        let matches = matches.map_err(|error| mistake(&key, &error))?;
        if !matches.ids().all(|id| said.insert(id.clone())) {
            bail!("key {key:?} is there twice, as itself and as an alias");
        }
        replace(options, &matches)?;
    }
    Ok(())
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

/// The options that are set, by name.
pub(crate) fn to_json(options: &TrainOptions) -> Result<serde_json::Map<String, Json>> {
    match serde_json::to_value(options)? {
        Json::Object(mut all) => {
            all.retain(|_, value| !value.is_null());
            Ok(all)
        }
        other => bail!("expected options by name, got {other}"),
    }
}

/// The options that are set, as a file that [`read`] takes.
pub(crate) fn to_toml(options: &TrainOptions) -> Result<String> {
    let mut table = Table::new();
    for (key, value) in to_json(options)? {
        let value = match value.as_u64() {
            // TOML's integers end at 2^63 - 1.
            Some(n) if i64::try_from(n).is_err() => Value::String(n.to_string()),
            _ => Value::try_from(value)?,
        };
        table.insert(key, value);
    }
    Ok(toml::to_string(&table)?)
}

/// A path that a run can keep: absolute, so that it can be resumed from another folder, and text.
///
/// # Errors
/// If the path is not UTF-8, which a file of options can't hold.
pub(crate) fn kept_path(path: &Path) -> Result<PathBuf> {
    let name = path.display();
    let absolute = std::path::absolute(path).with_context(|| name.to_string())?;
    if absolute.to_str().is_none() {
        bail!("{name}: expected a path in UTF-8, as the run's options.toml keeps it");
    }
    Ok(absolute)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<TrainOptions> {
        let mut options = TrainOptions::default();
        parse(text, &mut options).map(|()| options)
    }

    #[test]
    fn keys_are_flags_and_their_aliases() {
        let text =
            "\u{feff}n_embd = 64\r\nn-layer = 2\r\nlr = 1\ndropout_build = 'mkl'\ntied = true";
        let options = parsed(text).unwrap();
        assert_eq!((options.emb_dim, options.n_layers), (Some(64), Some(2)));
        assert_eq!(
            (options.learning_rate, options.tied),
            (Some(1.0), Some(true))
        );
        assert_eq!(options.dropout_build, Some(torch_rng::Build::Mkl));
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
    fn what_is_said_later_wins_and_nothing_else_changes() {
        let mut options = parsed("n_layers = 2\nseed = 7").unwrap();
        parse("seed = 8", &mut options).unwrap();
        assert_eq!(
            (options.n_layers, options.seed, options.n_heads),
            (Some(2), Some(8), None)
        );
    }

    #[test]
    fn what_is_written_reads_back_the_same_whatever_its_size() {
        let options = TrainOptions {
            seed: Some(u64::MAX),
            eval_interval: Some(usize::MAX),
            learning_rate: Some(1e-300),
            prompt: Some("\"\\\u{1}\n= 'x'".to_owned()),
            tied: Some(false),
            preset: Some(crate::presets::PRESETS[1]),
            dropout_build: Some(torch_rng::Build::Mkl),
            ..TrainOptions::default()
        };
        let read = parsed(&to_toml(&options).unwrap()).unwrap();
        assert_eq!(to_json(&read).unwrap(), to_json(&options).unwrap());
        assert_eq!(to_json(&read).unwrap().len(), 7);
    }
}
