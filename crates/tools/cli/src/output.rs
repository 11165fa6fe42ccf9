//! Standard output, whose reader may leave at any time (`gpt generate | head`), and colours for terminals.
//!
//! A closed pipe is an [`io::Error`] here, never a panic as with `println!`; `main` ends quietly on it.

use std::io::{self, IsTerminal, Write};

use anyhow::Result;
use clap::builder::styling::{AnsiColor, Style};
use serde::Serialize;

/// Writes to standard output at once.
///
/// # Errors
/// If standard output is closed or its disk is full.
pub(crate) fn print(text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_ref())?;
    out.flush()
}

/// One JSON object on one line. What JSON has no number for (NaN, infinity) becomes `null`.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(print(line)?)
}

/// A line for people, without what would steer their terminal: names and texts from outside may hold anything.
pub(crate) fn escaped(line: &str) -> String {
    let mut shown = String::with_capacity(line.len());
    for character in line.chars() {
        match character.is_control() || BIDIRECTIONAL.contains(&character) {
            true => shown.extend(character.escape_default()),
            false => shown.push(character),
        }
    }
    shown
}

/// Characters that show the text behind them in another order.
const BIDIRECTIONAL: [char; 9] = [
    '\u{202a}', '\u{202b}', '\u{202c}', '\u{202d}', '\u{202e}', '\u{2066}', '\u{2067}', '\u{2068}',
    '\u{2069}',
];

/// A grey line on standard error, which may be closed.
pub(crate) fn note(text: &str) {
    let text = coloured(&escaped(text), AnsiColor::BrightBlack);
    let _ = writeln!(io::stderr(), "{text}");
}

/// Whether `error` says that the reader of our output has gone.
pub(crate) fn is_closed(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

/// `text` in a colour, if standard error is a terminal that wants colours.
pub(crate) fn coloured(text: &str, colour: AnsiColor) -> String {
    let wanted = io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    if !wanted {
        return text.to_owned();
    }
    let style = Style::new().bold().fg_color(Some(colour.into()));
    format!("{style}{text}{style:#}")
}
