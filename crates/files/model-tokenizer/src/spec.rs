//! The parts of a tokenizer, from its files, checked; and the files made of them.
//!
//! An added token behind a gap gets the id after the last one, as in transformers, regardless of
//! its file's id.

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

/// Ids of a vocabulary must be below this, or below this many times its number of tokens, so that
/// lists by id stay as small as their files.
const FREE_IDS: usize = 1 << 16;
const MAX_GAPS: usize = 16;

/// The most text that all added tokens together may have: they become an automaton many times as
/// large.
const MAX_ADDED_BYTES: usize = 1 << 20;

/// The way to divide a text before pairs are merged.
#[derive(Clone, Debug)]
pub(crate) enum Form {
    /// Into bytes, which are written in [letters](tokenizer::bpe::letters_of).
    ByteLevel {
        /// Divide a text before the following settings do.
        splits: Vec<Split>,
        /// Puts a space before a text that begins with none.
        add_prefix_space: bool,
        /// Divides by GPT-2's pattern; without it a text is one piece.
        use_regex: bool,
        /// A piece that is a token becomes that token, regardless of the merges.
        ignore_merges: bool,
    },
    /// Into characters.
    Characters,
}

/// The tokens that begin and end a text and fill a batch up, if they have names.
pub(crate) type Named<T> = [Option<T>; 3];

/// The ids that are put before and after each text.
pub(crate) type Affixes = [Vec<u32>; 2];

/// The parts of a tokenizer, from its files.
#[derive(Debug)]
pub(crate) struct TokenizerSpec {
    /// The file to name in an error.
    pub(crate) file: PathBuf,
    pub(crate) vocabulary: HashMap<String, u32>,
    pub(crate) merges: Vec<(String, String)>, // first merge first
    pub(crate) added: BTreeMap<u32, AddedToken>,
    /// Special tokens without an explicit id: the vocabulary's, or the next.
    pub(crate) special: Vec<AddedToken>,
    pub(crate) named: Named<String>,
    /// The ids that a post-processor adds.
    pub(crate) affixes: Affixes,
    /// `add_bos_token` and `add_eos_token`, without a template.
    pub(crate) adds: [bool; 2],
    /// The token for characters or bytes that the vocabulary lacks.
    pub(crate) unknown: Option<String>,
    /// One token for unknown is for several of them side by side.
    pub(crate) fuse_unknown: bool,
    pub(crate) normalization: Normalization,
    pub(crate) form: Form,
}

impl Form {
    /// GPT-2's way to divide a text.
    pub(crate) const GPT2: Self = Self::ByteLevel {
        splits: Vec::new(),
        add_prefix_space: false,
        use_regex: true,
        ignore_merges: false,
    };

    /// True for [`Self::GPT2`].
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
    /// The files that transformers loads: tokenizer.json and its configuration, and the additional
    /// files of GPT-2's kind.
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

    /// The text of tokenizer.json, as the library writes it.
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

    /// Checks that the parts fit together.
    ///
    /// # Errors
    /// [`ModelTokenizerError::Invalid`] with the file and the first fault.
    pub(crate) fn check(&self) -> Result<(), ModelTokenizerError> {
        let file = &self.file;
        if self.vocabulary.is_empty() {
            return Err(invalid(file, "an empty vocabulary"));
        }
        let mut ids = HashSet::with_capacity(self.vocabulary.len());
        let limit = FREE_IDS.max(MAX_GAPS * self.vocabulary.len());
        for (token, &id) in &self.vocabulary {
            if id as usize >= limit {
                let problem = format!("the token {token:?} has the id {id}, not below {limit}");
                return Err(invalid(file, problem));
            }
            if !ids.insert(id) {
                return Err(invalid(file, format!("two tokens have the id {id}")));
            }
        }
        for (left, right) in &self.merges {
            let mut tokens = [left.clone(), right.clone(), format!("{left}{right}")].into_iter();
            if let Some(token) = tokens.find(|token| !self.vocabulary.contains_key(token)) {
                let problem = format!("the merge of {left:?} and {right:?}: no token {token:?}");
                return Err(invalid(file, problem));
            }
        }
        if let Some(token) = &self.unknown
            && !self.vocabulary.contains_key(token)
        {
            let problem = format!("no token {token:?} for unknown characters");
            return Err(invalid(file, problem));
        }
        let added = self.added.values().chain(&self.special);
        let lengths = added.map(|token| token.content.len());
        match lengths.fold((usize::MAX, 0), |(least, sum), n| (least.min(n), sum + n)) {
            (0, _) => return Err(invalid(file, "an added token without text")),
            (_, MAX_ADDED_BYTES..) => {
                let problem = format!("added tokens of more than {MAX_ADDED_BYTES} bytes");
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
                    "the added token {content:?} has the id {id}, and in the vocabulary {own}"
                ),
                None if ids.contains(&id) => {
                    format!("the added token {content:?} has the id {id}, as another token has")
                }
                _ if !texts.insert(content) => {
                    format!("duplicate added token {content:?}")
                }
                _ => continue,
            };
            return Err(invalid(file, problem));
        }
        let mut affixes = self.affixes.iter().flatten().copied();
        match affixes.find(|id| !ids.contains(id) && !self.added.contains_key(id)) {
            Some(id) => Err(invalid(
                file,
                format!("the post-processor puts the id {id} around a text, which no token has"),
            )),
            None => Ok(()),
        }
    }
}

/// Gives the added tokens of a specification their ids, as the library does: a token of the
/// vocabulary keeps its id, and each other token gets the next one, regardless of its file's id.
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

/// tokenizer.json, with its fields in the library's order; `()` is null.
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

/// The vocabulary in the order of its ids as Python's `json.dump` writes it, which is how GPT-2's
/// was published.
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
