//! The command line's outline; each subcommand's arguments are in its file.

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

/// Train GPT models and generate text with them: the book "Build a Large Language Model (From
/// Scratch)" in Rust
#[derive(Debug, Parser)]
#[command(name = "gpt", version, max_term_width = 80)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Train a model on a text; without arguments, a small one on a short story in half a minute
    Train(Box<TrainArgs>),
    /// Continue a text
    Generate(Box<GenerateArgs>),
    /// Measure how well a model predicts a text
    Eval(EvalArgs),
    /// Show the token ids of a text, or the text of ids
    Tokenize(TokenizeArgs),
    /// Show a model's shapes, parameters and memory
    Info(InfoArgs),
    /// Convert a model to Hugging Face's layout, the book's or llama.cpp's
    Convert(ConvertArgs),
    /// Show a model's predictions after a text; on a page also losses and attention
    #[command(visible_alias = "logits")]
    Inspect(InspectArgs),
    /// Print a shell's completions, to be saved where the shell looks for them
    Completions {
        /// The shell
        shell: Shell,
    },
}

/// The whole command line.
pub(crate) fn command() -> clap::Command {
    Cli::command().mut_subcommands(with_rules)
}

/// The arguments, with flags as nanoGPT writes them (`--n_layer=4`) turned into ours
/// (`--n-layer=4`).
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
            return arg; // a text that begins with two dashes
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
