//! The parts of a tokenizer, checked, and the library's tokenizer made of them.
//!
//! The library trusts its files: it panics at a merge outside the vocabulary. So every file is
//! checked first. An added token behind a gap gets the id after the last one, as in transformers,
//! regardless of its file's id.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use serde_json::json;
use tokenizer::ENDOFTEXT;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{AddedToken, Tokenizer};

use crate::error::{ModelTokenizerError, invalid, library};
use crate::files::{CONFIG, Files, MERGES, TOKENIZER, VOCABULARY};

/// Ids of a vocabulary must be below this, or below this many times its number of tokens, so that
/// lists by id stay as small as their files.
const FREE_IDS: usize = 1 << 16;
const MAX_GAPS: usize = 16;

/// The most text that all added tokens together may have: they become an automaton many times as
/// large.
const MAX_ADDED_BYTES: usize = 1 << 20;

/// The way to divide a text before pairs are merged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Into bytes, which are written in [letters](tokenizer::bpe::letters_of).
    ByteLevel {
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
pub(crate) type Around = [Vec<u32>; 2];

/// The parts of a tokenizer, from its files.
#[derive(Debug)]
pub(crate) struct Recipe {
    /// The file to name in an error.
    pub(crate) file: PathBuf,
    pub(crate) vocabulary: HashMap<String, u32>,
    pub(crate) merges: Vec<(String, String)>, // first merge first
    pub(crate) added: BTreeMap<u32, AddedToken>,
    /// Special tokens without an explicit id: the vocabulary's, or the next.
    pub(crate) special: Vec<AddedToken>,
    pub(crate) named: Named<String>,
    /// The ids of a template.
    pub(crate) around: Around,
    /// `add_bos_token` and `add_eos_token`, without a template.
    pub(crate) adds: [bool; 2],
    /// The token for characters or bytes that the vocabulary lacks.
    pub(crate) unknown: Option<String>,
    /// One token for unknown is for several of them side by side.
    pub(crate) fuse_unknown: bool,
    pub(crate) form: Form,
}

/// A recipe that passed [`Recipe::checked`]: the input for making tokenizers.
pub(crate) struct Checked(Recipe);

impl Checked {
    pub(crate) fn recipe(&self) -> &Recipe {
        &self.0
    }

    /// The library's tokenizer.
    pub(crate) fn build(self) -> Result<Tokenizer, ModelTokenizerError> {
        let Self(recipe) = self;
        let vocabulary: Vocab = recipe.vocabulary.into_iter().collect();
        let mut model = BPE::builder().vocab_and_merges(vocabulary, recipe.merges);
        if let Some(token) = recipe.unknown {
            model = model.unk_token(token).fuse_unk(recipe.fuse_unknown);
        }
        if let Form::ByteLevel { ignore_merges, .. } = recipe.form {
            model = model.ignore_merges(ignore_merges);
        }
        let mut tokenizer = Tokenizer::new(model.build().map_err(library)?);
        match recipe.form {
            Form::ByteLevel {
                add_prefix_space,
                use_regex,
                ..
            } => {
                let bytes = ByteLevel::new(add_prefix_space, false, use_regex);
                tokenizer.with_pre_tokenizer(Some(bytes));
                tokenizer.with_decoder(Some(bytes));
            }
            Form::Characters => {
                tokenizer.with_decoder(Some(Fuse::default()));
            }
        }
        tokenizer
            .add_tokens(recipe.added.values().cloned())
            .map_err(library)?;
        let known = tokenizer.get_added_vocabulary().get_vocab();
        let mut special = recipe.special;
        special.retain(|token| !known.contains_key(&token.content));
        tokenizer.add_special_tokens(special).map_err(library)?;
        Ok(tokenizer)
    }
}

impl Recipe {
    /// Checks what the library would trust.
    ///
    /// # Errors
    /// [`ModelTokenizerError::Invalid`] with the file and the first fault.
    pub(crate) fn checked(self) -> Result<Checked, ModelTokenizerError> {
        self.check()?;
        Ok(Checked(self))
    }

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
        files.insert(
            TOKENIZER,
            self.checked()?.build()?.to_string(true).map_err(library)?,
        );
        Ok(files)
    }

    fn check(&self) -> Result<(), ModelTokenizerError> {
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
        let mut around = self.around.iter().flatten().copied();
        match around.find(|id| !ids.contains(id) && !self.added.contains_key(id)) {
            Some(id) => Err(invalid(
                file,
                format!("the post-processor puts the id {id} around a text, which no token has"),
            )),
            None => Ok(()),
        }
    }
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
