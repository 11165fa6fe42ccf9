//! `tokenizer_config.json` and the files beside it, as far as they change ids: the class, the named
//! special tokens, the added tokens.

use std::collections::BTreeMap;
use std::path::Path;

use atomic_file::quote_python_numbers;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokenizer::ENDOFTEXT;

use crate::added::AddedToken;
use crate::error::{ModelTokenizerError, other_kind};
use crate::files::{
    ADDED_TOKENS, CONFIG, Files, MODEL_CONFIG, SPECIAL_TOKENS, TOKENIZER, parse, parse_value, read,
};
use crate::spec::Named;

/// The special tokens that have names, in the order in which transformers gives them ids.
const NAMED: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];

/// The roles of `<|endoftext|>` in `GPT2Tokenizer` unless the files differ.
const GPT2_NAMES: [&str; 3] = ["bos_token", "eos_token", "unk_token"];

/// The class of transformers that makes a tokenizer of the files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// `GPT2Tokenizer`: takes the vocabulary and the merges, and divides text as GPT-2 does.
    Gpt2,
    /// `PreTrainedTokenizerFast`: takes tokenizer.json as it is.
    AsWritten,
}

/// A special token as these files write it: its text alone, or with settings.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Whole(TokenSettings),
}

/// An added token; missing settings are transformers' defaults.
#[derive(Debug, Deserialize)]
pub(crate) struct TokenSettings {
    content: String,
    #[serde(default)]
    single_word: bool,
    #[serde(default)]
    lstrip: bool,
    #[serde(default)]
    rstrip: bool,
    normalized: Option<bool>,
    #[serde(default)]
    special: bool,
}

impl TokenSettings {
    pub(crate) fn token(&self) -> AddedToken {
        AddedToken {
            content: self.content.clone(),
            single_word: self.single_word,
            lstrip: self.lstrip,
            rstrip: self.rstrip,
            normalized: self.normalized.unwrap_or(!self.special),
            special: self.special,
        }
    }
}

impl Written {
    fn special_token(self) -> AddedToken {
        match self {
            Self::Text(content) => AddedToken::new(content, true),
            Self::Whole(settings) => TokenSettings {
                special: true,
                ..settings
            }
            .token(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(
    untagged,
    expecting = "additional_special_tokens or extra_special_tokens: neither a list of tokens nor tokens by name"
)]
enum Several {
    List(Vec<Written>),
    /// In the order of the file, in which they get their ids; a name that comes again changes its
    /// token, not its place, as in Python.
    ByName(IndexMap<String, Written>),
}

/// The special tokens that the files name.
#[derive(Debug, Default, Deserialize)]
struct Names {
    additional_special_tokens: Option<Several>,
    extra_special_tokens: Option<Several>,
    #[serde(flatten)]
    rest: Map<String, Value>,
}

#[derive(Debug, Default, Deserialize)]
struct ConfigFile {
    tokenizer_class: Option<String>,
    add_prefix_space: Option<bool>,
    split_special_tokens: Option<bool>,
    added_tokens_decoder: Option<BTreeMap<u32, TokenSettings>>,
    add_bos_token: Option<bool>,
    add_eos_token: Option<bool>,
    #[serde(flatten)]
    names: Names,
}

/// The settings in the files beside the vocabulary.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) class: Class,
    pub(crate) add_prefix_space: bool,
    /// Tokens with the id that the files give them, besides those in tokenizer.json.
    pub(crate) added: BTreeMap<u32, AddedToken>,
    /// These are tokenizer_config.json's and win over tokenizer.json's; added_tokens.json's don't.
    pub(crate) added_win: bool,
    /// The special tokens that have names and those in lists, in transformers' order.
    pub(crate) special: Vec<AddedToken>,
    /// The texts of `bos_token`, `eos_token` and `pad_token`.
    pub(crate) named: Named<String>,
    /// `add_bos_token` and `add_eos_token`, which change nothing beside a tokenizer.json.
    pub(crate) adds: [bool; 2],
}

impl Config {
    /// Reads the files; missing settings are transformers' defaults for a GPT-2.
    pub(crate) fn read(folder: &Path, files: &Files) -> Result<Self, ModelTokenizerError> {
        let path = folder.join(CONFIG);
        let file: ConfigFile = match files.get(CONFIG) {
            Some(text) => parse(&path, text)?,
            None => ConfigFile::default(),
        };
        // A tokenizer.json of which no file names the class is taken as it is, like transformers'.
        let unnamed = match files.contains_key(TOKENIZER) {
            true => Class::AsWritten,
            false => Class::Gpt2,
        };
        let class = class_of(&path, file.tokenizer_class.as_deref(), unnamed)?;
        if file.split_special_tokens == Some(true) {
            return Err(other_kind(&path, "one with split_special_tokens"));
        }

        let mut names = file.names;
        if file.added_tokens_decoder.is_none()
            && let Some(text) = files.get(SPECIAL_TOKENS)
        {
            let map: Names = parse(&folder.join(SPECIAL_TOKENS), text)?;
            let additional = &mut names.additional_special_tokens;
            *additional = map.additional_special_tokens.or(additional.take());
            let extra = &mut names.extra_special_tokens;
            *extra = map.extra_special_tokens.or(extra.take());
            names.rest.extend(map.rest);
        }
        if class == Class::Gpt2 {
            for name in GPT2_NAMES {
                names.rest.entry(name).or_insert_with(|| ENDOFTEXT.into());
            }
        }
        let named = |name| -> Result<_, ModelTokenizerError> {
            Ok(special_token(&path, &names.rest, name)?.map(|token| token.content))
        };
        let named = [
            named("bos_token")?,
            named("eos_token")?,
            named("pad_token")?,
        ];
        let special = special_tokens(&path, names)?;

        let mut added = BTreeMap::new();
        let added_win = file.added_tokens_decoder.is_some();
        if let Some(tokens) = file.added_tokens_decoder {
            added.extend(tokens.iter().map(|(&id, settings)| (id, settings.token())));
        } else if let Some(text) = files.get(ADDED_TOKENS) {
            let ids: BTreeMap<String, u32> = parse(&folder.join(ADDED_TOKENS), text)?;
            added.extend(ids.into_iter().map(|(content, id)| {
                let is_special = special.iter().any(|token| token.content == content);
                (id, AddedToken::new(content, is_special))
            }));
        }
        Ok(Self {
            class,
            add_prefix_space: file.add_prefix_space.unwrap_or(false),
            added,
            added_win,
            special,
            named,
            adds: [file.add_bos_token, file.add_eos_token].map(Option::unwrap_or_default),
        })
    }
}

/// The part of config.json that is about the tokenizer.
#[derive(Deserialize)]
struct ModelConfig {
    tokenizer_class: Option<Value>,
    model_type: Option<Value>,
}

/// Writes the class that config.json names, or GPT-2's if that is the model's type, into
/// tokenizer_config.json, if it names none itself: transformers' order.
///
/// So the tokenizer's files keep their class when they are copied without config.json.
pub(crate) fn with_class_of_model(
    folder: &Path,
    files: &mut Files,
) -> Result<(), ModelTokenizerError> {
    let path = folder.join(MODEL_CONFIG);
    let Some(text) = read(&path)? else {
        return Ok(());
    };
    let ModelConfig {
        tokenizer_class,
        model_type,
    } = parse(&path, &quote_python_numbers(&text))?;
    let of_type = model_type
        .filter(|kind| kind == "gpt2")
        .map(|_| "GPT2Tokenizer".into());
    let Some(class) = tokenizer_class.filter(|class| !class.is_null()).or(of_type) else {
        return Ok(());
    };
    let own = files.get(CONFIG).map_or("{}", String::as_str);
    let mut own: Map<String, Value> = parse(&folder.join(CONFIG), own)?;
    if own.get("tokenizer_class").is_none_or(Value::is_null) {
        class_of(&path, class.as_str(), Class::Gpt2)?;
        own.insert("tokenizer_class".to_owned(), class);
        files.insert(CONFIG, format!("{:#}\n", Value::Object(own)));
    }
    Ok(())
}

fn class_of(path: &Path, name: Option<&str>, unnamed: Class) -> Result<Class, ModelTokenizerError> {
    match name {
        None => Ok(unnamed),
        Some("GPT2Tokenizer" | "GPT2TokenizerFast") => Ok(Class::Gpt2),
        Some("PreTrainedTokenizerFast" | "TokenizersBackend") => Ok(Class::AsWritten),
        Some(name) => Err(other_kind(path, format!("tokenizer_class {name:?}"))),
    }
}

fn special_tokens(path: &Path, names: Names) -> Result<Vec<AddedToken>, ModelTokenizerError> {
    let mut tokens = Vec::new();
    for name in NAMED {
        tokens.extend(special_token(path, &names.rest, name)?);
    }
    let several = [names.additional_special_tokens, names.extra_special_tokens];
    for several in several.into_iter().flatten() {
        let list = match several {
            Several::List(list) => list,
            Several::ByName(map) => map.into_values().collect(),
        };
        tokens.extend(list.into_iter().map(Written::special_token));
    }
    Ok(tokens)
}

fn special_token(
    path: &Path,
    names: &Map<String, Value>,
    name: &str,
) -> Result<Option<AddedToken>, ModelTokenizerError> {
    let value = names.get(name).filter(|value| !value.is_null());
    let written = value.map(|value| parse_value::<Written>(path, name, value));
    Ok(written.transpose()?.map(Written::special_token))
}
