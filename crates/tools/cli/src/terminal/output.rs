//! Writes to standard output and standard error. All output of the program goes through this
//! module.
//!
//! Text from models, files and file names may contain control characters, which could manipulate
//! the user's terminal. These characters are escaped in all messages, and also in results if
//! standard output is a terminal. Results that are written to files and pipes aren't changed.
//!
//! The program that reads standard output may close it at any time, as in `gpt generate | head`. In
//! this case, `println!` would panic. The functions of this module return an [`io::Error`] instead,
//! and `main` then ends the program without a message.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::sync::OnceLock;

use anyhow::{Result, bail};
use atomic_file::{FileError, missing_support, require_new_output};
use console::style;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};

/// Prints lines to standard output and flushes it. All control characters except line feeds and
/// tabs are escaped.
///
/// # Errors
/// Returns an error if standard output is closed or can't be written.
pub(crate) fn print(lines: impl AsRef<str>) -> io::Result<()> {
    write(&escaped_but(lines.as_ref(), &['\n', '\t']))
}

/// Prints a result to standard output. Control characters are escaped as in [`print`] if standard
/// output is a terminal, and are written unchanged otherwise.
///
/// # Errors
/// Returns the errors of [`print`].
pub(crate) fn print_text(text: &str) -> io::Result<()> {
    match io::stdout().is_terminal() {
        true => print(text),
        false => write(text),
    }
}

/// Prints a value to standard output as a single line of JSON. The line is formatted by
/// [`json_line`].
///
/// # Errors
/// Returns the errors of [`print`] and of [`json_line`].
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    Ok(print_text(&json_line(value)?)?)
}

/// Formats a value as a single line of JSON. Numbers that JSON can't represent (NaN and infinities)
/// become `null`. Integers beyond 2^53 become strings, because jq and JavaScript would round them.
///
/// # Errors
/// Returns an error if the value can't be represented in JSON.
pub(crate) fn json_line(value: &impl Serialize) -> Result<String> {
    let mut line = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut line, ExactNumbers))?;
    line.push(b'\n');
    Ok(String::from_utf8(line)?)
}

/// A JSON formatter that doesn't write any spaces. It writes integers beyond 2^53 as strings,
/// because an `f64` can't represent all of these integers exactly.
struct ExactNumbers;

impl ExactNumbers {
    fn write(out: &mut (impl Write + ?Sized), number: impl Display, size: u64) -> io::Result<()> {
        const MAX: u64 = 1 << f64::MANTISSA_DIGITS;
        match size > MAX {
            true => write!(out, "\"{number}\""),
            false => write!(out, "{number}"),
        }
    }
}

impl Formatter for ExactNumbers {
    fn write_u64<W: Write + ?Sized>(&mut self, out: &mut W, number: u64) -> io::Result<()> {
        Self::write(out, number, number)
    }

    fn write_i64<W: Write + ?Sized>(&mut self, out: &mut W, number: i64) -> io::Result<()> {
        Self::write(out, number, number.unsigned_abs())
    }
}

/// First error that occurred while the program was writing to standard output, for example because
/// the disk was full. At its end, the program reports this error. Broken pipes aren't stored,
/// because it isn't an error if the program that reads the output closes it, as in `gpt generate |
/// head`.
static OUTPUT_ERROR: OnceLock<String> = OnceLock::new();

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = &written
        && error.kind() != ErrorKind::BrokenPipe
    {
        OUTPUT_ERROR.get_or_init(|| error.to_string());
    }
    written
}

/// Checks that all output was written. This function is called at the end of the program.
///
/// # Errors
/// Returns an error if a write to standard output has failed, unless the reason was that the reader
/// had closed it.
pub(crate) fn check_written() -> Result<()> {
    match OUTPUT_ERROR.get() {
        Some(error) => bail!("can't write to standard output: {error}"),
        None => Ok(()),
    }
}

/// Checks that a command can create the output file `path`. A device or a pipe is also allowed.
/// Prints a note if the file system lacks a feature that this program uses to write files safely,
/// such as locks.
///
/// # Errors
/// Returns an error if the path is a file, a folder, or a symbolic link to a file, to a folder or
/// to a path that doesn't exist.
pub(crate) fn check_new(path: &Path) -> Result<()> {
    require_new_output(path)?.iter().for_each(|text| note(text));
    Ok(())
}

/// Prints a note if the file system that contains `path` lacks a feature that this program uses to
/// write files safely, such as locks.
///
/// # Errors
/// Returns an error if no file can be created in the folder of `path`.
pub(crate) fn note_missing_support(path: &Path) -> Result<()> {
    missing_support(path)?.iter().for_each(|text| note(text));
    Ok(())
}

/// Escapes invisible characters in a message, and characters that could manipulate the user's
/// terminal. Such characters can come from file names and from the contents of files.
pub(crate) fn escaped(line: &str) -> Cow<'_, str> {
    escape(line, |c| is_control(c) || is_invisible(c))
}

/// Replaces characters that could manipulate the user's terminal with escape sequences. The
/// characters in `keeps`, such as line feeds, stay as they are.
fn escaped_but<'t>(text: &'t str, keeps: &[char]) -> Cow<'t, str> {
    escape(text, |c| is_control(c) && !keeps.contains(&c))
}

fn escape(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
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

/// Returns true for control characters (C0, DEL and C1) and for characters that change the writing
/// direction of the text that follows.
fn is_control(c: char) -> bool {
    let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || ['\u{200e}', '\u{200f}', '\u{61c}'].contains(&c)
}

/// Returns true for characters that have no width, and for whitespace other than the ordinary
/// space.
fn is_invisible(c: char) -> bool {
    let has_no_width = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}'
        | '\u{e0000}'..='\u{e007f}');
    has_no_width || (c.is_whitespace() && c != ' ')
}

/// Prints a note to standard error, in gray if standard error supports colors.
pub(crate) fn note(text: &str) {
    print_error(&style(escaped(text)).for_stderr().black().bright().bold());
}

/// Prints an error message to standard error.
pub(crate) fn report(message: &str) {
    let label = style("error:").for_stderr().red().bold();
    print_error(&format!("{label} {}", escaped(message)));
}

/// Prints a line to standard error. If this fails, for example because standard error is closed,
/// the error is ignored.
fn print_error(line: &impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Returns true if an error occurred because the program that reads standard output has closed it,
/// as in `gpt generate | head`.
pub(crate) fn is_closed(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| {
            let file = cause.downcast_ref().map(|file: &FileError| &file.source);
            file.or(cause.downcast_ref::<io::Error>())
        })
        .any(|cause| cause.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In the program's JSON output, integers beyond 2^53 must be written as strings, because many
    /// programs that read JSON would round them. For example, Node.js 20 and jq 1.6 read
    /// `{"seed":9007199254740993}` as 9007199254740992.
    #[test]
    fn whole_numbers_that_f64_rounds_are_strings() {
        let numbers = (
            1u64 << 53,
            -(1i64 << 53),
            (1u64 << 53) + 1,
            u64::MAX,
            i64::MIN,
        );
        let expected = r#"[9007199254740992,-9007199254740992,"9007199254740993","18446744073709551615","-9223372036854775808"]"#;
        assert_eq!(json_line(&numbers).unwrap().trim_end(), expected);
        let floats = serde_json::json!({"a": [1e300, 0.5, -3], "b": null});
        let same = serde_json::to_string(&floats).unwrap();
        assert_eq!(json_line(&floats).unwrap().trim_end(), same);
    }

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
            let shown = escaped_but(steers, &['\n', '\t']);
            assert!(!shown.contains(super::is_control), "{shown:?}");
            assert!(matches!(escaped(steers), Cow::Owned(_)));
        }
        let text = "ein Löffel, שלום, 日本\u{301}\n\tnext";
        assert_eq!(escaped_but(text, &['\n', '\t']), text);
        assert_eq!(escaped("a\nb"), "a\\nb");
        assert_eq!(escaped("a\u{a0}b\u{200b} c"), "a\\u{a0}b\\u{200b} c");
    }
}
