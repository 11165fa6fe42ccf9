//! A model's own tokenizer: GPT-2's, or one that its folder holds or that was trained on a text.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fmt;
use std::fs;
use std::path::Path;
use std::sync::Arc;

use atomic_file::FileError;
use rayon::prelude::*;
use tokenizer::bpe::{bytes_of_letters, letter_of};
use tokenizer::{Decode, ENDOFTEXT, ENDOFTEXT_ID, Encode, Gpt2Tokenizer, TokenizerError};
use tokenizers::Tokenizer;

use crate::error::{self, ModelTokenizerError};
use crate::fast::Fast;
use crate::files::{self, Files};
use crate::parts::{LONG_BLANK, has_long_blank, parts};
use crate::recipe::{Around, Form, Named, Recipe};
use crate::{config, gpt2, tokenizer_json};

/// Converts text to ids and back, with the tokenizer that a model was trained with.
///
/// A special token in a text is that token, as in transformers: it is not for texts of people one
/// doesn't trust.
///
/// ```
/// use model_tokenizer::ModelTokenizer;
/// let tokenizer = ModelTokenizer::train_chars("to be or not to be")?;
/// let ids = tokenizer.encode("not to be")?;
/// assert_eq!(tokenizer.decode(&ids)?, "not to be");
/// let folder = std::env::temp_dir().join("model-tokenizer-example");
/// std::fs::create_dir_all(&folder)?;
/// tokenizer.save(&folder)?; // what AutoTokenizer.from_pretrained loads
/// let again = ModelTokenizer::from_folder(&folder)?.expect("it was saved there");
/// assert_eq!(again.encode("not to be")?, ids);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A copy shares the tables of the original.
#[derive(Clone)]
pub struct ModelTokenizer {
    kind: Kind,
    named: Named<u32>,
    around: Around,
    files: Option<Arc<Files>>, // GPT-2's are made on demand
}

/// Returns the ids of a part of a text that may be encoded by itself.
type PartEncoder<'t> = Box<dyn FnMut(&str) -> Result<Vec<u32>, ModelTokenizerError> + 't>;

#[derive(Clone)]
enum Kind {
    Gpt2(Gpt2Tokenizer),
    Own(Arc<Own>),
}

/// A tokenizer that isn't GPT-2's.
struct Own {
    library: Tokenizer,
    /// The fast form, if it has one.
    fast: Option<Fast>,
    pieces: HashMap<u32, Box<[u8]>>, // id -> its bytes
    added: HashSet<String>,          // the texts of added tokens
    special: HashSet<u32>,           // the ids of those that are special
    added_lengths: BTreeSet<usize>,  // theirs, in bytes
    vocab_size: usize,
    /// Parts of a text may be encoded by themselves.
    divides: bool,
    /// The pattern looks at the text, and gives up in long white space.
    looks: bool,
    /// Bytes without a token, which the library leaves out if there is none for unknown ones.
    unknown: Vec<u8>,
}

impl ModelTokenizer {
    /// GPT-2's own.
    pub fn gpt2() -> Self {
        Self {
            kind: Kind::Gpt2(Gpt2Tokenizer::new()),
            named: [Some(ENDOFTEXT_ID), Some(ENDOFTEXT_ID), None],
            around: Default::default(),
            files: None,
        }
    }

    /// Reads the tokenizer of a model folder as transformers' `AutoTokenizer` does; `None` if the
    /// folder has none.
    ///
    /// # Errors
    /// [`ModelTokenizerError::Io`] if there is no such folder;
    /// [`ModelTokenizerError::OtherKind`] for a tokenizer that is neither byte-level BPE nor one of
    /// characters as this crate writes it;
    /// [`ModelTokenizerError::Invalid`] or [`Io`](ModelTokenizerError::Io) for files that are
    /// damaged or can't be read.
    pub fn from_folder(folder: impl AsRef<Path>) -> Result<Option<Self>, ModelTokenizerError> {
        let folder = folder.as_ref();
        fs::metadata(folder).map_err(FileError::at(folder, "read"))?;
        let mut files = files::read_all(folder)?;
        if tokenizer_json::is_in(&files) {
            config::with_class_of_model(folder, &mut files)?;
        }
        match Self::from_files(folder, files)? {
            Some(tokenizer) => Ok(Some(tokenizer)),
            None => files::unread(folder).map_or(Ok(None), Err),
        }
    }

    /// Makes the tokenizer of files that were read or made; the folder is for errors.
    pub(crate) fn from_files(
        folder: &Path,
        files: Files,
    ) -> Result<Option<Self>, ModelTokenizerError> {
        let Some(recipe) = tokenizer_json::read(folder, &files)? else {
            return Ok(None);
        };
        let (named, mut around, adds) = (recipe.named.clone(), recipe.around.clone(), recipe.adds);
        let kind = match gpt2::is_gpt2(&recipe) {
            true => Kind::Gpt2(Gpt2Tokenizer::new()),
            false => Kind::Own(Arc::new(Own::new(recipe)?)),
        };
        let id_of = |token: String| match &kind {
            Kind::Gpt2(_) => Some(ENDOFTEXT_ID),
            Kind::Own(own) => own.library.token_to_id(&token),
        };
        let named = named.map(|token| token.and_then(id_of));
        for ((ids, add), id) in around.iter_mut().zip(adds).zip(named) {
            ids.extend(id.filter(|_| add));
        }
        Ok(Some(Self {
            named,
            around,
            kind,
            files: Some(Arc::new(files)),
        }))
    }

    /// Returns the ids of a whole text, with [those before](Self::ids_before) and
    /// [after](Self::ids_after) each text; special tokens in it are special.
    ///
    /// # Errors
    /// Those of [`encode_part`](Self::encode_part).
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, ModelTokenizerError> {
        let [before, after] = &self.around;
        let mut ids = self.encode_part(text)?;
        ids.splice(..0, before.iter().copied());
        ids.extend(after);
        Ok(ids)
    }

    /// Returns the ids of a part of a text, such as a turn of a conversation, with nothing before
    /// or after them; special tokens in it are special.
    ///
    /// # Errors
    /// [`ModelTokenizerError::UnknownByte`] if the vocabulary lacks a byte of the text: nothing is
    /// left out;
    /// [`ModelTokenizerError::LongBlank`] for half a million white space characters, if the
    /// vocabulary's settings don't allow to cut them.
    pub fn encode_part(&self, text: &str) -> Result<Vec<u32>, ModelTokenizerError> {
        let whole = match &self.kind {
            Kind::Gpt2(_) => parts(text, |rest| rest.starts_with(ENDOFTEXT)),
            Kind::Own(own) if own.divides => parts(text, |rest| own.begins_with_added(rest)),
            Kind::Own(_) => vec![text],
        };
        // Parts of one thread share what its encoder remembers.
        let ids = whole
            .par_iter()
            .map_init(|| self.encoder(text.len()), |encode, part| encode(part));
        let ids: Vec<Vec<u32>> = ids.collect::<Result<_, _>>()?;
        let mut all = Vec::with_capacity(ids.iter().map(Vec::len).sum());
        for part in ids {
            all.extend(part); // whose memory is given back before the next
        }
        Ok(all)
    }

    /// Returns a function that encodes parts of a text of so many bytes; a thread has its own.
    fn encoder(&self, bytes: usize) -> PartEncoder<'_> {
        match &self.kind {
            Kind::Gpt2(gpt2) => {
                let mut encoder = gpt2.encoder(bytes);
                Box::new(move |part| {
                    let mut ids = Vec::new();
                    encoder.encode(part, &mut ids);
                    Ok(ids)
                })
            }
            Kind::Own(own) => own.encoder(bytes),
        }
    }

    /// The ids that are put before each text, as by a template of tokenizer.json or by
    /// `add_bos_token`.
    pub fn ids_before(&self) -> &[u32] {
        &self.around[0]
    }

    /// The ids that are put after each text.
    pub fn ids_after(&self) -> &[u32] {
        &self.around[1]
    }

    /// The text that the ids stand for.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] at the first unknown id; [`TokenizerError::NotUtf8`] if the
    /// bytes aren't UTF-8, for example half a character.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        Decode::decode(self, ids)
    }

    /// Returns the text, with U+FFFD for invalid bytes, like Python's `decode`.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] at the first id that the vocabulary lacks.
    pub fn decode_lossy(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        Decode::decode_lossy(self, ids)
    }

    /// The bytes that one id stands for; `None` if there is no such id.
    pub fn piece(&self, id: u32) -> Option<&[u8]> {
        match &self.kind {
            Kind::Gpt2(gpt2) => gpt2.piece(id),
            Kind::Own(own) => own.pieces.get(&id).map(AsRef::as_ref),
        }
    }

    /// True for a special token, which marks up a text, such as its end. transformers'
    /// `decode(..., skip_special_tokens=True)` omits these tokens.
    pub fn is_special(&self, id: u32) -> bool {
        let is_added = match &self.kind {
            Kind::Gpt2(_) => id == ENDOFTEXT_ID,
            Kind::Own(own) => own.special.contains(&id),
        };
        is_added || self.named.contains(&Some(id))
    }

    /// One more than the largest id.
    pub fn vocab_size(&self) -> usize {
        match &self.kind {
            Kind::Gpt2(gpt2) => gpt2.vocab_size(),
            Kind::Own(own) => own.vocab_size,
        }
    }

    /// The id of `bos_token`, which begins a text, if the tokenizer names one.
    pub fn bos_token_id(&self) -> Option<u32> {
        self.named[0]
    }

    /// The id of `eos_token`, which ends a text, if the tokenizer names one.
    ///
    /// A model's own files go before it.
    pub fn eos_token_id(&self) -> Option<u32> {
        self.named[1]
    }

    /// The id of `pad_token`, which fills a batch up, if the tokenizer names one.
    pub fn pad_token_id(&self) -> Option<u32> {
        self.named[2]
    }

    /// True if the ids are GPT-2's.
    pub fn is_gpt2(&self) -> bool {
        matches!(self.kind, Kind::Gpt2(_))
    }

    /// True if the vocabulary surely has a token for every byte, so that it can encode any text.
    ///
    /// False for forms other than GPT-2's, even if they have all bytes.
    pub fn has_all_bytes(&self) -> bool {
        match &self.kind {
            Kind::Gpt2(_) => true,
            Kind::Own(own) => own.fast.is_some(),
        }
    }

    /// The text of tokenizer_config.json, if the tokenizer was read with one or trained.
    pub fn config(&self) -> Option<&str> {
        self.files.as_ref()?.get(files::CONFIG).map(String::as_str)
    }

    /// Writes the files that transformers loads into a folder: the files that were read, unchanged,
    /// or those of a trained tokenizer.
    ///
    /// # Errors
    /// [`ModelTokenizerError::Io`] if a file can't be written; the old one then stays.
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<(), ModelTokenizerError> {
        let files = self.files()?;
        files::write_all(folder.as_ref(), &files)
    }

    /// Returns the texts of the files that [`save`](Self::save) writes, by name.
    ///
    /// # Errors
    /// None for a tokenizer that was read or made by this crate.
    pub fn files(&self) -> Result<Cow<'_, BTreeMap<&'static str, String>>, ModelTokenizerError> {
        Ok(match &self.files {
            Some(files) => Cow::Borrowed(files.as_ref()),
            None => Cow::Owned(gpt2::recipe().into_files()?),
        })
    }

    /// Returns the parts of a byte-level tokenizer of GPT-2's form, for other programs; `None` for
    /// one of another form.
    ///
    /// # Errors
    /// None for a tokenizer that was read or made by this crate.
    pub fn byte_pairs(&self) -> Result<Option<BytePairs>, ModelTokenizerError> {
        let recipe = match &self.files {
            Some(files) => tokenizer_json::read(Path::new(""), files)?,
            None => Some(gpt2::recipe()),
        };
        let Some(recipe) = recipe.filter(|recipe| recipe.form == gpt2::FORM) else {
            return Ok(None);
        };
        let begin = match &self.around {
            [before, after] if after.is_empty() && before.len() < 2 => before.first().copied(),
            _ => return Ok(None),
        };
        let merges = recipe.merges.clone();
        let library = recipe.checked()?.build()?;
        let added = library.get_added_vocabulary().get_added_tokens_decoder();
        let tokens = library.get_vocab(true).into_iter();
        let tokens = tokens.map(|(token, id)| {
            let special = added.get(&id).map(|token| token.special);
            (id, (token, special))
        });
        Ok(Some(BytePairs {
            tokens: tokens.collect(),
            merges,
            begin,
        }))
    }
}

/// The parts of a byte-level tokenizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BytePairs {
    /// Each token by its id: its bytes in GPT-2's alphabet; or, of an added one, its text, and
    /// whether it is special.
    pub tokens: BTreeMap<u32, (String, Option<bool>)>,
    /// The first merge first.
    pub merges: Vec<(String, String)>,
    /// The id that is put before each text, if one is.
    pub begin: Option<u32>,
}

impl Encode for ModelTokenizer {
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        Ok(self.encode(text)?)
    }

    fn encode_part(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        Ok(self.encode_part(text)?)
    }
}

impl Decode for ModelTokenizer {
    fn piece_at(&self, id: u32, position: usize) -> Result<Cow<'_, [u8]>, TokenizerError> {
        let piece = self.piece(id).ok_or(TokenizerError::UnknownId {
            id,
            position,
            vocab_size: self.vocab_size(),
        })?;
        Ok(piece.into())
    }
}

impl Own {
    fn new(recipe: Recipe) -> Result<Self, ModelTokenizerError> {
        let (form, has_unknown) = (recipe.form.clone(), recipe.unknown.is_some());
        let recipe = recipe.checked()?;
        let pairs = Fast::pairs_of(&recipe);
        let library = recipe.build()?;
        let tokens = library.get_vocab(true);
        let vocab_size = tokens.values().max().map_or(0, |&id| id as usize + 1);
        let added = library.get_added_vocabulary().get_added_tokens_decoder();
        let plain = added.values().all(|token| {
            !token.lstrip && !token.rstrip && !token.content.contains(char::is_whitespace)
        });
        let texts: HashSet<String> = added.values().map(|token| token.content.clone()).collect();
        let special = added.iter().filter(|(_, token)| token.special);
        let special = special.map(|(&id, _)| id).collect();
        let fast = pairs.and_then(|pairs| Fast::new(pairs, added));
        // An added token is found in the text itself, before that is written in byte characters.
        let texts_of_added: HashMap<u32, Box<[u8]>> = added
            .iter()
            .map(|(&id, token)| (id, token.content.as_bytes().into()))
            .collect();
        let known = |byte: &u8| tokens.contains_key(&String::from(letter_of(*byte)));
        let (divides, looks, is_bytes) = match form {
            Form::ByteLevel {
                add_prefix_space,
                use_regex,
                ..
            } => (plain && use_regex && !add_prefix_space, use_regex, true),
            Form::Characters => (plain, false, false),
        };
        let bytes = |token: &str| match is_bytes {
            true => bytes_of_letters(token)
                .unwrap_or_else(|| token.into())
                .into(),
            false => token.as_bytes().into(),
        };
        let pieces = tokens.iter().map(|(token, &id)| (id, bytes(token)));
        Ok(Self {
            vocab_size,
            divides,
            looks,
            unknown: (0..=255)
                .filter(|byte| is_bytes && !has_unknown && !known(byte))
                .collect(),
            pieces: pieces.chain(texts_of_added).collect(),
            added_lengths: texts.iter().map(String::len).collect(),
            added: texts,
            special,
            fast,
            library,
        })
    }

    /// True if a text begins with an added token.
    fn begins_with_added(&self, text: &str) -> bool {
        let mut begins = self
            .added_lengths
            .iter()
            .filter_map(|&bytes| text.get(..bytes));
        begins.any(|begin| self.added.contains(begin))
    }

    fn encoder(&self, bytes: usize) -> PartEncoder<'_> {
        match &self.fast {
            Some(fast) => {
                let mut encoder = fast.encoder(bytes);
                Box::new(move |part| Ok(fast.encode(&mut encoder, part)))
            }
            None => Box::new(|part| self.encode_by_library(part)),
        }
    }

    fn encode_by_library(&self, text: &str) -> Result<Vec<u32>, ModelTokenizerError> {
        if self.looks && !self.divides && has_long_blank(text) {
            return Err(ModelTokenizerError::LongBlank { limit: LONG_BLANK });
        }
        let encoding = self.library.encode_fast(text, false);
        let encoding = encoding.map_err(error::library)?;
        let ids = encoding.get_ids().to_vec();
        if let Some(byte) = self.left_out(text, &ids) {
            return Err(ModelTokenizerError::UnknownByte { byte });
        }
        Ok(ids)
    }

    /// A byte without a token that the ids have less often than the text. (Special tokens may have
    /// it.)
    fn left_out(&self, text: &str, ids: &[u32]) -> Option<u8> {
        let count = |bytes: &[u8], byte| bytes.iter().filter(|&&b| b == byte).count();
        let mut unknown = self.unknown.iter().copied();
        unknown.find(|&byte| {
            let asked = count(text.as_bytes(), byte);
            asked > 0
                && ids
                    .iter()
                    .map(|id| count(&self.pieces[id], byte))
                    .sum::<usize>()
                    < asked
        })
    }
}

impl fmt::Debug for ModelTokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelTokenizer")
            .field("vocab_size", &self.vocab_size())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use test_support::any_text;

    /// Byte pairs with added tokens that overlap and share their beginning.
    fn with_added() -> ModelTokenizer {
        let text = "the bell rang, and the other bell rang with it\n".repeat(20);
        let trained = ModelTokenizer::train_bpe_at_most(&text, 300).unwrap();
        let files = trained.files.unwrap();
        let mut files = files.as_ref().clone();
        let text = files.get_mut(files::TOKENIZER).unwrap();
        let mut json: serde_json::Value = serde_json::from_str(text).unwrap();
        let added = json["added_tokens"].as_array_mut().unwrap();
        let id = added[0]["id"].as_u64().unwrap() + 1;
        for (content, id) in ["<|", "<|im|>", "bell ring", "éé"].into_iter().zip(id..) {
            let mut token = added[0].clone();
            (token["content"], token["id"]) = (content.into(), id.into());
            added.push(token);
        }
        *text = json.to_string();
        let tokenizer = ModelTokenizer::from_files(Path::new(""), files).unwrap();
        tokenizer.unwrap()
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_fast_form_has_the_librarys_ids(text in any_text(), marks in "(<\\||im\\|>|<\\|im\\|>|bell ring|bell|éé|é| |\n|the){0,12}") {
            static TOKENIZER: std::sync::LazyLock<ModelTokenizer> = std::sync::LazyLock::new(with_added);
            let Kind::Own(own) = &TOKENIZER.kind else {
                panic!("it isn't GPT-2's");
            };
            assert!(own.fast.is_some());
            for text in [format!("{text}{marks}"), format!("{marks}{text}{marks}")] {
                prop_assert_eq!(own.encoder(text.len())(&text).unwrap(), own.encode_by_library(&text).unwrap());
            }
        }
    }
}
