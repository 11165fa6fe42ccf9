//! Reads and writes the IDs of a model's special tokens, which mark the beginning (BOS) and the end
//! (EOS) of a text or are used for padding.
//!
//! The IDs are usually stored in the configuration files of the model folder. If the files don't
//! contain the ID of a special token, the ID must be looked up in the tokenizer's vocabulary.
//! Because this crate doesn't read vocabularies, the caller passes a function for this purpose.

use std::io::Write;
use std::path::Path;

use atomic_file::{is_file, write_atomically};
use serde_json::{Value, json};

use crate::error::CheckpointError;
use crate::json::{self, Fields};
use crate::model_files::{CONFIG, GENERATION_CONFIG};

/// The IDs of a model's special tokens: the BOS token, which marks the beginning of a text; the EOS
/// tokens, which mark its end; and the padding token.
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
    /// IDs of the EOS tokens. A generated text ends when the model generates one of them. If there
    /// are no EOS tokens, the text ends only when it reaches its maximum length.
    pub eos: Vec<u32>,
    /// ID of the padding token, which fills up the shorter sequences in a batch.
    pub pad: Option<u32>,
}

impl SpecialTokens {
    /// Returns the special tokens of a model that uses the same token as its BOS token and its EOS
    /// token. For GPT-2, the ID of this token is 50256.
    #[must_use]
    pub fn between(id: u32) -> Self {
        Self {
            bos: Some(id),
            eos: vec![id],
            ..Self::default()
        }
    }

    /// Finds the special tokens of the model in `folder`. Each token is looked up first in
    /// generation_config.json and then in config.json. If neither file specifies the token, the
    /// function calls `tokenizer` with `bos_token`, `eos_token` or `pad_token`. It should return
    /// the ID of this token, or `None` if the tokenizer doesn't have it.
    ///
    /// If a file contains `null` or a negative number instead of an ID, the model doesn't have the
    /// token. As in transformers, the model has no EOS token if generation_config.json exists but
    /// doesn't specify one. If neither the files nor the tokenizer specify a BOS token, the first
    /// EOS token is used as the BOS token.
    ///
    /// # Errors
    ///
    /// Returns an error if a file can't be read, isn't a JSON object, or has more than 256 KiB, or
    /// if the value of a token isn't an integer, a list of integers or `null`.
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

    /// Removes the IDs of special tokens that are too large for a model with a vocabulary of
    /// `vocab_size` tokens. Such a model could neither read nor generate these tokens.
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

/// Returns the IDs of the special tokens that a configuration file specifies for `key`, such as
/// `eos_token_id`. The value can be a number, an array of numbers or `null`. Numbers that can't be
/// token IDs, such as -1, are omitted.
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
