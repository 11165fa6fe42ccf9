//! The tokens at the beginning, end and padding of a model's texts, from its folder.
//!
//! It reads no vocabulary: names of tokens are the tokenizer's to resolve.

use std::io::Write;
use std::path::Path;

use atomic_file::{is_file, write_atomically};
use serde_json::{Value, json};

use crate::error::CheckpointError;
use crate::json::{self, Fields};
use crate::model_files::{CONFIG, GENERATION_CONFIG};

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
    /// The token at the beginning of a text; an empty prompt starts with it.
    pub bos: Option<u32>,
    /// The tokens that end a text; without any, texts end at their longest.
    pub eos: Vec<u32>,
    /// The token that fills a batch's shorter texts.
    pub pad: Option<u32>,
}

impl SpecialTokens {
    /// One token between two texts, which ends the one and begins the other: GPT-2's 50256.
    #[must_use]
    pub fn between(id: u32) -> Self {
        Self {
            bos: Some(id),
            eos: vec![id],
            ..Self::default()
        }
    }

    /// Reads each token from generation_config.json, otherwise from config.json, otherwise from the
    /// tokenizer's `bos_token`, `eos_token` or `pad_token`, whose id `tokenizer` returns.
    ///
    /// `null` and negative numbers mean that there is no such token. As in transformers, a
    /// generation_config.json without an end token means that there is none. Without a beginning
    /// token, texts begin with the first end token.
    ///
    /// # Errors
    /// If one of the files is damaged or too long, or a value isn't an id; if the operating system
    /// refuses.
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

    /// Returns those that a model with so many tokens has: another never comes out of it.
    #[must_use]
    pub fn within(mut self, vocab_size: usize) -> Self {
        let known = |&id: &u32| (id as usize) < vocab_size;
        self.bos = self.bos.filter(known);
        self.eos.retain(known);
        self.pad = self.pad.filter(known);
        self
    }

    /// Writes these tokens to a generation_config.json in a model's folder, like
    /// [`save_hugging_face`](crate::save_hugging_face).
    ///
    /// # Errors
    /// If the operating system refuses.
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

/// Returns the ids of a key, without numbers that aren't ids.
fn ids(file: &Fields<'_>, key: &str) -> Result<Vec<u32>, CheckpointError> {
    let list = match file.get(key) {
        None => &[],
        Some(Value::Array(list)) => &list[..],
        Some(one) => std::slice::from_ref(one),
    };
    let mut ids = Vec::new();
    for value in list {
        let id = value.as_i64();
        let id = id.ok_or_else(|| file.wrong(key, "an id, a list of ids or null", value))?;
        ids.extend(u32::try_from(id));
    }
    Ok(ids)
}
