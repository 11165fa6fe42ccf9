//! Combines the options of a training run from several sources.
//!
//! The options come from the preset, the base model, the saved options of a resumed run, the file
//! that `--config` specifies, and the command line. Each of these sources is converted to a list of
//! command-line arguments. Clap parses the concatenation of these lists, which ends with the user's
//! own arguments. If an option occurs several times, its last value is used.
//!
//! | run | arguments, in this order |
//! |---|---|
//! | new | defaults of the preset, or of fine-tuning and the base model; `--config`; the user's |
//! | resumed | the run's `options.toml`; `--config`; the user's |
//!
//! An option file can use the name or any alias of an option as a key. Underscores and dashes in a
//! key are equivalent.

use std::ffi::OsString;
use std::path::Path;
use std::slice::from_ref;

use anyhow::{Context, Result, anyhow, bail};
use clap::{Args, Command, FromArgMatches};
use gpt::GptConfig;
use toml::{Table, Value};
use train::presets::{FINE_TUNING, Preset, STORY};

use super::choice::TokenizerChoice;
use super::options::{TrainArgs, TrainOptions, shape};
use crate::model::ids::{STDIN, read_text};
use crate::terminal::command::{flag, with_rules};
use crate::terminal::failure::{misused, one_line};
use crate::train::runs::{MAX_OPTIONS_BYTES, kept_path};

/// Returns the default arguments of a new training run. The model's dimensions come from the base
/// model or, if there is none, from the preset. The training settings also come from the preset. If
/// there is a base model, however, and the user hasn't chosen a preset, the settings for
/// fine-tuning are used.
pub(crate) fn of_new_run(
    base: Option<&GptConfig>,
    preset: Option<Preset>,
) -> Result<Vec<OsString>> {
    let named = preset.unwrap_or(STORY);
    let (model, training) = match (base, preset) {
        (Some(model), None) => (model, FINE_TUNING),
        (Some(model), Some(_)) => (model, named.training),
        (None, _) => (&named.model, named.training),
    };
    let mut table = Table::try_from(training)?;
    table.extend(shape(model)?);
    let rate = model.drop_rates.common();
    table.extend(rate.map(|rate| ("drop_rate".to_owned(), rate.into())));
    if base.is_none() {
        table.remove("vocab_size"); // The tokenizer determines the size of the vocabulary.
        table.insert("preset".to_owned(), named.name().into());
    }
    of_table(&table)
}

/// Reads an option file, which is a TOML file that users can specify with `--config`.
///
/// # Errors
/// Returns an error that contains the path of the file, and the line or key. For an unknown key,
/// the error suggests the most similar option.
pub(crate) fn of_file(path: &Path) -> Result<Vec<OsString>> {
    let text = read_text(path, MAX_OPTIONS_BYTES)?;
    let arguments = parse(&text).and_then(|table| checked(&table));
    arguments.with_context(|| path.display().to_string())
}

/// Reads the options that a training run has saved.
///
/// # Errors
/// Returns the errors of [`of_file`]. Also returns an error if the option that is saved last is
/// missing, because the end of the file must have been lost in this case.
pub(crate) fn of_run(path: &Path) -> Result<Vec<OsString>> {
    let arguments = of_file(path)?;
    // The option `keep` is saved last.
    let is_whole = arguments
        .iter()
        .any(|word| word.to_string_lossy().starts_with("--keep="));
    if !is_whole {
        bail!(
            "{}: the file seems to be truncated, because its last option, keep, is missing; restore the file, or start a new run",
            path.display()
        );
    }
    Ok(arguments)
}

/// Parses the concatenation of several lists of arguments. If an option occurs more than once, its
/// last value is used. `--max-steps` and `--epochs` override each other. Paths are made absolute,
/// because they are saved with the run.
///
/// # Errors
/// Returns a usage error if an argument is invalid, and an error if a path isn't UTF-8.
pub(crate) fn read(lists: &[&[OsString]]) -> Result<TrainOptions> {
    let command = with_rules(TrainArgs::augment_args(Command::new("train")));
    let command = command.mut_arg("epochs", |epochs| epochs.overrides_with("max_steps"));
    let matches = command.try_get_matches_from(words(&lists.concat()));
    let mut options = match matches.and_then(|matches| TrainArgs::from_arg_matches(&matches)) {
        Ok(args) => args.options,
        Err(error) => return misused(one_line(&error)),
    };
    let paths = [&mut options.data, &mut options.init_from];
    let mut paths: Vec<_> = paths.into_iter().flatten().collect();
    if let Some(TokenizerChoice::Folder(path)) = &mut options.tokenizer {
        paths.push(path);
    }
    for path in paths.into_iter().filter(|path| **path != Path::new(STDIN)) {
        *path = kept_path(path)?;
    }
    Ok(options)
}

/// Parses a TOML file with training options. `text` is its content. Error messages contain the
/// number of the incorrect line. The caller adds the path of the file.
fn parse(text: &str) -> Result<Table> {
    text.parse().map_err(|error: toml::de::Error| {
        let before = error.span().and_then(|span| text.get(..span.start));
        let line = 1 + before.map_or(0, |before| before.matches('\n').count());
        let windows = match error.message().contains("unicode") || text.contains(":\\") {
            true => "; put single quotes around a Windows path: 'C:\\Users\\me'",
            false => "",
        };
        anyhow!("line {line}: {}{windows}", error.message())
    })
}

/// Converts a table of options to command-line arguments. Checks each argument on its own first, so
/// that an error message can contain the option's key, and then checks all arguments together.
fn checked(table: &Table) -> Result<Vec<OsString>> {
    let arguments = of_table(table)?;
    let check = |arguments: &[OsString]| {
        let command = Command::new("train").disable_help_flag(true);
        let matches = TrainOptions::augment_args(command).try_get_matches_from(words(arguments));
        matches.map_err(|error| anyhow!(one_line(&error)))
    };
    for (key, argument) in table.keys().zip(&arguments) {
        check(from_ref(argument)).with_context(|| format!("key {key:?}"))?;
    }
    check(&arguments)?;
    Ok(arguments)
}

fn of_table(table: &Table) -> Result<Vec<OsString>> {
    let argument = |(key, value): (&String, &Value)| {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Integer(_) | Value::Float(_) | Value::Boolean(_) => value.to_string(),
            _ => {
                bail!("the value of {key:?} must be a string, a number, true or false, got {value}")
            }
        };
        Ok(OsString::from(format!("{}={value}", flag(key))))
    };
    table.iter().map(argument).collect()
}

/// Inserts a program name before the arguments, because clap expects one.
fn words(arguments: &[OsString]) -> Vec<OsString> {
    [&["train".into()], arguments].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use train::presets::PRESETS;

    fn file(text: &str) -> Result<Vec<OsString>> {
        parse(text).and_then(|table| checked(&table))
    }

    fn options(arguments: &[OsString]) -> TrainOptions {
        read(&[arguments]).unwrap()
    }

    #[test]
    fn keys_are_flags_and_their_aliases() {
        let text = "n_embd = 64\r\nn-layer = 3\r\nlr = 1\ndropout_build = 'mkl'\ntied = true\n\
            preset = 'gpt2'\nseed = -1";
        let expected = "n_layers = 3\nlearning_rate = 1.0\ndropout_build = 'mkl'\n\
            tied = true\npreset = 'gpt2-124m'\nseed = -1";
        let table = options(&file(text).unwrap()).table().unwrap();
        for (key, value) in expected.parse::<Table>().unwrap() {
            assert_eq!(table[&key], value, "{key}");
        }
    }

    #[test]
    fn mistakes_are_told_by_key_or_line() {
        let least = "expected a whole number that is at least 0";
        for (text, parts) in [
            (
                "learnign_rate = 1",
                vec!["key \"learnign_rate\"", "'--learning-rate'"],
            ),
            ("n_layers = -1", vec!["key \"n_layers\"", "'-1'", least]),
            ("n_layers = 1.5", vec!["key \"n_layers\"", "'1.5'", least]),
            (
                "beta1 = nan",
                vec!["key \"beta1\"", "'nan'", "at least 0 and less than 1"],
            ),
            (
                "preset = 'gpt'",
                vec!["key \"preset\"", "story", "gpt2-124m"],
            ),
            (
                "data = ['a']",
                vec!["value of \"data\"", "[\"a\"]", "a string"],
            ),
            ("config = 'a.toml'", vec!["key \"config\"", "unexpected"]),
            (
                "n_layers = 1\nn_layer = 1",
                vec!["'--n-layers <N>'", "multiple times"],
            ),
            (
                "epochs = 1\nmax_iters = 1",
                vec!["'--epochs <N>'", "'--max-steps <N>'"],
            ),
            ("a = 1\nb = = 2", vec!["line 2: "]),
        ] {
            let error = format!("{:#}", file(text).unwrap_err());
            for part in parts {
                assert!(error.contains(part), "{text}: {error}");
            }
        }
    }

    #[test]
    fn the_last_value_counts_and_steps_and_epochs_are_one_option() {
        let words = |text: &str| text.split(' ').map(OsString::from).collect::<Vec<_>>();
        let below = of_new_run(None, None).unwrap();
        let steps = |arguments: &[OsString]| {
            let options = options(arguments);
            (options.max_steps.map(|n| n.0), options.epochs.map(|n| n.0))
        };
        assert_eq!(steps(&below), (Some(450), None));
        let epochs = [below, words("--seed=7 --epochs=3")].concat();
        assert_eq!(steps(&epochs), (None, Some(3)));
        let both = [epochs, words("--seed -1 --max-steps 5")].concat();
        assert_eq!((steps(&both), options(&both).seed), ((Some(5), None), -1));
    }

    #[test]
    fn a_model_to_go_on_from_says_what_it_is_like_and_how_it_is_trained() {
        let small = GptConfig {
            n_layers: 5,
            ..GptConfig::GPT2_124M
        };
        let fine_tuning = options(&of_new_run(Some(&small), None).unwrap());
        assert_eq!(fine_tuning.model(Some(&small)).unwrap(), small);
        assert_eq!(fine_tuning.learning_rate.0, FINE_TUNING.learning_rate);
        for &preset in PRESETS {
            let options = options(&of_new_run(None, Some(preset)).unwrap());
            assert_eq!(options.model(None).unwrap(), preset.model);
            assert_eq!(options.batch_size.0, preset.training.batch_size);
            assert_eq!(options.preset(), preset);
        }
    }

    #[test]
    fn what_is_kept_reads_back_the_same_whatever_its_size() {
        let most = i64::MAX;
        let text = format!(
            "seed = -1\neval_interval = {most}\nlearning_rate = 1e-300\ntied = false\n\
            prompt = \"\\\"\\\\\\u0001\\n= 'x'\"\npreset = 'gpt2'\ndropout_build = 'mkl'"
        );
        let first = options(&file(&text).unwrap());
        assert_eq!(first.prompt.as_deref(), Some("\"\\\u{1}\n= 'x'"));
        let kept = first.table().unwrap();
        let again = options(&file(&kept.to_string()).unwrap());
        assert_eq!(again.table().unwrap(), kept);
    }
}
