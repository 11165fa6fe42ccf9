//! `--config FILE.toml`: the flags of `gpt train` as keys, and what wins when both say something.
//!
//! The table of known keys is clap's own, so that a flag and its key can't drift apart.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Command};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use toml::{Table, Value};

use super::options::TrainOptions;
use crate::ids::read_text;
use crate::nearest::nearest;

/// Reads a file of options.
///
/// # Errors
/// Names the file, the line or key, and for an unknown key the nearest known one.
pub(crate) fn read(path: &Path) -> Result<TrainOptions> {
    let text = read_text(path)?;
    parse(&text).with_context(|| path.display().to_string())
}

fn parse(text: &str) -> Result<TrainOptions> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let table: Table = text.parse().map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| {
            1 + text[..span.start.min(text.len())].matches('\n').count()
        });
        anyhow!("line {line}: {}", error.message())
    })?;
    let names = names();
    let mut options = Table::new();
    for (key, value) in table {
        let Some(id) = names.get(&key.replace('-', "_")) else {
            bail!(match nearest(&key, names.keys().map(String::as_str)) {
                Some(near) => format!("unknown key {key:?}, did you mean {near:?}?"),
                None =>
                    format!("unknown key {key:?} (see gpt train --help: a key is a flag's name)"),
            });
        };
        check(id, &value).with_context(|| format!("key {key:?}"))?;
        if options.insert(id.clone(), value).is_some() {
            bail!("key {key:?} is there twice, as itself and as an alias");
        }
    }
    from_table(options)
}

/// One value against its field's type, so that an error can name the key.
fn check(id: &str, value: &Value) -> Result<()> {
    let alone = Table::from_iter([(id.to_owned(), value.clone())]);
    from_table(alone).map(|_| ())
}

fn from_table(table: Table) -> Result<TrainOptions> {
    TrainOptions::deserialize(table.into_deserializer())
        .map_err(|error: toml::de::Error| anyhow!("{}", error.message()))
}

/// `over` where it says something, else `under`.
pub(crate) fn overlay(under: &TrainOptions, over: &TrainOptions) -> TrainOptions {
    let mut table = to_table(under);
    table.extend(to_table(over));
    from_table(table).expect("both came from options")
}

/// The options that are set, by name.
pub(crate) fn to_table(options: &TrainOptions) -> Table {
    Table::try_from(options).expect("options are numbers, names and paths")
}

/// Every key that a file may have -> the name of the option.
fn names() -> BTreeMap<String, String> {
    let command = TrainOptions::augment_args(Command::new("train"));
    let mut names = BTreeMap::new();
    for arg in command.get_arguments() {
        let id = arg.get_id().to_string();
        let aliases = arg.get_all_aliases().unwrap_or_default();
        for name in aliases.into_iter().chain(arg.get_long()) {
            names.insert(name.replace('-', "_"), id.clone());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_flags_and_their_aliases() {
        let options =
            parse("\u{feff}n_embd = 64\r\nn-layer = 2\r\nlr = 1\ndropout_build = 'mkl'").unwrap();
        assert_eq!((options.emb_dim, options.n_layers), (Some(64), Some(2)));
        assert_eq!(options.learning_rate, Some(1.0));
        assert_eq!(options.dropout_build, Some(torch_rng::Build::Mkl));
    }

    #[test]
    fn mistakes_are_told_by_key_or_line() {
        for (text, expected) in [
            (
                "learnign_rate = 1",
                "unknown key \"learnign_rate\", did you mean \"learning_rate\"?",
            ),
            ("n_layers = -1", "key \"n_layers\": "),
            ("n_layers = 1.5", "key \"n_layers\": "),
            ("n_layers = '3'", "key \"n_layers\": "),
            ("n_layers = 1\nn_layer = 1", "is there twice"),
            ("a = 1\nb = = 2", "line 2: "),
            ("seed = 99999999999999999999", ""),
            ("[model]\nn_layers = 1", "unknown key \"model\""),
        ] {
            let error = format!("{:#}", parse(text).unwrap_err());
            assert!(error.contains(expected), "{text}: {error}");
        }
    }

    #[test]
    fn flags_win_over_the_file_and_nothing_else_changes() {
        let file = parse("n_layers = 2\nseed = 7").unwrap();
        let flags = TrainOptions {
            seed: Some(8),
            ..TrainOptions::default()
        };
        let both = overlay(&file, &flags);
        assert_eq!(
            (both.n_layers, both.seed, both.n_heads),
            (Some(2), Some(8), None)
        );
        assert_eq!(overlay(&both, &TrainOptions::default()), both);
    }
}
