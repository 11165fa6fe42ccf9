//! The settings that affect token IDs in tokenizer_config.json and related files: the class of the
//! tokenizer, the special tokens and the added tokens.

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

/// Names of the settings that define special tokens, in the order in which transformers assigns IDs
/// to the tokens.
const NAMED: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];

/// Names of the settings whose default value is `<|endoftext|>` if the class is `GPT2Tokenizer`.
const GPT2_NAMES: [&str; 3] = ["bos_token", "eos_token", "unk_token"];

/// The class in transformers that loads the tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// `GPT2Tokenizer`, which uses the vocabulary and the merges in the files but always divides
    /// text in the same way as GPT-2.
    Gpt2,
    /// `PreTrainedTokenizerFast`, which uses tokenizer.json as it is.
    AsWritten,
}

/// A special token as the files describe it: either only its text or an object with its settings.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Whole(TokenSettings),
}

/// The settings of an added token. Missing settings have the same default values as in
/// transformers.
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
    /// Tokens by name, in the order of the file, which determines the IDs of the tokens. As in
    /// Python, a name that occurs again gets a new token but keeps its position.
    ByName(IndexMap<String, Written>),
}

/// The settings of a file that define special tokens.
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

/// The settings in the files that accompany the vocabulary.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) class: Class,
    pub(crate) add_prefix_space: bool,
    /// Added tokens by ID, as listed in these files. They are merged with the added tokens in
    /// tokenizer.json.
    pub(crate) added: BTreeMap<u32, AddedToken>,
    /// Whether `added` takes precedence over the added tokens in tokenizer.json. This is the case
    /// if `added` comes from tokenizer_config.json, but not if it comes from added_tokens.json.
    pub(crate) added_override: bool,
    /// Special tokens in the order in which transformers assigns IDs to them: first the tokens that
    /// have their own settings, such as `bos_token`, and then the tokens in lists.
    pub(crate) special: Vec<AddedToken>,
    /// Text of `bos_token`, `eos_token` and `pad_token`.
    pub(crate) named: Named<String>,
    /// Values of the settings `add_bos_token` and `add_eos_token`, which have no effect if the
    /// folder contains a tokenizer.json.
    pub(crate) add_bos_eos: [bool; 2],
}

impl Config {
    /// Reads the settings. Missing settings have the same default values as in transformers.
    pub(crate) fn read(folder: &Path, files: &Files) -> Result<Self, ModelTokenizerError> {
        let path = folder.join(CONFIG);
        let file: ConfigFile = match files.get(CONFIG) {
            Some(text) => parse(&path, text)?,
            None => ConfigFile::default(),
        };
        // If no file contains a class but there is a tokenizer.json, transformers uses
        // tokenizer.json exactly as it is written.
        let unnamed = match files.contains_key(TOKENIZER) {
            true => Class::AsWritten,
            false => Class::Gpt2,
        };
        let class = class_of(&path, file.tokenizer_class.as_deref(), unnamed)?;
        if file.split_special_tokens == Some(true) {
            return Err(other_kind(&path, "split_special_tokens is set"));
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
        let added_override = file.added_tokens_decoder.is_some();
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
            added_override,
            special,
            named,
            add_bos_eos: [file.add_bos_token, file.add_eos_token].map(Option::unwrap_or_default),
        })
    }
}

/// The settings in config.json that concern the tokenizer.
#[derive(Deserialize)]
struct ModelConfig {
    tokenizer_class: Option<Value>,
    model_type: Option<Value>,
}

/// Adds the class of the tokenizer to tokenizer_config.json if that file doesn't contain a class.
/// As in transformers, the class comes from config.json. If config.json doesn't contain a class
/// either, the class of a model of type "gpt2" is `GPT2Tokenizer`.
///
/// The tokenizer therefore keeps its class if its files are later copied without config.json.
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
        Some(name) => Err(other_kind(path, format!("its tokenizer_class is {name:?}"))),
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
