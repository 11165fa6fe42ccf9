//! The program's failures: a last line on standard error, and an exit code that distinguishes wrong
//! use from other failures.
//!
//! 1: something went wrong; 2: the command line is wrong; 130 and its kind (128 and the signal's
//! number): ended by a signal, in good order or at once.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::Result;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::terminal::output::{is_closed, report};

/// Shows a clap error: help and version as they are, mistakes in one line.
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

/// Options of other programs, and our equivalents.
const OTHERS: [(&str, &str); 8] = [
    ("--max-tokens", "use --max-new-tokens"),
    ("--max-length", "use --max-new-tokens"),
    (
        "--device",
        "all computations run on the CPU; use --threads to set the number of threads",
    ),
    (
        "--beams",
        "beam search isn't supported; use --num-samples to draw several texts",
    ),
    (
        "--num-beams",
        "beam search isn't supported; use --num-samples to draw several texts",
    ),
    ("--start", "use --prompt"),
    (
        "--compile",
        "leave it out, because this program is already compiled",
    ),
    ("--precision", "use --dtype"),
];

/// Guesses the meaning of another program's option, or of an unexpected word.
fn hint(error: &clap::Error) -> Option<String> {
    if let Some(ContextValue::String(option)) = error.get(ContextKind::InvalidArg)
        && let Some((_, ours)) = OTHERS.iter().find(|(other, _)| other == option)
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
        Some("put a text of several words in quotes".to_owned())
    } else {
        None
    }
}

/// Shows any other error, with its causes; a reader that has gone is none.
pub(crate) fn failure(error: &anyhow::Error) -> ExitCode {
    if is_closed(error) {
        return ExitCode::SUCCESS;
    }
    if error.is::<ReportedElsewhere>() {
        // The launcher ends all ranks at the first failure: that is the one that reports it.
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

/// An error that another rank reports.
#[derive(Debug, thiserror::Error)]
#[error("reported by another rank")]
pub(crate) struct ReportedElsewhere;

/// The work ended early, and what happened is printed already or by another process; only the exit
/// code remains.
#[derive(Debug, thiserror::Error)]
#[error("stopped")]
pub(crate) struct Stopped(pub(crate) ExitCode);

/// A combination of arguments that clap can't see to be wrong.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// A wrong combination of arguments, as a result.
pub(crate) fn misused<T>(message: impl Into<String>) -> Result<T> {
    Err(Usage(message.into()).into())
}

/// An error and its causes in one line.
fn chain(error: &anyhow::Error) -> String {
    words(&format!("{error:#}")).join(" ")
}

/// Splits a message at spaces and line ends only: [`report`] shows other white space, which may be
/// what is wrong with a value.
fn words(message: &str) -> Vec<&str> {
    let words = message.split([' ', '\n']);
    words.filter(|word| !word.is_empty()).collect()
}

/// Clap's paragraphs as one line: the fault, the tip in parentheses, the command for help.
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
            // An option's name as a value is hardly ever meant.
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
