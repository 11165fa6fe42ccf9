//! The tokens that begin, end and pad a model's texts, as its folder says, and the files about
//! texts that are carried from folder to folder as they are.
//!
//! It reads no vocabulary: names of tokens are the tokenizer's to resolve.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::path::Path;

use atomic_file::{read_small_file, write_atomically};
use serde_json::{Value, json};

use crate::config::{self, Pairs};
use crate::error::CheckpointError;
use crate::json::Fields;
use crate::places::{CONFIG, GENERATION_CONFIG};

/// The most bytes of one of those files.
const MOST_CARRIED_BYTES: u64 = 4 << 20;

/// The tokens that begin, end and pad a model's texts, by their ids.
///
/// ```
/// use checkpoint::SpecialTokens;
/// let folder = std::env::temp_dir().join(format!("gpt-special-tokens-{}", std::process::id()));
/// std::fs::create_dir(&folder)?;
/// std::fs::write(folder.join("config.json"), r#"{"bos_token_id": 5, "eos_token_id": [7, 8]}"#)?;
/// let no_tokenizer = |_: &str| None;
/// let tokens = SpecialTokens::of_folder(&folder, no_tokenizer)?;
/// assert_eq!((tokens.bos, tokens.pad), (Some(5), None));
/// assert_eq!(tokens.eos, [7, 8]);
/// std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SpecialTokens {
    /// The token that begins a text: what an empty prompt is continued from.
    pub bos: Option<u32>,
    /// The tokens that end a text; without any, texts end at their longest.
    pub eos: Vec<u32>,
    /// The token that fills a batch's shorter texts.
    pub pad: Option<u32>,
    /// The folder's files by name, written again as they were.
    carried: BTreeMap<&'static str, Vec<u8>>,
}

impl SpecialTokens {
    /// Files that say more about texts than is understood here.
    pub const FILES: [&str; 3] = [
        GENERATION_CONFIG,
        "chat_template.jinja",
        "chat_template.json",
    ];

    /// One token between two texts, which ends the one and begins the other: GPT-2's 50256.
    #[must_use]
    pub fn between(id: u32) -> Self {
        Self {
            bos: Some(id),
            eos: vec![id],
            ..Self::default()
        }
    }

    /// Reads what a model's folder says of each in generation_config.json, else in config.json, as
    /// transformers generates; else it is what the tokenizer calls `bos_token`, `eos_token` or
    /// `pad_token`, whose id `tokenizer` returns.
    ///
    /// `null` and negative numbers, which are no token's id, say that there is none.
    /// Where nothing is said of a beginning, texts begin with the first token that ends them.
    ///
    /// # Errors
    /// If one of the files is damaged or too long, or says something else than an id; if the
    /// operating system refuses.
    pub fn of_folder(
        folder: impl AsRef<Path>,
        tokenizer: impl Fn(&str) -> Option<u32>,
    ) -> Result<Self, CheckpointError> {
        let folder = folder.as_ref();
        let paths = [GENERATION_CONFIG, CONFIG].map(|name| folder.join(name));
        let mut files = Vec::new();
        for path in &paths {
            files.extend(unless_missing(Fields::read(path))?);
        }
        let said = |key: &str, several| {
            let file = files.iter().find(|file| file.keys().any(|k| k == key));
            file.map(|file| ids(file, key, several)).transpose()
        };
        let one = |key: &str| said(key, false).map(|ids| ids.map(|ids| ids.first().copied()));
        let eos = said("eos_token_id", true)?;
        let eos = eos.unwrap_or_else(|| tokenizer("eos_token").into_iter().collect());
        let bos = one("bos_token_id")?;
        let pad = one("pad_token_id")?;
        let mut carried = BTreeMap::new();
        for name in Self::FILES {
            let bytes = read_small_file(folder.join(name), MOST_CARRIED_BYTES);
            let bytes = unless_missing(bytes.map_err(CheckpointError::from))?;
            carried.extend(bytes.map(|bytes| (name, bytes)));
        }
        Ok(Self {
            bos: bos.unwrap_or_else(|| tokenizer("bos_token").or(eos.first().copied())),
            eos,
            pad: pad.unwrap_or_else(|| tokenizer("pad_token")),
            carried,
        })
    }

    /// Returns those that a model with so many tokens has: another never comes out of it.
    #[must_use]
    pub fn within(mut self, vocab_size: usize) -> Self {
        let known = |&id: &u32| (id as usize) < vocab_size;
        self.bos = self.bos.filter(known);
        self.eos.retain(known);
        self.pad = self.pad.filter(known);
        self
    }

    /// Writes generation_config.json into a model's folder, and what else its files said about
    /// texts, such as a chat template: as they were, if they were read.
    ///
    /// [`save_hugging_face`](crate::save_hugging_face) does it, too.
    ///
    /// # Errors
    /// If the operating system refuses.
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<(), CheckpointError> {
        for (name, bytes) in &self.files() {
            write_atomically(folder.as_ref().join(name), |out| out.write_all(bytes))?;
        }
        Ok(())
    }

    /// The files that are written, by their names.
    pub(crate) fn files(&self) -> BTreeMap<&'static str, Vec<u8>> {
        let mut files = self.carried.clone();
        let made = || config::text(self.pairs()).into_bytes();
        files.entry(GENERATION_CONFIG).or_insert_with(made);
        files
    }

    /// The keys of a configuration.
    pub(crate) fn pairs(&self) -> Pairs {
        let eos = match &self.eos[..] {
            [] => Value::Null,
            [one] => json!(one),
            several => json!(several),
        };
        let mut pairs = vec![("bos_token_id", json!(self.bos)), ("eos_token_id", eos)];
        pairs.extend(self.pad.map(|id| ("pad_token_id", json!(id))));
        pairs
    }
}

/// Returns the ids that a key says, without numbers that are no token's.
fn ids(file: &Fields<'_>, key: &str, several: bool) -> Result<Vec<u32>, CheckpointError> {
    let expected = match several {
        true => "an id, a list of ids or null",
        false => "an id or null",
    };
    let found = file.get(key);
    let list = match found {
        None => &[],
        Some(Value::Array(list)) if several => &list[..],
        Some(one) => std::slice::from_ref(one),
    };
    let is_whole = |value: &Value| value.is_i64() || value.is_u64();
    if let Some(wrong) = list.iter().find(|value| !is_whole(value)) {
        return Err(file.wrong(key, expected, wrong));
    }
    let id = |value: &Value| u32::try_from(value.as_u64()?).ok();
    Ok(list.iter().filter_map(id).collect())
}

/// Returns what was read, `None` if there is no such file.
fn unless_missing<T>(read: Result<T, CheckpointError>) -> Result<Option<T>, CheckpointError> {
    match read {
        Err(CheckpointError::Io(error)) if error.source.kind() == ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}
