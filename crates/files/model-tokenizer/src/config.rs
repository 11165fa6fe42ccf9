//! Reads the settings that affect token IDs from tokenizer_config.json and related files. These
//! settings are the class of the tokenizer, its special tokens and its added tokens.

use std::collections::BTreeMap;
use std::path::Path;

use atomic_file::quote_python_numbers;
use indexmap::IndexMap;
use serde::Deserialize;
use serde_json::{Map, Value};
use tokenizer::ENDOFTEXT;

use crate::added::AddedToken;
use crate::error::{ModelTokenizerError, other_kind, other_setting};
use crate::files::{
    ADDED_TOKENS, CONFIG, Files, MODEL_CONFIG, SPECIAL_TOKENS, TOKENIZER, parse, parse_value, read,
};
use crate::spec::Named;

/// Names of the settings that define special tokens, in the order in which transformers assigns IDs
/// to these tokens.
const NAMED: [&str; 7] = [
    "bos_token",
    "eos_token",
    "unk_token",
    "sep_token",
    "pad_token",
    "cls_token",
    "mask_token",
];

/// Names of the settings that have the default value `<|endoftext|>` if the class of the tokenizer
/// is `GPT2Tokenizer`.
const GPT2_NAMES: [&str; 3] = ["bos_token", "eos_token", "unk_token"];

/// The class in transformers that loads the tokenizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// The class `GPT2Tokenizer` of transformers. It uses the vocabulary and the merges in the
    /// tokenizer's files, but divides text by GPT-2's own rules instead of the settings in
    /// tokenizer.json.
    Gpt2,
    /// The class `PreTrainedTokenizerFast` of transformers. It divides and encodes text exactly as
    /// the settings in tokenizer.json define.
    AsWritten,
}

/// A special token as it is written in a JSON file: either as a string that contains only its text,
/// or as an object that also contains its settings.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Written {
    Text(String),
    Whole(TokenSettings),
}

/// The settings of an added token in a JSON file. Settings that are missing from the file have the
/// same default values as in transformers.
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
    expecting = "additional_special_tokens or extra_special_tokens must be a list of tokens, or an object that maps names to tokens"
)]
enum Several {
    List(Vec<Written>),
    /// An object that maps names to tokens. The entries have the same order as in the file, because
    /// this order determines the IDs of the tokens. If a name occurs twice, the second token
    /// replaces the first one but keeps its position, as in a Python dictionary.
    ByName(IndexMap<String, Written>),
}

/// The settings that define special tokens, as read from a file.
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

/// The settings in tokenizer_config.json, special_tokens_map.json and added_tokens.json.
#[derive(Debug)]
pub(crate) struct Config {
    pub(crate) class: Class,
    pub(crate) add_prefix_space: bool,
    /// Added tokens by ID, as listed in tokenizer_config.json or added_tokens.json. They are merged
    /// with the added tokens in tokenizer.json.
    pub(crate) added: BTreeMap<u32, AddedToken>,
    /// Whether the added tokens in the field `added` override those in tokenizer.json. If this is
    /// true and both contain a token with the same ID, the token in `added` is used. The value is
    /// true if `added` was read from tokenizer_config.json, and false if it was read from
    /// added_tokens.json.
    pub(crate) added_override: bool,
    /// Special tokens in the order in which transformers assigns IDs to them: first the tokens that
    /// have settings of their own, such as `bos_token`, and then the tokens in lists, such as
    /// `additional_special_tokens`.
    pub(crate) special: Vec<AddedToken>,
    /// Texts of the special tokens `bos_token`, `eos_token` and `pad_token`.
    pub(crate) named: Named<String>,
    /// Values of the settings `add_bos_token` and `add_eos_token`, in this order. They determine
    /// whether the tokenizer adds its `bos_token` before each text and its `eos_token` after each
    /// text. They have no effect if the folder contains a tokenizer.json.
    pub(crate) add_bos_eos: [bool; 2],
}

impl Config {
    /// Reads the settings from the files of a folder. Settings that are missing have the same
    /// default values as in transformers.
    pub(crate) fn read(folder: &Path, files: &Files) -> Result<Self, ModelTokenizerError> {
        let path = folder.join(CONFIG);
        let file: ConfigFile = match files.get(CONFIG) {
            Some(text) => parse(&path, text)?,
            None => ConfigFile::default(),
        };
        // If no file contains the name of a tokenizer class, but there is a tokenizer.json,
        // transformers uses the settings in tokenizer.json exactly as they are written. Without a
        // tokenizer.json, the files vocab.json and merges.txt are read as those of a
        // `GPT2Tokenizer`.
        let unnamed = match files.contains_key(TOKENIZER) {
            true => Class::AsWritten,
            false => Class::Gpt2,
        };
        let class = class_of(&path, file.tokenizer_class.as_deref(), unnamed)?;
        if file.split_special_tokens == Some(true) {
            return Err(other_setting(&path, "split_special_tokens is set"));
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

/// Adds the class of the tokenizer to the contents of tokenizer_config.json if that file doesn't
/// contain a class. As in transformers, the class is read from config.json. If config.json doesn't
/// contain a class either, but the type of the model is "gpt2", the class is `GPT2Tokenizer`. In
/// all other cases, nothing is added.
///
/// If the class were contained only in config.json, it would be lost when the tokenizer is saved to
/// another folder, because `save` writes tokenizer_config.json but not config.json.
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
        Some(name) => Err(other_kind(path, format!("the tokenizer_class is {name:?}"))),
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
