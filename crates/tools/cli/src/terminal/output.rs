//! All terminal output goes through this file, which escapes control characters in text from
//! outside (models, files, names).
//!
//! Messages are always escaped; results go unchanged into files and pipes.
//! Standard output's reader may leave at any time (`gpt generate | head`): a closed pipe is an
//! [`io::Error`] here, never a panic as with `println!`, and `main` ends quietly on it.

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

/// Writes lines for people to standard output, immediately; control characters in foreign text are
/// escaped.
///
/// # Errors
/// If standard output is closed or its disk is full.
pub(crate) fn print(lines: impl AsRef<str>) -> io::Result<()> {
    write(&escaped_but(lines.as_ref(), &['\n', '\t']))
}

/// Writes a result: unchanged into a file or a pipe, like [`print`] onto a terminal.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_text(text: &str) -> io::Result<()> {
    match io::stdout().is_terminal() {
        true => print(text),
        false => write(text),
    }
}

/// Prints a JSON object as [`json_line`] makes it.
///
/// # Errors
/// As [`print`].
pub(crate) fn print_json(value: &impl Serialize) -> Result<()> {
    Ok(print_text(&json_line(value)?)?)
}

/// Returns a JSON object on one line. Numbers that JSON lacks (NaN, infinity) become `null`, and
/// whole numbers beyond 2^53, which jq and JavaScript would round, become strings.
///
/// # Errors
/// If the value isn't representable in JSON.
pub(crate) fn json_line(value: &impl Serialize) -> Result<String> {
    let mut line = Vec::new();
    value.serialize(&mut Serializer::with_formatter(&mut line, ExactNumbers))?;
    line.push(b'\n');
    Ok(String::from_utf8(line)?)
}

/// JSON without spaces, in which all numbers are exact in an f64.
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

/// The error of standard output, if its reader hasn't closed it.
static LOST: OnceLock<String> = OnceLock::new();

fn write(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    if let Err(error) = &written
        && error.kind() != ErrorKind::BrokenPipe
    {
        LOST.get_or_init(|| error.to_string());
    }
    written
}

/// Checks at the program's end that all of its output was written.
///
/// # Errors
/// If a write failed for another reason than a reader that has gone.
pub(crate) fn check_written() -> Result<()> {
    match LOST.get() {
        Some(error) => bail!("can't write to standard output: {error}"),
        None => Ok(()),
    }
}

/// Checks that a command can write to a path: a new file, a device, a pipe or a descriptor.
///
/// # Errors
/// If there is a file, a folder, or a link to one or to nothing.
pub(crate) fn check_new(path: &Path) -> Result<()> {
    require_new_output(path)?.iter().for_each(|text| note(text));
    Ok(())
}

/// Prints a note if the file system lacks something that makes writing beside `path` safe.
///
/// # Errors
/// If nothing can be written there.
pub(crate) fn note_missing_support(path: &Path) -> Result<()> {
    missing_support(path)?.iter().for_each(|text| note(text));
    Ok(())
}

/// Returns a line of a message with every character escaped that would control a terminal, or that
/// a reader of the message couldn't see: names and texts from outside may contain any character.
pub(crate) fn escaped(line: &str) -> Cow<'_, str> {
    escape(line, |c| is_control(c) || is_invisible(c))
}

/// `text` with every character that would steer a terminal escaped, but those in `keeps`.
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

/// True if a terminal obeys this character (C0, DEL, C1) or shows the text behind it in another
/// order.
fn is_control(c: char) -> bool {
    let turns = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    c.is_control() || turns || ['\u{200e}', '\u{200f}', '\u{61c}'].contains(&c)
}

/// True for a space other than the usual one, and for a character without a width.
fn is_invisible(c: char) -> bool {
    let has_no_width = matches!(c,
        '\u{ad}' | '\u{34f}' | '\u{180e}' | '\u{200b}'..='\u{200d}' | '\u{2060}'..='\u{2064}' | '\u{feff}'
        | '\u{e0000}'..='\u{e007f}');
    has_no_width || (c.is_whitespace() && c != ' ')
}

/// A grey line on standard error.
pub(crate) fn note(text: &str) {
    print_error(&style(escaped(text)).for_stderr().black().bright().bold());
}

/// Prints what went wrong in a line on standard error.
pub(crate) fn report(message: &str) {
    let label = style("error:").for_stderr().red().bold();
    print_error(&format!("{label} {}", escaped(message)));
}

/// Prints a line on standard error, which may be closed: then the line is lost.
fn print_error(line: &impl Display) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// True if `error` means that the reader of our output is gone.
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

    /// Node.js 20 and jq 1.6 read `{"seed":9007199254740993}` as 9007199254740992.
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
