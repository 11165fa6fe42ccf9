//! The special tokens of a model, which mark the beginning (BOS) and the end (EOS) of a text or are
//! used for padding. A model folder contains their IDs.
//!
//! This crate doesn't read vocabularies. If a folder doesn't contain the ID of a special token,
//! this crate therefore calls a function that returns the ID from the caller's tokenizer.

use std::io::Write;
use std::path::Path;

use atomic_file::{is_file, write_atomically};
use serde_json::{Value, json};

use crate::error::CheckpointError;
use crate::json::{self, Fields};
use crate::model_files::{CONFIG, GENERATION_CONFIG};

/// The IDs of a model's BOS token, which marks the beginning of a text, of its EOS tokens, which
/// mark the end, and of its padding token.
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
    /// ID of the BOS token. An empty prompt is replaced by this token.
    pub bos: Option<u32>,
    /// IDs of the EOS tokens, which end a text. If there are none, a generated text ends only when
    /// it reaches its maximum length.
    pub eos: Vec<u32>,
    /// ID of the padding token, with which the shorter sequences in a batch are padded.
    pub pad: Option<u32>,
}

impl SpecialTokens {
    /// Returns the special tokens of a model in which the same token ends one text and begins the
    /// next. For GPT-2, the ID of this token is 50256.
    #[must_use]
    pub fn between(id: u32) -> Self {
        Self {
            bos: Some(id),
            eos: vec![id],
            ..Self::default()
        }
    }

    /// Reads the special tokens of a model folder. A token that generation_config.json doesn't
    /// contain is read from config.json. If config.json doesn't contain it, either, `tokenizer` is
    /// called with `bos_token`, `eos_token` or `pad_token` and returns its ID.
    ///
    /// The value `null` or a negative number means that there is no such token. As in transformers,
    /// if generation_config.json exists but contains no EOS token, there is none. If neither the
    /// files nor the tokenizer specify a BOS token, the first EOS token is used instead.
    ///
    /// # Errors
    ///
    /// Returns an error if a file can't be read, is damaged or is too long, or if a value isn't an
    /// ID.
    pub fn of_folder(
        folder: impl AsRef<Path>,
        tokenizer: impl Fn(&str) -> Option<u32>,
    ) -> Result<Self, CheckpointError> {
        let folder = folder.as_ref();
        let paths = [GENERATION_CONFIG, CONFIG].map(|name| folder.join(name));
        let read = |path| -> Result<_, CheckpointError> {
            is_file(path)?.then(|| Fields::read(path)).transpose()
        };
        let [generation, config] = [read(&paths[0])?, read(&paths[1])?];
        let declared = |key: &str| {
            let mut files = generation.iter().chain(&config);
            let file = files.find(|file| file.keys().any(|k| k == key));
            file.map(|file| ids(file, key)).transpose()
        };
        let one = |key: &str| declared(key).map(|ids| ids.map(|ids| ids.first().copied()));
        let eos = match &generation {
            Some(file) => Some(ids(file, "eos_token_id")?),
            None => declared("eos_token_id")?,
        };
        let eos = eos.unwrap_or_else(|| tokenizer("eos_token").into_iter().collect());
        let (bos, pad) = (one("bos_token_id")?, one("pad_token_id")?);
        Ok(Self {
            bos: bos.unwrap_or_else(|| tokenizer("bos_token").or(eos.first().copied())),
            eos,
            pad: pad.unwrap_or_else(|| tokenizer("pad_token")),
        })
    }

    /// Removes all IDs that aren't less than `vocab_size`, because a model with this vocabulary
    /// can't generate them.
    #[must_use]
    pub fn within(mut self, vocab_size: usize) -> Self {
        let known = |&id: &u32| (id as usize) < vocab_size;
        self.bos = self.bos.filter(known);
        self.eos.retain(known);
        self.pad = self.pad.filter(known);
        self
    }

    /// Writes these tokens to a generation_config.json in a model folder, as
    /// [`save_hugging_face`](crate::save_hugging_face) does.
    ///
    /// # Errors
    ///
    /// Returns an error if the file can't be written.
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<(), CheckpointError> {
        let mut json = json!({});
        self.add_to(&mut json);
        let text = json::text(&json);
        let file = folder.as_ref().join(GENERATION_CONFIG);
        Ok(write_atomically(file, |out| {
            out.write_all(text.as_bytes())
        })?)
    }

    /// Adds the keys of these tokens to a configuration.
    pub(crate) fn add_to(&self, json: &mut Value) {
        json["bos_token_id"] = json!(self.bos);
        json["eos_token_id"] = match &self.eos[..] {
            [] => Value::Null,
            [one] => json!(one),
            several => json!(several),
        };
        if let Some(pad) = self.pad {
            json["pad_token_id"] = json!(pad);
        }
    }
}

/// Returns the IDs in the value of a key, which is a number, an array of numbers or `null`. Numbers
/// that can't be IDs, such as -1, are omitted.
fn ids(file: &Fields<'_>, key: &str) -> Result<Vec<u32>, CheckpointError> {
    let list = match file.get(key) {
        None => &[],
        Some(Value::Array(list)) => &list[..],
        Some(one) => std::slice::from_ref(one),
    };
    let mut ids = Vec::new();
    for value in list {
        let id = value.as_i64();
        let id = id.ok_or_else(|| file.wrong(key, "an ID, a list of IDs or null", value))?;
        ids.extend(u32::try_from(id));
    }
    Ok(ids)
}
