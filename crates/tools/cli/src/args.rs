//! Defines the top level of `gpt`'s command line. Each subcommand defines its arguments in its own
//! module.

use std::ffi::OsString;

use clap::{CommandFactory, Parser, Subcommand};
use clap_complete::Shell;

use crate::convert::ConvertArgs;
use crate::eval::EvalArgs;
use crate::generate::GenerateArgs;
use crate::info::InfoArgs;
use crate::inspect::InspectArgs;
use crate::terminal::command::with_rules;
use crate::tokenize::TokenizeArgs;
use crate::train::TrainArgs;

/// Train GPT models and generate text with them, as in the book "Build a Large Language Model (From
/// Scratch)"
#[derive(Debug, Parser)]
#[command(name = "gpt", version, max_term_width = 80)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a model on a text (by default, a small model on a short story in half a minute)
    Train(Box<TrainArgs>),
    /// Generate text that continues a prompt
    Generate(Box<GenerateArgs>),
    /// Measure how well a model predicts a text
    Eval(EvalArgs),
    /// Convert a text to token IDs, or token IDs to a text
    Tokenize(TokenizeArgs),
    /// Show the size of a model and the memory that it requires
    Info(InfoArgs),
    /// Convert a model to the layout of Hugging Face, of the book, or of llama.cpp (GGUF)
    Convert(ConvertArgs),
    /// Show which tokens a model predicts, or write a web page that also shows losses and attention
    /// weights
    #[command(visible_alias = "logits")]
    Inspect(InspectArgs),
    /// Print a shell completion script
    Completions {
        /// The shell that will run the script
        shell: Shell,
    },
}

/// Returns the complete definition of the command line, from which clap parses the arguments. The
/// rules of [`with_rules`] are applied to every subcommand.
pub(crate) fn command() -> clap::Command {
    Cli::command().mut_subcommands(with_rules)
}

/// Replaces underscores in flag names with dashes, so that users can also write flags such as
/// `--n-layer=4` as they do with nanoGPT: `--n_layer=4`. The values of flags aren't changed, and
/// neither are arguments that follow a separate `--`.
pub(crate) fn with_dashes(args: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut only_values_follow = false;
    args.map(|arg| {
        let Some(text) = arg.to_str() else {
            return arg;
        };
        only_values_follow |= text == "--";
        if only_values_follow || !text.starts_with("--") {
            return arg;
        }
        let (flag, value) = text.split_at(text.find('=').unwrap_or(text.len()));
        if flag.contains(char::is_whitespace) {
            return arg; // An argument with whitespace is a text that happens to begin with `--`.
        }
        (flag.replace('_', "-") + value).into()
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn underscores_of_flags_become_dashes() {
        let args = ["gpt", "--n_layer=4", "--data=a_b", "a_b", "--", "--c_d"];
        let ours = ["gpt", "--n-layer=4", "--data=a_b", "a_b", "--", "--c_d"];
        assert_eq!(
            with_dashes(args.map(OsString::from).into_iter()),
            ours.map(OsString::from)
        );
    }
}
