//! `--tokenizer`: which tokenizer a new model gets.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Result, bail};
use model_tokenizer::ModelTokenizer;
use train::runs::TOKENIZER;

use crate::runs::kept_path;
use crate::vocabulary::{Vocabulary, folder_of};

/// What a user says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenizerChoice {
    Gpt2,
    /// The characters of the data.
    Chars,
    /// So many byte pairs, trained on the data.
    Bpe(usize),
    /// Whatever else is said is a folder with a tokenizer, or a file in it.
    Folder(PathBuf),
}

impl TokenizerChoice {
    /// The same from another folder.
    pub(crate) fn kept(self) -> Result<Self> {
        Ok(match self {
            Self::Folder(path) => Self::Folder(kept_path(&path)?),
            other => other,
        })
    }

    /// The tokenizer; `text` is what one is trained on, if the data is text.
    pub(crate) fn make(&self, text: Option<&str>) -> Result<Vocabulary> {
        let text = || match text {
            Some(text) => Ok(text),
            None => bail!("--tokenizer {self} is trained on a text, but the data is token ids"),
        };
        Ok(Vocabulary::new(match self {
            Self::Gpt2 => ModelTokenizer::gpt2(),
            Self::Chars => ModelTokenizer::train_chars(text()?)?,
            Self::Bpe(size) => ModelTokenizer::train_bpe(text()?, *size)?,
            Self::Folder(path) => read(path)?,
        }))
    }
}

/// Byte pairs of a text, fewer than `most` if it has fewer.
pub(crate) fn bpe_at_most(text: &str, most: usize) -> Result<TokenizerChoice> {
    let made = ModelTokenizer::train_bpe_at_most(text, most)?;
    Ok(TokenizerChoice::Bpe(made.vocab_size()))
}

fn read(path: &Path) -> Result<ModelTokenizer> {
    let name = path.display();
    if !path.exists() {
        bail!("--tokenizer {name}: expected gpt2, chars, bpe:N, or a folder with tokenizer.json");
    }
    let folder = folder_of(path);
    let found = match ModelTokenizer::from_folder(folder)? {
        None if folder.join(TOKENIZER).is_dir() => {
            ModelTokenizer::from_folder(folder.join(TOKENIZER))? // a run's
        }
        found => found,
    };
    match found {
        Some(tokenizer) => Ok(tokenizer),
        None => bail!("--tokenizer {name}: expected tokenizer.json, or vocab.json and merges.txt"),
    }
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

/// As it is said.
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
