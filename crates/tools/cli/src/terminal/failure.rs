//! Reports an error by printing a line to standard error and returning an exit code.
//!
//! | exit code | meaning |
//! |---|---|
//! | 1 | The command failed. |
//! | 2 | The command line is invalid. |
//! | 128 + N | Signal N ended the command. For example, the code is 130 after Ctrl-C. |

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::terminal::output::{is_closed, report};

/// Reports a mistake that clap has found in the command line, as a single line. The help and
/// version texts, which clap also returns as errors, are printed unchanged.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() {
        let shown = error.print().and_then(|()| io::stdout().flush());
        return shown.map_or_else(|error| failure(&error.into()), |()| ExitCode::SUCCESS);
    }
    if error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        let _ = error.print();
        return ExitCode::from(2);
    }
    let hint = hint(error).map_or(String::new(), |hint| format!(" ({hint})"));
    report(&(one_line(error) + &hint));
    ExitCode::from(2)
}

/// Options that users may know from similar programs, but that `gpt` doesn't have, each with a
/// hint. If a user tries one of these options, the error message contains its hint, such as "use
/// --max-new-tokens" for `--max-tokens`.
const FOREIGN_OPTIONS: [(&str, &str); 8] = [
    ("--max-tokens", "use --max-new-tokens"),
    ("--max-length", "use --max-new-tokens"),
    (
        "--device",
        "all computations run on the CPU; use --threads to set the number of threads",
    ),
    (
        "--beams",
        "beam search isn't supported; use --num-samples to generate several texts",
    ),
    (
        "--num-beams",
        "beam search isn't supported; use --num-samples to generate several texts",
    ),
    ("--start", "use --prompt"),
    (
        "--compile",
        "omit this option, because this program is already compiled",
    ),
    ("--precision", "use --dtype"),
];

/// Returns a hint for an unknown option or an unexpected argument.
fn hint(error: &clap::Error) -> Option<String> {
    if let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg)
        && let Some((_, ours)) = FOREIGN_OPTIONS.iter().find(|(other, _)| other == option)
    {
        return Some((*ours).to_owned());
    }
    let (Some(ContextValue::String(word)), Some(ContextValue::StyledStr(usage))) = (
        error.get(ContextKind::InvalidArg),
        error.get(ContextKind::Usage),
    ) else {
        return None;
    };
    if error.kind() != ErrorKind::UnknownArgument || word.starts_with('-') {
        return None;
    }
    let usage = usage.to_string();
    if usage.contains("gpt train") {
        Some(format!("to train on this file, use --data {word}"))
    } else if usage.contains("[TEXT]") {
        Some("put a text that consists of several words in quotes".to_owned())
    } else {
        None
    }
}

/// Reports an error with its causes and returns the exit code. If the program that reads standard
/// output has closed it, as in `gpt generate | head`, this isn't treated as an error. In this case,
/// nothing is printed, and the exit code is 0.
pub(crate) fn failure(error: &anyhow::Error) -> ExitCode {
    if is_closed(error) {
        return ExitCode::SUCCESS;
    }
    if error.is::<ReportedElsewhere>() {
        // Another rank (process) of the same MPI job is about to print this error. The launcher
        // ends all ranks as soon as one of them returns an exit code other than 0, so this rank
        // must return 0. Otherwise, the other rank might be ended before it has printed the error.
        return ExitCode::SUCCESS;
    }
    if let Some(Stopped(code)) = error.downcast_ref::<Stopped>() {
        return *code;
    }
    if let Some(usage) = error.downcast_ref::<Usage>() {
        report(&usage.0);
        return ExitCode::from(2);
    }
    report(&chain(error));
    ExitCode::FAILURE
}

/// An error on all ranks (the processes of an MPI job) that rank 0 prints. The other ranks end
/// without a message, so that the user sees the error only once.
#[derive(Debug, thiserror::Error)]
#[error("reported by another rank")]
pub(crate) struct ReportedElsewhere;

/// A reason to end a command early, such as Ctrl-C. All messages have already been printed, so the
/// error contains only the exit code.
#[derive(Debug, thiserror::Error)]
#[error("stopped")]
pub(crate) struct Stopped(pub(crate) ExitCode);

/// A mistake in the command line that clap can't detect.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// Returns a [`Usage`] error with this message.
pub(crate) fn misused<T>(message: impl Into<String>) -> Result<T> {
    Err(Usage(message.into()).into())
}

/// Formats an error as a single line that contains its message and the messages of its causes,
/// separated by colons.
fn chain(error: &anyhow::Error) -> String {
    words(&format!("{error:#}")).join(" ")
}

/// Splits a message at spaces and line breaks. Other whitespace, such as tabs, is kept because it
/// may be the reason why a value is invalid. [`report`] prints it as visible escape sequences.
fn words(message: &str) -> Vec<&str> {
    let words = message.split([' ', '\n']);
    words.filter(|word| !word.is_empty()).collect()
}

/// Formats a clap error as one line, which contains the problem, clap's tip in parentheses, and a
/// reference to `--help`.
pub(crate) fn one_line(error: &clap::Error) -> String {
    joined(&error.to_string())
}

fn joined(message: &str) -> String {
    let message = message.strip_prefix("error: ").unwrap_or(message);
    let mut parts = Vec::new();
    for paragraph in message.split("\n\n") {
        let words = words(paragraph);
        match words.first() {
            None | Some(&"Usage:") => {}
            Some(&"For") => parts.push("(see --help)".to_owned()),
            // Omits clap's tip on how to pass a value that begins with a hyphen and therefore looks
            // like an option. Most users who would see this tip have just mistyped the name of an
            // option.
            Some(&"tip:") if paragraph.contains("as a value") => {}
            Some(&"tip:") => parts.push(format!("({})", words.join(" "))),
            Some(_) => parts.push(words.join(" ")),
        }
    }
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

    #[test]
    fn causes_are_told_in_one_line() {
        let error = Err::<(), _>(anyhow!("no such\nfile"))
            .context("reading a.txt")
            .unwrap_err();
        assert_eq!(chain(&error), "reading a.txt: no such file");
    }
}
