//! The one way to the terminal: text from outside (models, files, names) that would steer it is
//! shown escaped.
//!
//! Lines for people are escaped wherever they go; text that was asked for goes into files and pipes
//! as it is.
//! Standard output's reader may leave at any time (`gpt generate | head`): a closed pipe is an
//! [`io::Error`] here, never a panic as with `println!`, and `main` ends quietly on it.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use clap::builder::styling::{AnsiColor, Style};
use serde::Serialize;

/// Writes lines for people to standard output, at once; what is not ours in them can't steer a
/// terminal.
///
/// # Errors
/// If standard output is closed or its disk is full.
pub(crate) fn print(lines: impl AsRef<str>) -> io::Result<()> {
    write(&tamed(lines.as_ref(), &['\n', '\t']))
}

/// Writes a text that was asked for: into a file or a pipe as it is, onto a terminal as [`print`]
/// does.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_text(text: &str) -> io::Result<()> {
    match io::stdout().is_terminal() {
        true => print(text),
        false => write(text),
    }
}

/// Writes lines with colours of ours, in which whoever made them has [`escaped`] what is not.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_coloured(lines: &str) -> io::Result<()> {
    write(lines)
}

/// One JSON object on one line. What JSON has no number for (NaN, infinity) becomes `null`.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    Ok(print_text(&(serde_json::to_string(value)? + "\n"))?)
}

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// A line without what would steer a terminal: names and texts from outside may hold anything.
pub(crate) fn escaped(line: &str) -> Cow<'_, str> {
    tamed(line, &[])
}

/// `text` with every character that would steer a terminal escaped, but those in `keeps`.
fn tamed<'t>(text: &'t str, keeps: &[char]) -> Cow<'t, str> {
    let is_escaped = |c: char| steers(c) && !keeps.contains(&c);
    if !text.contains(is_escaped) {
        return text.into();
    }
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        match is_escaped(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    shown.into()
}

/// Whether a terminal obeys this character (C0, DEL, C1) or shows the text behind it in another
/// order.
fn steers(c: char) -> bool {
    c.is_control() || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A grey line on standard error.
pub(crate) fn note(text: &str) {
    tell(&coloured(&escaped(text), AnsiColor::BrightBlack));
}

/// What went wrong, in a line on standard error.
pub(crate) fn report(message: &str) {
    let label = coloured("error:", AnsiColor::Red);
    tell(&format!("{label} {}", escaped(message)));
}

/// A line on standard error, which may be closed: then nobody is left to tell.
fn tell(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// A line about work that goes on: on a terminal in the place of the one that was `shown` before,
/// and gone at the end; elsewhere the first one alone.
pub(crate) fn status(line: Option<&str>, shown: &mut bool) {
    let mut out = io::stderr().lock();
    // Nobody has to read it.
    let _ = match (out.is_terminal(), line) {
        (true, Some(line)) => {
            let columns = usize::from(console::Term::stderr().size().1).saturating_sub(1);
            let line: String = escaped(line).chars().take(columns).collect();
            write!(out, "\r\u{1b}[2K{line}").and_then(|()| out.flush())
        }
        (true, None) if *shown => write!(out, "\r\u{1b}[2K").and_then(|()| out.flush()),
        (false, Some(line)) if !*shown => writeln!(out, "{}", escaped(line)),
        _ => Ok(()),
    };
    *shown |= line.is_some();
}

/// Whether `error` says that the reader of our output has gone.
pub(crate) fn is_closed(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// `text` in a colour, if standard error is a terminal that wants colours.
fn coloured(text: &str, colour: AnsiColor) -> String {
    let wanted = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    if !wanted {
        return text.to_owned();
    }
    let style = Style::new().bold().fg_color(Some(colour.into()));
    format!("{style}{text}{style:#}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_steers_a_terminal_is_escaped_and_nothing_else() {
        for steers in [
            "\u{1b}]0;title\u{7}",
            "\u{1b}]52;c;cGFzdGU=\u{7}",
            "\u{9b}31m",
            "\r",
            "\u{7f}",
            "\u{202e}gnp",
            "\u{2066}",
        ] {
            let shown = tamed(steers, &['\n', '\t']);
            assert!(!shown.contains(super::steers), "{shown:?}");
            assert!(matches!(escaped(steers), Cow::Owned(_)));
        }
        let text = "ein Löffel, שלום, 日本\u{301}\n\tnext";
        assert_eq!(tamed(text, &['\n', '\t']), text);
        assert_eq!(escaped("a\nb"), "a\\nb");
    }
}
