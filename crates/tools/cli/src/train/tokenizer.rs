//! `--tokenizer`: which tokenizer a new model gets.

use std::convert::Infallible;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, bail};
use gpt::GptConfig;
use model_tokenizer::ModelTokenizer;

use super::data::Content;
use super::options::TrainOptions;
use crate::runs::TOKENIZER;
use crate::vocabulary::{Vocabulary, folder_at, is_gpt2_size};

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

/// The vocabulary of a new model: the tokenizer that was chosen, or the one beside the data's ids,
/// or the preset's.
///
/// # Errors
/// If the data is ids, or has too few pairs, and a tokenizer is to be trained on it; if a folder
/// has no tokenizer that is read.
pub(crate) fn vocabulary(options: &TrainOptions, data: &Content) -> Result<Vocabulary> {
    use TokenizerChoice::{Bpe, Chars, Folder, Gpt2};
    let size = options.shape.vocab_size;
    if let (None, Content::Ids(..), Some(file)) = (&options.tokenizer, data, &options.data) {
        let size = size.unwrap_or(GptConfig::GPT2_124M.vocab_size);
        return Vocabulary::of_folder(folder_at(file), size);
    }
    let text = || {
        data.text()
            .context("--tokenizer chars and bpe:N are trained on a text, but the data is token ids")
    };
    let preset = options.preset().bpe;
    let tokenizer = match (&options.tokenizer, preset) {
        (None, Some(most)) if !size.is_some_and(is_gpt2_size) => {
            ModelTokenizer::train_bpe_at_most(&text()?, most)?
        }
        (None | Some(Gpt2), _) => ModelTokenizer::gpt2(),
        (Some(Chars), _) => ModelTokenizer::train_chars(&text()?)?,
        (Some(Bpe(size)), _) => ModelTokenizer::train_bpe(&text()?, *size)?,
        (Some(Folder(path)), _) => read(path)?,
    };
    let least = tokenizer.vocab_size();
    if let Some(size) = size.filter(|&size| size < least) {
        bail!("--vocab-size {size}: the tokenizer has {least} tokens");
    }
    Ok(Vocabulary::new(tokenizer))
}

/// The tokenizer of a folder: a model's, or a run's.
fn read(path: &Path) -> Result<ModelTokenizer> {
    let name = path.display();
    if !path.exists() {
        bail!("--tokenizer {name}: expected gpt2, chars, bpe:N, or a folder with tokenizer.json");
    }
    let folder = folder_at(path);
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
