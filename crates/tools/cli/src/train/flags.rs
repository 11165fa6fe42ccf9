//! The flag that sets a setting of the crate `train` or `gpt`, for errors that name the setting.

use anyhow::{Error, anyhow};
use clap::{Args, Command};
use gpt::GptError;
use train::TrainError;

use super::options::TrainOptions;
use crate::terminal::command::flag;

/// Settings whose options have other names.
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

/// Returns the flag of a setting, such as `config.optimizer.lr`; the setting itself if it has none.
fn flag_of(setting: &str) -> String {
    let name = setting.rsplit('.').next().unwrap_or(setting);
    let renamed = OPTIONS.iter().find(|(other, _)| *other == name);
    let option = renamed.map_or(name, |(_, option)| option);
    let command = TrainOptions::augment_args(Command::new("train"));
    match command.get_arguments().any(|arg| arg.get_id() == option) {
        true => flag(option),
        false => setting.to_owned(),
    }
}

/// Returns an error that names flags in the place of settings.
pub(crate) fn with_flags(error: impl Into<TrainError>) -> Error {
    match error.into() {
        TrainError::Config {
            name,
            value,
            expected,
        } => anyhow!("{} must be {expected}, but is {value}", flag_of(name)),
        TrainError::Gpt(GptError::Zero { name }) => {
            anyhow!("{} must be at least 1, but is 0", flag_of(name))
        }
        TrainError::Gpt(GptError::HeadsDontDivide { emb_dim, n_heads }) => {
            anyhow!("--emb-dim {emb_dim} must be divisible by --n-heads {n_heads}")
        }
        TrainError::NotFinite {
            what,
            value,
            learning_rate,
        } => anyhow!(
            "the {what} is {value}; try --learning-rate below {learning_rate:e}, --warmup-steps or --grad-clip 1"
        ),
        TrainError::OtherRun {
            path,
            name,
            saved,
            now,
        } => anyhow!(
            "{}: {} is {saved} in this run and can't be changed to {now}",
            path.display(),
            flag_of(&name)
        ),
        TrainError::OnRank { rank, source } => anyhow!("rank {rank}: {:#}", with_flags(*source)),
        error => error.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_named_by_their_flags() {
        for (setting, expected) in [
            ("accumulation", "--gradient-accumulation-steps"),
            ("config.optimizer.lr", "--learning-rate"),
            ("config.optimizer.weight_decay", "--weight-decay"),
            ("training_data.max_length", "--max-length"),
            ("n_heads", "--n-heads"),
            ("config.optimizer.eps", "config.optimizer.eps"),
        ] {
            assert_eq!(flag_of(setting), expected);
        }
        for (_, option) in OPTIONS {
            assert_eq!(flag_of(option), flag(option), "it is an option");
        }
    }
}
