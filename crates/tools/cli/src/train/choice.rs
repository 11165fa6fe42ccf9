//! Choices by name, as `--tokenizer` and `--preset` take them.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use train::presets::{PRESETS, Preset, PresetTokenizer};

use crate::terminal::command::in_home;
use crate::terminal::numbers::AtLeast1;

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

/// Reads a preset's name. The help lists the first name of each.
pub(crate) fn preset_parser() -> impl TypedValueParser<Value = Preset> {
    let value = |preset: Preset| PossibleValue::new(preset.name()).aliases(&preset.names[1..]);
    let names = PossibleValuesParser::new(PRESETS.map(value));
    names.try_map(|name| Preset::named(&name.to_lowercase()).ok_or("unknown preset"))
}
