//! A tokenizer by name, as `--tokenizer` takes it.

use std::convert::Infallible;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A tokenizer by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenizerChoice {
    Gpt2,
    /// The characters of the data.
    Chars,
    /// Byte pairs trained on the data, by their number.
    Bpe(usize),
    /// A folder with a tokenizer, or a file in it.
    Folder(PathBuf),
}

impl FromStr for TokenizerChoice {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        let size = text.strip_prefix("bpe:").and_then(|size| size.parse().ok());
        Ok(match (text, size) {
            ("gpt2", _) => Self::Gpt2,
            ("chars" | "char", _) => Self::Chars,
            (_, Some(size)) => Self::Bpe(size),
            _ => Self::Folder(text.into()),
        })
    }
}

/// The form that `--tokenizer` takes.
impl fmt::Display for TokenizerChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gpt2 => f.write_str("gpt2"),
            Self::Chars => f.write_str("chars"),
            Self::Bpe(size) => write!(f, "bpe:{size}"),
            Self::Folder(path) => path.display().fmt(f),
        }
    }
}
