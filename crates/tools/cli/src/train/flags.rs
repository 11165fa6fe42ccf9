//! Replaces the names of settings in error messages of the crates `train` and `gpt` with the names
//! of command-line flags, so that users know which option to change.

use anyhow::{Error, anyhow};
use clap::{Args, Command};
use train::TrainError;

use super::options::TrainOptions;
use crate::terminal::command::flag;

/// Names of settings of the crates `train` and `gpt`, each paired with the name of the
/// corresponding command-line option. A setting that isn't in this list has the same name as its
/// option.
const OPTIONS: [(&str, &str); 8] = [
    ("accumulation", "gradient_accumulation_steps"),
    ("lr", "learning_rate"),
    ("initial_lr", "learning_rate"),
    ("total_steps", "max_steps"),
    ("max_grad_norm", "grad_clip"),
    ("eval_every", "eval_interval"),
    ("eval_batches", "eval_iters"),
    ("whole_epochs", "epochs"),
];

/// Returns the command-line flag for a setting such as `config.optimizer.lr`. Returns the name of
/// the setting if there is no flag for it.
fn flag_of(setting: &str) -> String {
    let name = setting.rsplit('.').next().unwrap_or(setting);
    let renamed = OPTIONS.iter().find(|(other, _)| *other == name);
    let option = renamed.map_or(name, |(_, option)| option);
    let command = TrainOptions::augment_args(Command::new("train"));
    let mut options = command.get_arguments().map(|arg| arg.get_id().as_str());
    match options.any(|id| id == option && (id.contains('_') || id != setting)) {
        true => flag(option),
        false => setting.to_owned(),
    }
}

/// Converts an error from the crate `train` to an `anyhow` error, and replaces the names of
/// settings in its message with the names of command-line flags.
pub(crate) fn with_flags(error: impl Into<TrainError>) -> Error {
    use TrainError::{Config, Gpt, NotFinite, OnRank, OtherRun};
    let error = error.into();
    if !matches!(
        error,
        Config { .. } | Gpt(_) | NotFinite { .. } | OnRank { .. } | OtherRun { .. }
    ) {
        return error.into();
    }
    let message = error.to_string();
    let words = message.split_inclusive([' ', ',']).map(|word| {
        let setting = word.trim_end_matches([' ', ',']);
        flag_of(setting) + &word[setting.len()..]
    });
    anyhow!(words.collect::<String>())
}

#[cfg(test)]
mod tests {
    use gpt::GptConfig;
    use train::TrainConfig;

    use super::*;

    #[test]
    fn settings_are_named_by_their_flags() {
        let config = TrainConfig {
            max_grad_norm: Some(-1.0),
            ..TrainConfig::default()
        };
        let model = GptConfig {
            n_heads: 7,
            ..GptConfig::GPT2_124M
        };
        let other = TrainError::OtherRun {
            path: "runs/lr".into(),
            name: "config.optimizer.weight_decay".to_owned(),
            saved: "0.1".to_owned(),
            now: "0".to_owned(),
        };
        for (error, expected) in [
            (config.validate().unwrap_err(), "--grad-clip must be"),
            (
                model.validate().unwrap_err().into(),
                "--emb-dim must be divisible by --n-heads, but --emb-dim is 768",
            ),
            (
                other,
                "runs/lr: --weight-decay is 0.1 in the checkpoint, but it is 0 now",
            ),
        ] {
            let message = with_flags(error).to_string();
            assert!(message.starts_with(expected), "{message}");
        }
        for (_, option) in OPTIONS {
            assert_eq!(flag_of(&format!("config.{option}")), flag(option));
        }
    }
}
