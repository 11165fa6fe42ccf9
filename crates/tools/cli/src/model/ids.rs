//! Reads the input of a command, which is either a text or a list of token IDs. The input can come
//! from an argument, a file, a pipe or standard input.
//!
//! Wherever a command expects a file, users can also specify `-` for standard input, or a pipe such
//! as `<(...)` or `/dev/stdin`. Token IDs are loaded from a file only when they are needed. As in
//! the book, the string `<|endoftext|>` in a text is encoded as the special token.

use std::fs::{self, File};
use std::io::{self, BufRead, ErrorKind, IsTerminal, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use atomic_file::{missing_reason, open_file};
use clap::Args;
use dataloader::{Corpus, text_of};

use crate::terminal::failure::misused;
use crate::terminal::memory::check_free;
use crate::terminal::output::note;

/// Path that stands for standard input.
pub(crate) const STDIN: &str = "-";

/// Maximum length of a prompt in bytes.
const MAX_PROMPT: u64 = 64 << 20;

/// A list of token IDs, as specified with `--tokens`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenList(pub(crate) Vec<u32>);

impl std::str::FromStr for TokenList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let list = text
            .strip_prefix('[')
            .and_then(|text| text.strip_suffix(']'));
        let list = list.unwrap_or(text);
        let ids = list.split(|c: char| c == ',' || c.is_whitespace());
        let ids = ids.filter(|id| !id.is_empty()).map(|id| {
            id.parse().map_err(|_| {
                format!(
                    "{id:?} isn't a token ID; use whole numbers from 0 to {}, separated by commas",
                    u32::MAX
                )
            })
        });
        Ok(Self(ids.collect::<Result<_, String>>()?))
    }
}

/// The input of a command: either a text or a sequence of token IDs.
#[derive(Clone)]
pub(crate) enum Input {
    Ids(Corpus),
    Text(String),
}

/// Reads the input from a file or a pipe. If the path ends in `.bin` or `.npy`, the file must
/// contain token IDs. Otherwise, it must contain UTF-8 text.
pub(crate) fn read_input(path: &Path) -> Result<Input> {
    read_at_most(path, u64::MAX)
}

/// Reads token IDs, or a text of at most `limit` bytes.
fn read_at_most(path: &Path, limit: u64) -> Result<Input> {
    let holds_ids = ["bin", "npy"].contains(&extension(path).as_str());
    Ok(match holds_ids {
        true => Input::Ids(Corpus::from_token_file(path)?),
        false => Input::Text(read_text(path, limit)?),
    })
}

/// Returns the file extension of a path in lowercase, or an empty string if the path has no
/// extension.
pub(crate) fn extension(path: &Path) -> String {
    let extension = path.extension().unwrap_or_default();
    extension.to_string_lossy().to_lowercase()
}

/// Reads a UTF-8 text of at most `limit` bytes from a file or a pipe. Prints a note if the lines
/// end with CR LF.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<String> {
    const PIECE: u64 = 16 << 20;
    let (mut source, length) = open(path)?;
    let path = shown(path);
    let check = |bytes: u64| match bytes > limit {
        true => bail!(
            "{}: the text is longer than the maximum of {limit} bytes; use a shorter text",
            path.display()
        ),
        // Reading a text and converting it to token IDs needs about three times as much memory as
        // the text itself. On average, a token corresponds to four bytes of text, and its ID also
        // takes four bytes. The text, the IDs and a copy of the IDs are therefore about equally
        // large.
        false => check_free(3.0 * bytes as f64, "a text and its tokens")
            .with_context(|| path.display().to_string()),
    };
    check(length)?;
    let mut bytes = Vec::new();
    loop {
        let read = source.by_ref().take(PIECE).read_to_end(&mut bytes);
        if read.with_context(|| path.display().to_string())? == 0 {
            break;
        }
        // If the text is read from a pipe, its length isn't known in advance and may be unlimited.
        // Therefore, the number of bytes read so far is checked again after each block of data.
        check(bytes.len() as u64)?;
    }
    let name = path.display();
    let text = text_of(bytes, path)?;
    // Check whether the text contains CR LF, the line ending of Windows. Most texts don't contain
    // any CR. Searching for this single character first is several times faster than searching for
    // CR LF right away.
    if text.contains('\r') && text.contains("\r\n") {
        let fix = match cfg!(windows) {
            true => "use an editor to save the file with LF line endings",
            false => "to remove the CR characters, use tr -d '\\r'",
        };
        note(&format!(
            "{name}: the lines end with CR LF, so the CR characters become part of the text's tokens; {fix}"
        ));
    }
    Ok(text)
}

/// Reads the next line from standard input and removes its line ending. Returns `None` at the end
/// of standard input.
pub(crate) fn read_line() -> Result<Option<String>> {
    let mut line = Vec::new();
    // The number of bytes is limited, because an input without a line break, such as `/dev/zero`,
    // would otherwise fill the memory.
    let mut source = io::stdin().lock().take(MAX_PROMPT);
    let read = source.read_until(b'\n', &mut line);
    let read = read.context("standard input")?;
    let text = text_of(line, Path::new("standard input"))?;
    Ok((read > 0).then(|| without_line_end(text)))
}

fn without_line_end(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
        text.truncate(text.strip_suffix('\r').unwrap_or(&text).len());
    }
    text
}

/// Opens a file, a pipe or standard input. Also returns its length in bytes, or 0 if the length is
/// unknown.
fn open(path: &Path) -> Result<(Box<dyn Read>, u64)> {
    if path == Path::new(STDIN) {
        return Ok((Box::new(io::stdin()), 0));
    }
    let name = path.display();
    let found = match fs::metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let reason = missing_reason(path);
            bail!("{name}: {}", reason.as_deref().unwrap_or("no such file"))
        }
        found => found.with_context(|| name.to_string())?,
    };
    if found.is_dir() {
        bail!("{name}: this is a folder, but a file is required; specify the path of a file");
    }
    if found.is_file() {
        let (file, bytes) = open_file(path)?;
        return Ok((Box::new(file), bytes));
    }
    let pipe = File::open(path).with_context(|| name.to_string())?;
    Ok((Box::new(pipe), 0))
}

/// Returns true if the path refers to standard input: `-`, `/dev/stdin` or `/dev/fd/0`.
pub(crate) fn is_stdin(path: &Path) -> bool {
    [STDIN, "/dev/stdin", "/dev/fd/0"]
        .map(Path::new)
        .contains(&path)
}

/// Returns a path as it is shown in messages.
pub(crate) fn shown(path: &Path) -> &Path {
    match path == Path::new(STDIN) {
        true => Path::new("standard input"),
        false => path,
    }
}

// This struct has no doc comment, because clap would show the comment in the help for each
// subcommand that uses the struct.
#[derive(Args, Debug)]
pub(crate) struct TextArgs {
    /// The input text; if it is omitted or -, the text is read from standard input
    text: Option<String>,
    /// The input text (equivalent to the TEXT argument)
    #[arg(short = 'p', long, value_name = "TEXT", conflicts_with_all = ["text", "file", "tokens"])]
    prompt: Option<String>,
    /// Read the input text from a file, or read token IDs from a .bin or .npy file
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with_all = ["text", "tokens"])]
    file: Option<PathBuf>,
    /// Token IDs to use instead of an input text
    #[arg(long, value_name = "1,2,3", conflicts_with = "text")]
    tokens: Option<TokenList>,
}

impl TextArgs {
    fn argument(&self) -> Option<&str> {
        self.text.as_deref().or(self.prompt.as_deref())
    }

    /// Returns true if the command line specifies an input.
    pub(crate) fn is_present(&self) -> bool {
        self.argument().is_some() || self.file.is_some() || self.tokens.is_some()
    }

    /// Reads a text or token IDs. Unlike [`prompt`](Self::prompt), keeps a trailing line break.
    ///
    /// # Errors
    /// Returns a usage error if there is no input.
    pub(crate) fn required_text(&self) -> Result<Input> {
        self.read(false)?.map_or_else(no_text, Ok)
    }

    /// Reads a prompt in the same way as [`prompt`](Self::prompt), but returns an error instead of
    /// `None` if there is no input.
    ///
    /// # Errors
    /// Returns a usage error if there is no input.
    pub(crate) fn required_prompt(&self) -> Result<Input> {
        self.prompt()?.map_or_else(no_text, Ok)
    }

    /// Reads a prompt, or returns `None` if there is no input. If the prompt is read from a file or
    /// a pipe, a trailing line break is removed, because editors and `echo` add one to each text.
    pub(crate) fn prompt(&self) -> Result<Option<Input>> {
        self.read(true)
    }

    /// Reads the input from the source that the arguments specify. If they don't specify any, reads
    /// from standard input. Returns `None` if standard input would be read but is a terminal.
    fn read(&self, is_prompt: bool) -> Result<Option<Input>> {
        let path = match (&self.tokens, &self.file, self.argument()) {
            (Some(TokenList(ids)), ..) => {
                return Ok(Some(Input::Ids(Corpus::from_ids(ids.as_slice()))));
            }
            (None, Some(file), _) => file,
            (None, None, Some(text)) if text != STDIN => {
                let text = text_of(text.into(), Path::new("the text"))?;
                return Ok(Some(Input::Text(text)));
            }
            (None, None, None) if io::stdin().is_terminal() => return Ok(None),
            (None, None, _) => Path::new(STDIN),
        };
        let limit = if is_prompt { MAX_PROMPT } else { u64::MAX };
        Ok(Some(match read_at_most(path, limit)? {
            Input::Text(text) if is_prompt => Input::Text(without_line_end(text)),
            input => input,
        }))
    }
}

fn no_text<T>() -> Result<T> {
    misused(
        "there is no input; specify a text, a file (-f) or token IDs (--tokens), or pipe in a text",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_list_is_numbers_with_commas() {
        for list in ["1,2, 3", "[1, 2, 3]", "1\t2\r\n3", " [1\u{a0}2,3]\n"] {
            assert_eq!(list.parse(), Ok(TokenList(vec![1, 2, 3])), "{list:?}");
        }
        for none in ["", "[]"] {
            assert_eq!(none.parse(), Ok(TokenList(vec![])));
        }
        for bad in ["1,x", "-1", "4294967296", "1.5", "[1,2", "1]", "[[1]]"] {
            assert!(bad.parse::<TokenList>().is_err(), "{bad}");
        }
        let error = "1,\u{200b}2".parse::<TokenList>().unwrap_err();
        assert!(error.contains("\\u{200b}2"), "{error}");
    }
}
