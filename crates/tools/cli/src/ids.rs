//! Token ids from whatever the user has: a text, a file, standard input, or `--tokens 1,2,3`.
//!
//! `<|endoftext|>` in a text is the token of that name, as in the book.

use std::io::{self, IsTerminal, Read};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use atomic_file::read_small_file;
use clap::Args;
use dataloader::{BYTE_ORDER_MARK, Corpus, text_of};

use crate::failure::misused;
use crate::memory::check_free;
use crate::output::note;

/// A list as `--tokens` takes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TokenList(pub(crate) Vec<u32>);

impl std::str::FromStr for TokenList {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let ids = text.split([',', ' ', '\n']).filter(|id| !id.is_empty());
        let ids: Result<Vec<u32>, String> = ids
            .map(|id| {
                id.parse().map_err(|_| {
                    format!("{id:?} is no token id: expected whole numbers with commas")
                })
            })
            .collect();
        Ok(Self(ids?))
    }
}

/// A text, or ids in its place.
#[derive(Clone)]
pub(crate) enum Given {
    Ids(Corpus),
    Text(String),
}

/// Whether a file holds token ids.
pub(crate) fn is_token_file(path: &Path) -> bool {
    let extension = path.extension();
    extension.is_some_and(|extension| extension == "bin" || extension == "npy")
}

/// A file: UTF-8 text, or token ids.
pub(crate) fn read_given(path: &Path) -> Result<Given> {
    Ok(match is_token_file(path) {
        true => Given::Ids(Corpus::from_token_file(path)?),
        false => Given::Text(read_text(path, u64::MAX)?),
    })
}

/// A UTF-8 text file of at most `limit` bytes.
pub(crate) fn read_text(path: &Path, limit: u64) -> Result<String> {
    let name = path.display();
    let kind = std::fs::metadata(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => anyhow::anyhow!("{name}: no such file"),
        _ => anyhow::Error::new(error).context(name.to_string()),
    })?;
    if kind.is_dir() {
        bail!("{name}: expected a file, got a folder");
    }
    // What is too long is refused for that, however much memory there is.
    if kind.len() <= limit {
        check_text(&name.to_string(), kind.len())?;
    }
    utf8(read_small_file(path, limit)?, path)
}

/// That a text and its ids fit the memory: a token has some four bytes of text, its id has four,
/// and a copy of all ids is made.
fn check_text(name: &str, bytes: u64) -> Result<()> {
    check_free(3.0 * bytes as f64, "a text and its tokens").with_context(|| name.to_owned())
}

/// All of standard input, which may be endless: at most `limit` bytes, and what the memory has room
/// for.
pub(crate) fn read_stdin(limit: u64) -> Result<String> {
    const PIECE: u64 = 16 << 20;
    let (name, mut bytes) = ("standard input", Vec::new());
    loop {
        let read = io::stdin().lock().take(PIECE).read_to_end(&mut bytes);
        if read.context(name)? == 0 {
            return utf8(bytes, Path::new(name));
        }
        let size = bytes.len() as u64;
        if size > limit {
            bail!("{name}: more than the {limit} bytes that a prompt may have");
        }
        check_text(name, size)?;
    }
}

/// The most bytes of a prompt from standard input.
const MOST_PROMPT: u64 = 64 << 20;

/// The text of bytes; what a user should know of it is said.
fn utf8(bytes: Vec<u8>, path: &Path) -> Result<String> {
    let name = path.display();
    let marked = bytes.starts_with(BYTE_ORDER_MARK.as_bytes());
    let text = text_of(bytes, path)?;
    if marked {
        note(&format!("{name}: without the byte-order mark before it"));
    }
    if text.contains("\r\n") {
        note(&format!(
            "{name}: its lines end in CR and LF, which are tokens too; tr -d '\\r' leaves LF alone"
        ));
    }
    if text.contains('\0') {
        note(&format!(
            "{name}: it has NUL bytes; if it is UTF-16, iconv -f UTF-16LE -t UTF-8 makes a text of it"
        ));
    }
    Ok(text)
}

// No doc comment: it would take the place of a subcommand's own.
#[derive(Args, Debug)]
pub(crate) struct TextArgs {
    /// The text; - or nothing with a pipe reads standard input
    text: Option<String>,
    /// As the argument
    #[arg(short = 'p', long, value_name = "TEXT", conflicts_with_all = ["text", "file", "tokens"])]
    prompt: Option<String>,
    /// Read the text from a file; a .bin or .npy file holds ids
    #[arg(short = 'f', long, value_name = "FILE", conflicts_with_all = ["text", "tokens"])]
    file: Option<PathBuf>,
    /// Ids in place of a text
    #[arg(long, value_name = "1,2,3", conflicts_with = "text")]
    tokens: Option<TokenList>,
}

impl TextArgs {
    fn typed(&self) -> Option<&str> {
        self.text.as_deref().or(self.prompt.as_deref())
    }

    /// Whether an argument says what the text is.
    pub(crate) fn is_said(&self) -> bool {
        self.typed().is_some() || self.file.is_some() || self.tokens.is_some()
    }

    /// A text as it is, or ids; `None` if no argument says what and nothing is piped in, of which
    /// `limit` bytes are read at most.
    fn read(&self, limit: u64) -> Result<Option<Given>> {
        Ok(Some(match (&self.tokens, &self.file, self.typed()) {
            (Some(TokenList(ids)), ..) => Given::Ids(Corpus::from_ids(ids.as_slice())),
            (_, Some(path), _) => read_given(path)?,
            (.., Some(text)) if text != "-" => Given::Text(text.to_owned()),
            (.., None) if io::stdin().is_terminal() => return Ok(None),
            _ => Given::Text(read_stdin(limit)?),
        }))
    }

    /// A text as it is, or ids; there must be something.
    pub(crate) fn whole(&self) -> Result<Given> {
        self.read(u64::MAX)?.map_or_else(no_text, Ok)
    }

    /// A prompt, if there is one: the line end that files and `echo` put behind a text is not part
    /// of it.
    pub(crate) fn prompt(&self) -> Result<Option<Given>> {
        let is_typed = self.typed().is_some_and(|text| text != "-");
        Ok(match self.read(MOST_PROMPT)? {
            Some(Given::Text(mut text)) if !is_typed && text.ends_with('\n') => {
                text.pop();
                text.truncate(text.strip_suffix('\r').unwrap_or(&text).len());
                Some(Given::Text(text))
            }
            given => given,
        })
    }

    /// As [`prompt`](Self::prompt); there must be something.
    pub(crate) fn given(&self) -> Result<Given> {
        self.prompt()?.map_or_else(no_text, Ok)
    }
}

fn no_text<T>() -> Result<T> {
    misused("no text: give one, a file with -f, ids with --tokens, or pipe a text in")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_list_is_numbers_with_commas() {
        assert_eq!("1,2, 3".parse(), Ok(TokenList(vec![1, 2, 3])));
        assert_eq!("".parse(), Ok(TokenList(vec![])));
        for bad in ["1,x", "-1", "4294967296", "1.5"] {
            assert!(bad.parse::<TokenList>().is_err(), "{bad}");
        }
    }
}
