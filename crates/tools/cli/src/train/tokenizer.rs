//! `--tokenizer`: which tokenizer a new model gets.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use model_tokenizer::ModelTokenizer;
use train::runs::TOKENIZER;

use super::data::{Source, is_there};
use crate::vocabulary::folder_of;

/// A tokenizer by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenizerChoice {
    Gpt2,
    /// The characters of the data.
    Chars,
    /// Byte pairs trained on the data, by their number.
    Bpe(usize),
    /// A folder with a tokenizer, or a file in it: whatever else is said.
    Folder(PathBuf),
}

impl TokenizerChoice {
    /// The tokenizer, trained on the data if it is of those that are.
    ///
    /// # Errors
    /// If the data is ids, or has too few pairs; if the folder has no tokenizer that is read.
    pub(crate) fn make(&self, data: &mut Source) -> Result<ModelTokenizer> {
        let is_trained = matches!(self, Self::Chars | Self::Bpe(_));
        let text = is_trained.then(|| data.all_text()).transpose()?.flatten();
        let text = text.with_context(|| {
            format!("--tokenizer {self} is trained on a text, but the data is token ids")
        });
        Ok(match self {
            Self::Gpt2 => ModelTokenizer::gpt2(),
            Self::Chars => ModelTokenizer::train_chars(&text?)?,
            Self::Bpe(size) => ModelTokenizer::train_bpe(&text?, *size)?,
            Self::Folder(path) => read(path)?,
        })
    }
}

/// The tokenizer of a folder: a model's, or a run's.
fn read(path: &Path) -> Result<ModelTokenizer> {
    let name = path.display();
    if !is_there(path)? {
        bail!("--tokenizer {name}: expected gpt2, chars, bpe:N, or a folder with tokenizer.json");
    }
    let folder = folder_of(path);
    let found = match ModelTokenizer::from_folder(folder)? {
        None if folder.join(TOKENIZER).is_dir() => {
            ModelTokenizer::from_folder(folder.join(TOKENIZER))? // a run's
        }
        found => found,
    };
    found.with_context(|| {
        format!("--tokenizer {name}: expected tokenizer.json, or vocab.json and merges.txt")
    })
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
