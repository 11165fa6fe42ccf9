//! Parses the options whose values are names: `--tokenizer` and `--preset`.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use train::presets::{PRESETS, Preset, PresetTokenizer};

use crate::terminal::command::in_home;
use crate::terminal::numbers::AtLeast1;

/// The tokenizer that `--tokenizer` requests.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TokenizerChoice {
    Gpt2,
    /// A tokenizer with one token for each character of the data.
    Chars,
    /// A new byte-level BPE tokenizer that is trained on the training data. The number is the size
    /// of its vocabulary in tokens.
    Bpe(usize),
    /// An existing tokenizer, which is read from this folder. The path can also be that of a file
    /// in the folder, such as `tokenizer.json`.
    Folder(PathBuf),
}

impl From<PresetTokenizer> for TokenizerChoice {
    fn from(preset: PresetTokenizer) -> Self {
        match preset {
            PresetTokenizer::Gpt2 => Self::Gpt2,
            PresetTokenizer::Chars => Self::Chars,
            PresetTokenizer::Bpe(size) => Self::Bpe(size),
        }
    }
}

impl FromStr for TokenizerChoice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if let Some(size) = text.strip_prefix("bpe:") {
            let AtLeast1(size) = size.parse()?;
            return Ok(Self::Bpe(size));
        }
        Ok(match text {
            "gpt2" => Self::Gpt2,
            "chars" | "char" => Self::Chars,
            _ => Self::Folder(in_home(Path::new(text))?),
        })
    }
}

/// Formats a choice as a value that `--tokenizer` accepts.
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

/// Returns a parser for the names of presets. A preset can have several names, all of which the
/// parser accepts. The help shows only the first one.
pub(crate) fn preset_parser() -> impl TypedValueParser<Value = Preset> {
    let value = |preset: &Preset| PossibleValue::new(preset.name()).aliases(&preset.names[1..]);
    let names = PossibleValuesParser::new(PRESETS.iter().map(value));
    names.try_map(|name| Preset::named(&name.to_lowercase()).ok_or("unknown preset"))
}
