//! Reads the definition of a tokenizer from tokenizer.json, or from vocab.json and merges.txt. If a
//! file contains an unsupported setting, the error message contains the name or the value of this
//! setting.

use std::collections::HashMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::config::{Class, Config, TokenSettings};
use crate::error::{ModelTokenizerError, invalid, other_kind, other_setting};
use crate::files::{CONFIG, Files, MERGES, TOKENIZER, VOCABULARY, parse};
use crate::normalization::Normalization;
use crate::spec::{Affixes, Form, TokenizerSpec};
use crate::split::Split;

/// The fields of tokenizer.json that determine the kind of the tokenizer. They are parsed first,
/// because the structure of the other fields depends on the kind.
#[derive(Deserialize)]
struct KindOnly {
    model: ModelKind,
}

#[derive(Deserialize)]
struct ModelKind {
    #[serde(rename = "type")]
    kind: Option<String>,
    #[serde(default)]
    byte_fallback: bool,
}

#[derive(Deserialize)]
struct Json {
    #[serde(default)]
    added_tokens: Vec<Added>,
    normalizer: Option<Part>,
    pre_tokenizer: Option<PreTokenizer>,
    post_processor: Option<Value>,
    decoder: Option<Part>,
    model: Bpe,
}

#[derive(Deserialize)]
struct Added {
    id: u32,
    #[serde(flatten)]
    settings: TokenSettings,
}

/// A component of a tokenizer in tokenizer.json, such as its normalizer or its decoder, of which
/// only the type matters. If the component is a normalizer of the type "Sequence", the field
/// `normalizers` contains its parts.
#[derive(Deserialize)]
struct Part {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    normalizers: Vec<Part>,
}

/// The supported settings of a pre-tokenizer.
#[derive(Deserialize)]
struct PreTokenizer {
    #[serde(rename = "type")]
    kind: String,
    add_prefix_space: Option<bool>,
    use_regex: Option<bool>,
    pretokenizers: Option<Vec<PreTokenizer>>,
    pattern: Option<Pattern>,
    behavior: Option<String>,
    #[serde(default)]
    invert: bool,
    individual_digits: Option<bool>,
}

#[derive(Deserialize)]
enum Pattern {
    String(String),
    Regex(String),
}

/// The fields of a post-processor that determine which tokens it adds before and after a text.
#[derive(Deserialize)]
#[serde(tag = "type")]
enum PostProcessor {
    ByteLevel,
    Sequence {
        processors: Vec<PostProcessor>,
    },
    TemplateProcessing {
        single: Vec<Piece>,
        special_tokens: HashMap<String, Special>,
    },
    #[serde(alias = "BertProcessing")]
    RobertaProcessing {
        cls: (String, u32),
        sep: (String, u32),
    },
}

/// An item in the template of a post-processor: either a placeholder for the text that is encoded,
/// or the name of a special token.
#[derive(Deserialize)]
enum Piece {
    Sequence {},
    SpecialToken { id: String },
}

#[derive(Deserialize)]
struct Special {
    ids: Vec<u32>,
}

#[derive(Deserialize)]
struct Bpe {
    vocab: HashMap<String, u32>,
    merges: Vec<Merge>,
    dropout: Option<f32>,
    unk_token: Option<String>,
    continuing_subword_prefix: Option<String>,
    end_of_word_suffix: Option<String>,
    #[serde(default)]
    fuse_unk: bool,
    #[serde(default)]
    ignore_merges: bool,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Merge {
    Pair(String, String),
    Line(String),
}

/// Returns true if the files contain a vocabulary.
pub(crate) fn is_in(files: &Files) -> bool {
    files.contains_key(TOKENIZER) || files.contains_key(VOCABULARY)
}

/// Returns the definition of the tokenizer that consists of the given files, or `None` if the files
/// contain no vocabulary.
pub(crate) fn read(
    folder: &Path,
    files: &Files,
) -> Result<Option<TokenizerSpec>, ModelTokenizerError> {
    let config = || Config::read(folder, files);
    if let Some(text) = files.get(TOKENIZER) {
        return from_json(&folder.join(TOKENIZER), text, config()?).map(Some);
    }
    match (files.get(VOCABULARY), files.get(MERGES)) {
        (Some(vocabulary), Some(merges)) => {
            let vocabulary = parse(&folder.join(VOCABULARY), vocabulary)?;
            let merges = lines_of(&folder.join(MERGES), merges)?;
            Ok(Some(from_config(folder, vocabulary, merges, config()?)))
        }
        (Some(_), None) => Err(invalid(
            &folder.join(VOCABULARY),
            "this file requires a merges.txt in the same folder, but there is none",
        )),
        (None, Some(_)) => Err(invalid(
            &folder.join(MERGES),
            "this file requires a vocab.json in the same folder, but there is none",
        )),
        (None, None) => Ok(None),
    }
}

/// Returns the definition of a tokenizer that consists of vocab.json and merges.txt. Like GPT-2's
/// tokenizer, it divides text by GPT-2's pattern and has no unknown token.
fn from_config(
    folder: &Path,
    vocabulary: HashMap<String, u32>,
    merges: Vec<(String, String)>,
    config: Config,
) -> TokenizerSpec {
    TokenizerSpec {
        file: folder.join(VOCABULARY),
        vocabulary,
        merges,
        added: config.added,
        special: config.special,
        named: config.named,
        affixes: Affixes::default(),
        add_bos_eos: config.add_bos_eos,
        unknown: None,
        fuse_unknown: false,
        normalization: Normalization::None,
        form: Form::ByteLevel {
            splits: Vec::new(),
            add_prefix_space: config.add_prefix_space,
            use_regex: true,
            ignore_merges: false,
        },
    }
}

fn from_json(
    path: &Path,
    text: &str,
    config: Config,
) -> Result<TokenizerSpec, ModelTokenizerError> {
    let KindOnly { model } = parse(path, text)?;
    match model.kind.as_deref() {
        None | Some("BPE") if model.byte_fallback => {
            return Err(other_kind(
                path,
                "byte_fallback is set, as in SentencePiece",
            ));
        }
        None | Some("BPE") => {}
        Some("Unigram") => {
            return Err(other_kind(
                path,
                "it is a Unigram (SentencePiece) tokenizer",
            ));
        }
        Some(kind) => {
            let kind = kind.escape_debug();
            return Err(other_kind(path, format!("the tokenizer's model is {kind}")));
        }
    }
    let json: Json = parse(path, text)?;
    let form = form_of(path, &json, &config)?;
    let normalization = normalization_of(path, json.normalizer.as_ref(), config.class)?;
    let affixes = json.post_processor.as_ref();
    let affixes = affixes.map_or(Ok(Affixes::default()), |part| affixes_of(path, part))?;
    let unknown = json
        .model
        .unk_token
        .filter(|_| config.class == Class::AsWritten);
    // If a byte-level tokenizer has an unknown token that its vocabulary doesn't contain, this
    // crate ignores the unknown token. The `tokenizers` library also loads such a tokenizer, and
    // fails only when it encodes a text with a byte that the vocabulary doesn't contain.
    let is_kept =
        |token: &String| matches!(form, Form::Characters) || json.model.vocab.contains_key(token);
    let unknown = unknown.filter(is_kept);
    let merges = json.model.merges.into_iter().map(|merge| match merge {
        Merge::Pair(left, right) => Ok((left, right)),
        Merge::Line(line) => pair_of(path, &line),
    });
    let listed = json.added_tokens.iter();
    let listed = listed.map(|token| (token.id, token.settings.token()));
    let added = match config.added_override {
        true => listed.chain(config.added).collect(),
        false => config.added.into_iter().chain(listed).collect(),
    };
    Ok(TokenizerSpec {
        file: path.to_owned(),
        vocabulary: json.model.vocab,
        merges: merges.collect::<Result<_, _>>()?,
        added,
        special: config.special,
        named: config.named,
        affixes,
        add_bos_eos: [false; 2],
        unknown,
        fuse_unknown: json.model.fuse_unk,
        normalization,
        form,
    })
}

/// Maximum number of IDs that a post-processor may add to a text.
const MAX_AFFIXES: usize = 256;

/// Maximum number of pre-tokenizers that may precede ByteLevel.
const MAX_SPLITS: usize = 16;

/// Returns the IDs that a post-processor adds before and after each text.
fn affixes_of(path: &Path, part: &Value) -> Result<Affixes, ModelTokenizerError> {
    let affixes = PostProcessor::deserialize(part).ok();
    if let Some(ids) = affixes.as_ref().map(PostProcessor::len)
        && ids > MAX_AFFIXES
    {
        let problem = format!(
            "the post-processor adds {ids} token IDs to each text, but at most {MAX_AFFIXES} are supported"
        );
        return Err(invalid(path, problem));
    }
    affixes.and_then(|part| part.affixes()).ok_or_else(|| {
        let kind = Part::deserialize(part).map_or("without a type".to_owned(), |part| part.kind);
        let kind = kind.escape_debug();
        other_setting(path, format!("the post-processor is {kind}"))
    })
}

/// Returns the form of the tokenizer, which describes how it divides text. Returns an error if the
/// tokenizer has a setting that isn't supported.
fn form_of(path: &Path, json: &Json, config: &Config) -> Result<Form, ModelTokenizerError> {
    let refused = |setting: &str| Err(other_setting(path, setting));
    let model = &json.model;
    let is_set = |text: &Option<String>| text.as_ref().is_some_and(|text| !text.is_empty());
    if model.dropout.is_some_and(|dropout| dropout != 0.0) {
        return refused("the BPE model has dropout");
    }
    if is_set(&model.continuing_subword_prefix) {
        return refused("the BPE model has a continuing_subword_prefix");
    }
    if is_set(&model.end_of_word_suffix) {
        return refused("the BPE model has an end_of_word_suffix");
    }
    let decoder = json
        .decoder
        .as_ref()
        .map_or("none", |part| part.kind.as_str());
    match (&json.pre_tokenizer, decoder, &model.unk_token) {
        (Some(part), "ByteLevel", _) => {
            let parts = match &part.pretokenizers {
                Some(parts) if part.kind == "Sequence" => &parts[..],
                _ => std::slice::from_ref(part),
            };
            let last = parts
                .split_last()
                .filter(|(last, splits)| last.kind == "ByteLevel" && splits.len() <= MAX_SPLITS);
            let Some((last, splits)) = last else {
                let kind = part.kind.escape_debug();
                return Err(other_kind(
                    path,
                    format!("the decoder is ByteLevel, but the pre-tokenizer is {kind}"),
                ));
            };
            let splits = splits.iter().map(|part| split_of(path, part));
            let splits = splits.collect::<Result<Vec<_>, _>>()?;
            let use_regex = last.use_regex.unwrap_or(true);
            // transformers 5 divides text as the tokenizer's class prescribes, whereas older
            // versions followed the settings in tokenizer.json. If these settings differ from those
            // of `GPT2Tokenizer`, it isn't clear which IDs the model was trained with, so the file
            // is rejected.
            let other_settings = [
                (
                    !splits.is_empty(),
                    "it has a pre-tokenizer before ByteLevel",
                ),
                (!use_regex, "use_regex is false"),
                (model.ignore_merges, "ignore_merges is true"),
            ];
            let other_settings = other_settings.into_iter().filter(|(differs, _)| *differs);
            let other_settings: Vec<&str> = other_settings.map(|(_, setting)| setting).collect();
            if config.class == Class::Gpt2 && !other_settings.is_empty() {
                return Err(unlike_gpt2(path, &other_settings.join(" and ")));
            }
            Ok(Form::ByteLevel {
                splits,
                add_prefix_space: match config.class {
                    Class::Gpt2 => config.add_prefix_space,
                    Class::AsWritten => last.add_prefix_space.unwrap_or(true),
                },
                use_regex,
                ignore_merges: model.ignore_merges,
            })
        }
        (None, "Fuse", Some(_))
            if config.class == Class::AsWritten
                && model.merges.is_empty()
                && !model.fuse_unk
                && !model.ignore_merges =>
        {
            Ok(Form::Characters)
        }
        (part, decoder, _) => {
            let part = part.as_ref().map_or("none", |part| part.kind.as_str());
            let (part, decoder) = (part.escape_debug(), decoder.escape_debug());
            Err(other_kind(
                path,
                format!("the pre-tokenizer is {part} and the decoder is {decoder}"),
            ))
        }
    }
}

/// Returns the pattern with which a pre-tokenizer before ByteLevel divides text.
fn split_of(path: &Path, part: &PreTokenizer) -> Result<Split, ModelTokenizerError> {
    let kind = part.kind.escape_debug();
    let digits = part.individual_digits.unwrap_or(false);
    let (pattern, must_match_all) =
        match (part.kind.as_str(), &part.pattern, part.behavior.as_deref()) {
            ("Digits", ..) if digits => (r"\p{N}".to_owned(), false),
            ("Digits", ..) => (r"\p{N}+".to_owned(), false),
            ("Split", Some(pattern), Some(behavior @ ("Isolated" | "Removed")))
                if behavior == "Isolated" || part.invert =>
            {
                let pattern = match pattern {
                    Pattern::String(text) => regex::escape(text),
                    Pattern::Regex(pattern) => pattern.clone(),
                };
                (pattern, behavior == "Removed")
            }
            ("Split", _, Some(behavior)) => {
                let behavior = behavior.escape_debug();
                let invert = part.invert;
                let kind = format!(
                    "the pre-tokenizer is Split with behavior {behavior} and invert {invert}"
                );
                return Err(other_setting(path, kind));
            }
            _ => {
                return Err(other_setting(
                    path,
                    format!(
                        "the list of pre-tokenizers contains an unsupported entry of type {kind}"
                    ),
                ));
            }
        };
    Split::new(&pattern, must_match_all).ok_or_else(|| {
        let pattern = pattern.escape_debug();
        other_setting(
            path,
            format!("the pre-tokenizer splits text with the unsupported pattern {pattern}"),
        )
    })
}

/// Returns the normalization that tokenizer.json defines. `GPT2Tokenizer` doesn't normalize text,
/// so a file that contains a normalizer is rejected if the tokenizer has this class.
fn normalization_of(
    path: &Path,
    part: Option<&Part>,
    class: Class,
) -> Result<Normalization, ModelTokenizerError> {
    let Some(part) = part else {
        return Ok(Normalization::None);
    };
    let kind = format!("the normalizer is {}", part.kind.escape_debug());
    match (part.kind.as_str(), &part.normalizers[..]) {
        _ if class == Class::Gpt2 => return Err(unlike_gpt2(path, &kind)),
        ("NFC", _) => return Ok(Normalization::Nfc),
        ("NFKC", _) => return Ok(Normalization::Nfkc),
        ("Sequence", []) => return Ok(Normalization::None),
        ("Sequence", [one]) => return normalization_of(path, Some(one), class),
        _ => {}
    }
    Err(other_setting(path, kind))
}

/// Returns the error for a tokenizer.json that contradicts the class `GPT2Tokenizer`. `settings`
/// lists the settings in the file that differ from those of the class, such as "use_regex is
/// false".
fn unlike_gpt2(path: &Path, settings: &str) -> ModelTokenizerError {
    let problem = format!(
        "{settings}, but the tokenizer's class is GPT2Tokenizer, which has other settings; to use \
        the settings in this file, set tokenizer_class in {CONFIG} to \"PreTrainedTokenizerFast\""
    );
    other_setting(path, problem)
}

impl PostProcessor {
    /// Returns the number of IDs that the post-processor adds to a text. If its template contains a
    /// special token that the file doesn't define, this token isn't counted.
    fn len(&self) -> usize {
        let ids = |special: Option<&Special>| special.map_or(0, |special| special.ids.len());
        match self {
            Self::ByteLevel => 0,
            Self::RobertaProcessing { .. } => 2,
            Self::Sequence { processors } => processors.iter().map(Self::len).sum(),
            Self::TemplateProcessing {
                single,
                special_tokens,
            } => {
                let ids = single.iter().map(|piece| match piece {
                    Piece::Sequence {} => 0,
                    Piece::SpecialToken { id } => ids(special_tokens.get(id)),
                });
                ids.fold(0, usize::saturating_add)
            }
        }
    }

    /// Returns the IDs that the post-processor adds before and after a text, or `None` if this
    /// crate doesn't support the post-processor.
    fn affixes(self) -> Option<Affixes> {
        match self {
            Self::ByteLevel => Some(Affixes::default()),
            Self::RobertaProcessing { cls, sep } => Some([vec![cls.1], vec![sep.1]]),
            Self::Sequence { processors } => {
                let is_template = |part: &Self| !matches!(part, Self::ByteLevel);
                let mut templates = processors.into_iter().filter(is_template);
                match (templates.next(), templates.next()) {
                    (None, _) => Some(Affixes::default()),
                    (Some(one), None) => one.affixes(),
                    _ => None,
                }
            }
            Self::TemplateProcessing {
                single,
                special_tokens,
            } => {
                // Lists of the IDs that the template adds, divided at each placeholder for the
                // encoded text. For example, the template `<s> TEXT </s>` results in two lists: the
                // ID of `<s>` before the text, and the ID of `</s>` after it. Templates without
                // exactly one placeholder aren't supported.
                let mut sides = vec![Vec::new()];
                for piece in single {
                    match piece {
                        Piece::Sequence {} => sides.push(Vec::new()),
                        Piece::SpecialToken { id } => {
                            sides.last_mut()?.extend(&special_tokens.get(&id)?.ids);
                        }
                    }
                }
                sides.try_into().ok() // The text must occur exactly once.
            }
        }
    }
}

/// Returns the pairs of tokens in merges.txt. The first line, which contains the version of the
/// format, is skipped.
fn lines_of(path: &Path, text: &str) -> Result<Vec<(String, String)>, ModelTokenizerError> {
    if text.starts_with('\u{feff}') {
        let problem = "the file begins with a byte-order mark; save it as UTF-8 without one";
        return Err(invalid(path, problem));
    }
    let lines = text
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with("#version"));
    lines.map(|line| pair_of(path, line)).collect()
}

fn pair_of(path: &Path, line: &str) -> Result<(String, String), ModelTokenizerError> {
    match line.split_once(' ') {
        Some((left, right)) if !left.is_empty() && !right.is_empty() && !right.contains(' ') => {
            Ok((left.to_owned(), right.to_owned()))
        }
        _ => Err(invalid(
            path,
            format!("the merge {line:?} must consist of two tokens separated by one space"),
        )),
    }
}
