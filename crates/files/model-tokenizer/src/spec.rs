//! The definition of a tokenizer, as read from its files. This module also checks that the parts of
//! the definition are consistent, and creates the files of a tokenizer that was trained.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use indexmap::IndexMap;
use serde::Serialize;
use serde_json::json;
use tokenizer::ENDOFTEXT;

use crate::added::AddedToken;
use crate::error::{ModelTokenizerError, invalid};
use crate::files::{CONFIG, Files, MERGES, TOKENIZER, VOCABULARY};
use crate::normalization::Normalization;
use crate::split::Split;

/// Smallest limit for the IDs in a vocabulary. All IDs must be less than the limit, which is this
/// number or [`MAX_IDS_PER_TOKEN`] times the number of tokens, whichever is greater. Without a
/// limit, a small file with a huge ID would cause a huge table to be allocated.
const MIN_ID_LIMIT: usize = 1 << 16;
/// Factor for the limit on token IDs: all IDs in a vocabulary must be less than this factor times
/// the number of tokens, or less than [`MIN_ID_LIMIT`] if that is greater.
const MAX_IDS_PER_TOKEN: usize = 16;

/// Limit for the total size of the added tokens in bytes, which must be less than this number. The
/// size is limited because the automaton that finds added tokens in a text needs many times as much
/// memory as the tokens themselves.
const MAX_ADDED_BYTES: usize = 1 << 20;

/// The way in which a tokenizer converts text to tokens. Either a byte pair encoding merges the
/// bytes of the text into tokens, or the text is encoded character by character.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// Text is encoded as bytes. In the tokenizer's files, each byte is represented by a printable
    /// character, which is called its [letter](tokenizer::bpe::letters_of).
    ByteLevel {
        /// Regular expressions that divide the text into pieces, as in the tokenizers of GPT-4 and
        /// Llama 3. The other settings, such as `use_regex`, are then applied to each piece. If the
        /// list is empty, as in GPT-2, the other settings are applied to the whole text.
        splits: Vec<Split>,
        /// Whether the tokenizer adds a space before text that doesn't begin with one, so that a
        /// word at the start is encoded like a word after a space. The space is added before each
        /// section of text between two added tokens or, if `splits` isn't empty, before each piece
        /// that the patterns produce.
        add_prefix_space: bool,
        /// Whether GPT-2's regular expression divides the text into pieces, which are roughly
        /// words. If not, the text isn't divided any further before byte pairs are merged.
        use_regex: bool,
        /// Whether a piece of the text that is equal to a token of the vocabulary is always encoded
        /// as this token. Otherwise, the merges of the byte pair encoding are applied to the piece,
        /// and they might result in other tokens.
        ignore_merges: bool,
    },
    /// Text is encoded character by character: each character in the vocabulary is a token, and all
    /// other characters are encoded as the unknown token.
    Characters,
}

/// The tokens `bos_token`, `eos_token` and `pad_token`, in this order, either as strings or as IDs.
/// A token is `None` if the files don't define it.
pub(crate) type Named<T> = [Option<T>; 3];

/// The IDs that a tokenizer adds before each text, and the IDs that it adds after each text.
pub(crate) type Affixes = [Vec<u32>; 2];

/// The definition of a tokenizer: its vocabulary, merges, added tokens and settings.
#[derive(Debug)]
pub(crate) struct TokenizerSpec {
    /// Path of the file that defines the tokenizer, for use in error messages.
    pub(crate) file: PathBuf,
    pub(crate) vocabulary: HashMap<String, u32>,
    pub(crate) merges: Vec<(String, String)>, // in the order in which they were learned
    pub(crate) added: BTreeMap<u32, AddedToken>,
    /// Special tokens that are defined in the tokenizer's files without an ID, such as a
    /// `pad_token` that is only listed in tokenizer_config.json. If the vocabulary contains such a
    /// token, its ID in the vocabulary is used. Otherwise, the token gets the next free ID.
    pub(crate) special: Vec<AddedToken>,
    pub(crate) named: Named<String>,
    /// IDs that the post-processor adds before and after each text.
    pub(crate) affixes: Affixes,
    /// Whether the settings `add_bos_token` and `add_eos_token` are true. Always false if there is
    /// a tokenizer.json, because transformers then ignores these settings.
    pub(crate) add_bos_eos: [bool; 2],
    /// The unknown token, such as `[UNK]`, which is used for each character or byte of a text that
    /// isn't in the vocabulary. `None` if the tokenizer has no unknown token, so that encoding such
    /// a text fails.
    pub(crate) unknown: Option<String>,
    /// Whether several adjacent unknown bytes are encoded as a single unknown token.
    pub(crate) fuse_unknown: bool,
    pub(crate) normalization: Normalization,
    pub(crate) form: Form,
}

impl Form {
    /// The form of GPT-2's tokenizer: text is encoded as bytes and is divided into pieces only by
    /// GPT-2's own regular expression.
    pub(crate) const GPT2: Self = Self::ByteLevel {
        splits: Vec::new(),
        add_prefix_space: false,
        use_regex: true,
        ignore_merges: false,
    };

    /// Returns true if text is divided into pieces and encoded as in GPT-2's tokenizer.
    pub(crate) fn is_gpt2(&self) -> bool {
        match self {
            Self::ByteLevel {
                splits,
                add_prefix_space: false,
                use_regex: true,
                ignore_merges: false,
            } => splits.is_empty(),
            _ => false,
        }
    }
}

impl TokenizerSpec {
    /// Returns the files of the tokenizer in the format that transformers loads: tokenizer.json,
    /// tokenizer_config.json and, for a byte pair encoding, also vocab.json and merges.txt.
    pub(crate) fn into_files(self) -> Result<Files, ModelTokenizerError> {
        let mut files = Files::new();
        let mut config = json!({
            "bos_token": ENDOFTEXT,
            "eos_token": ENDOFTEXT,
            "clean_up_tokenization_spaces": false,
        });
        match &self.form {
            Form::ByteLevel {
                add_prefix_space, ..
            } => {
                config["tokenizer_class"] = "GPT2Tokenizer".into();
                config["add_prefix_space"] = (*add_prefix_space).into();
                config["unk_token"] = ENDOFTEXT.into();
                files.insert(VOCABULARY, python_json(&self.vocabulary));
                let lines = self
                    .merges
                    .iter()
                    .map(|(left, right)| format!("{left} {right}\n"));
                let merges: String = lines.collect();
                files.insert(MERGES, format!("#version: 0.2\n{merges}"));
            }
            Form::Characters => {
                config["tokenizer_class"] = "PreTrainedTokenizerFast".into();
                config["unk_token"] = self.unknown.as_deref().into();
            }
        }
        files.insert(CONFIG, format!("{config:#}\n"));
        self.check()?;
        files.insert(TOKENIZER, self.tokenizer_json());
        Ok(files)
    }

    /// Returns the contents of tokenizer.json, formatted as Hugging Face's `tokenizers` library
    /// formats this file.
    fn tokenizer_json(&self) -> String {
        let (pre_tokenizer, decoder) = match self.form {
            Form::ByteLevel {
                add_prefix_space,
                use_regex,
                ..
            } => {
                let part = WrittenPart::ByteLevel {
                    add_prefix_space,
                    trim_offsets: false,
                    use_regex,
                };
                (Some(part), part)
            }
            Form::Characters => (None, WrittenPart::Fuse),
        };
        let mut vocab: IndexMap<&str, u32> = self
            .vocabulary
            .iter()
            .map(|(token, &id)| (&**token, id))
            .collect();
        vocab.sort_unstable_by_key(|_, id| *id);
        let added = with_ids(self).into_iter();
        let json = WrittenJson {
            version: "1.0",
            truncation: (),
            padding: (),
            added_tokens: added
                .map(|(id, token)| WrittenToken { id, token })
                .collect(),
            normalizer: (),
            pre_tokenizer,
            post_processor: (),
            decoder,
            model: WrittenModel {
                kind: "BPE",
                dropout: (),
                unk_token: self.unknown.as_deref(),
                continuing_subword_prefix: (),
                end_of_word_suffix: (),
                fuse_unk: self.fuse_unknown,
                byte_fallback: false,
                ignore_merges: false,
                vocab,
                merges: &self.merges,
            },
        };
        serde_json::to_string_pretty(&json).expect("texts and numbers are JSON")
    }

    /// Checks that the parts of the definition are consistent.
    ///
    /// # Errors
    /// Returns [`ModelTokenizerError::Invalid`], which describes the first contradiction that is
    /// found.
    pub(crate) fn check(&self) -> Result<(), ModelTokenizerError> {
        let file = &self.file;
        if self.vocabulary.is_empty() {
            return Err(invalid(file, "the vocabulary is empty"));
        }
        let mut ids = HashSet::with_capacity(self.vocabulary.len());
        let limit = MIN_ID_LIMIT.max(MAX_IDS_PER_TOKEN * self.vocabulary.len());
        for (token, &id) in &self.vocabulary {
            if id as usize >= limit {
                let problem = format!(
                    "the token {token:?} has the ID {id}, but in a vocabulary of this size, all IDs must be less than {limit}"
                );
                return Err(invalid(file, problem));
            }
            if !ids.insert(id) {
                return Err(invalid(
                    file,
                    format!("two tokens have the same ID, {id}, but all IDs must be distinct"),
                ));
            }
        }
        for (left, right) in &self.merges {
            let mut tokens = [left.clone(), right.clone(), format!("{left}{right}")].into_iter();
            if let Some(token) = tokens.find(|token| !self.vocabulary.contains_key(token)) {
                let problem = format!(
                    "the merge of {left:?} and {right:?} needs the token {token:?}, which isn't in the vocabulary"
                );
                return Err(invalid(file, problem));
            }
        }
        if let Some(token) = &self.unknown
            && !self.vocabulary.contains_key(token)
        {
            let problem = format!(
                "the unknown token, unk_token, is {token:?}, which isn't in the vocabulary"
            );
            return Err(invalid(file, problem));
        }
        let added = self.added.values().chain(&self.special);
        let lengths = added.map(|token| token.content.len());
        match lengths.fold((usize::MAX, 0), |(least, sum), n| (least.min(n), sum + n)) {
            (0, _) => {
                return Err(invalid(
                    file,
                    "an added token is empty, but it must contain at least one character",
                ));
            }
            (_, bytes @ MAX_ADDED_BYTES..) => {
                let problem = format!(
                    "the added tokens have {bytes} bytes in total, but they must have fewer than {MAX_ADDED_BYTES}"
                );
                return Err(invalid(file, problem));
            }
            _ => {}
        }
        let mut texts = HashSet::new();
        for (&id, token) in &self.added {
            let content = &token.content;
            let own = self.vocabulary.get(content);
            let problem = match own {
                Some(own) if *own != id => format!(
                    "the added token {content:?} has the ID {id}, but its ID in the vocabulary is {own}"
                ),
                None if ids.contains(&id) => {
                    format!(
                        "the added token {content:?} has the ID {id}, which belongs to another token"
                    )
                }
                _ if !texts.insert(content) => {
                    format!("the added token {content:?} is listed twice, with different IDs")
                }
                _ => continue,
            };
            return Err(invalid(file, problem));
        }
        let mut affixes = self.affixes.iter().flatten().copied();
        match affixes.find(|id| !ids.contains(id) && !self.added.contains_key(id)) {
            Some(id) => Err(invalid(
                file,
                format!(
                    "the post-processor adds the ID {id} to each text, but no token has this ID"
                ),
            )),
            None => Ok(()),
        }
    }
}

/// Returns all added tokens with the IDs that transformers assigns to them. If the vocabulary
/// contains an added token, its ID in the vocabulary is used. Otherwise, the token gets the next
/// free ID, even if the file assigns a larger ID to it.
pub(crate) fn with_ids(spec: &TokenizerSpec) -> BTreeMap<u32, AddedToken> {
    let (mut tokens, mut ids) = (BTreeMap::new(), HashMap::new());
    let listed: Vec<&AddedToken> = spec.added.values().collect();
    let known: HashSet<&String> = listed.iter().map(|token| &token.content).collect();
    let named = spec.special.iter();
    let named = named
        .filter(|token| !known.contains(&token.content))
        .collect();
    for list in [listed, named] {
        let behind = tokens.last_key_value().map_or(0, |(id, _)| id + 1);
        let mut next = behind.max(spec.vocabulary.len() as u32);
        for token in list {
            let known = ids
                .get(&token.content)
                .or(spec.vocabulary.get(&token.content));
            let id = known.copied().unwrap_or(next);
            next += u32::from(known.is_none());
            ids.insert(&token.content, id);
            tokens.insert(id, token.clone());
        }
    }
    tokens
}

/// The structure of tokenizer.json. The fields have the same order as in the files that the
/// `tokenizers` library writes. Fields of type `()` are written as `null`.
#[derive(Serialize)]
struct WrittenJson<'s> {
    version: &'s str,
    truncation: (),
    padding: (),
    added_tokens: Vec<WrittenToken>,
    normalizer: (),
    pre_tokenizer: Option<WrittenPart>,
    post_processor: (),
    decoder: WrittenPart,
    model: WrittenModel<'s>,
}

#[derive(Serialize)]
struct WrittenToken {
    id: u32,
    #[serde(flatten)]
    token: AddedToken,
}

#[derive(Clone, Copy, Serialize)]
#[serde(tag = "type")]
enum WrittenPart {
    ByteLevel {
        add_prefix_space: bool,
        trim_offsets: bool,
        use_regex: bool,
    },
    Fuse,
}

#[derive(Serialize)]
struct WrittenModel<'s> {
    #[serde(rename = "type")]
    kind: &'s str,
    dropout: (),
    unk_token: Option<&'s str>,
    continuing_subword_prefix: (),
    end_of_word_suffix: (),
    fuse_unk: bool,
    byte_fallback: bool,
    ignore_merges: bool,
    vocab: IndexMap<&'s str, u32>,
    merges: &'s [(String, String)],
}

/// Returns the vocabulary as a JSON object whose entries are sorted by ID. The format is that of
/// Python's `json.dump`, because GPT-2's vocab.json has this format.
fn python_json(vocabulary: &HashMap<String, u32>) -> String {
    let mut tokens: Vec<(&String, &u32)> = vocabulary.iter().collect();
    tokens.sort_unstable_by_key(|(_, id)| **id);
    let entries = tokens.into_iter().map(|(token, id)| {
        let escaped = token.encode_utf16().map(|unit| match u8::try_from(unit) {
            Ok(b'"') => "\\\"".to_owned(),
            Ok(b'\\') => "\\\\".to_owned(),
            Ok(byte @ b' '..=b'~') => char::from(byte).to_string(),
            _ => format!("\\u{unit:04x}"),
        });
        format!("\"{}\": {id}", escaped.collect::<String>())
    });
    format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
}
