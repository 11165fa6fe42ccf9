//! A model's own tokenizer: GPT-2's, or one that its folder holds or that was trained on a text.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use atomic_file::FileError;
use serde::{Deserialize, Serialize};
use tokenizer::bpe::Bpe;
use tokenizer::{ENDOFTEXT_ID, Tokenizer, TokenizerError};

use crate::added::AddedToken;
use crate::error::ModelTokenizerError;
use crate::files::{self, Files};
use crate::normalization::Normalization;
use crate::pipeline::Pipeline;
use crate::spec::{Affixes, Named, TokenizerSpec, with_ids};
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
    pipeline: Arc<Pipeline>,
    named: Named<u32>,
    affixes: Affixes,
    files: Option<Arc<Files>>, // GPT-2's are made on demand
}

impl ModelTokenizer {
    /// GPT-2's own.
    pub fn gpt2() -> Self {
        Self {
            pipeline: Pipeline::gpt2(),
            named: [Some(ENDOFTEXT_ID), Some(ENDOFTEXT_ID), None],
            affixes: Affixes::default(),
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
        let Some(spec) = tokenizer_json::read(folder, &files)? else {
            return Ok(None);
        };
        let pipeline = Pipeline::new(&spec)?;
        let id_of = |name: &String| {
            let mut added = pipeline.added.tokens().iter();
            let added = added.find(|(_, token)| token.content == *name);
            added
                .map(|(id, _)| id)
                .or_else(|| spec.vocabulary.get(name))
                .copied()
        };
        let named = spec
            .named
            .each_ref()
            .map(|name| name.as_ref().and_then(id_of));
        let mut affixes = spec.affixes;
        for ((ids, add), id) in affixes.iter_mut().zip(spec.adds).zip(named) {
            ids.extend(id.filter(|_| add));
        }
        Ok(Some(Self {
            pipeline,
            named,
            affixes,
            files: Some(Arc::new(files)),
        }))
    }

    /// Returns the ids of a whole text, with [those before](Self::ids_before) and
    /// [after](Self::ids_after) each text; special tokens in it are special.
    ///
    /// # Errors
    /// Those of [`encode_part`](Self::encode_part).
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, ModelTokenizerError> {
        let [before, after] = &self.affixes;
        let mut ids = self.encode_part(text)?;
        ids.splice(..0, before.iter().copied());
        ids.extend(after);
        Ok(ids)
    }

    /// Returns the ids of a part of a text, such as a turn of a conversation, with nothing before
    /// or after them; special tokens in it are special.
    ///
    /// # Errors
    /// [`ModelTokenizerError::UnknownByte`] if the vocabulary lacks a byte of the text, and
    /// [`ModelTokenizerError::LeftOut`] if its pattern does: nothing is left out.
    pub fn encode_part(&self, text: &str) -> Result<Vec<u32>, ModelTokenizerError> {
        self.pipeline.encode(text)
    }

    /// Returns the ids of [`encode_part`](Self::encode_part), each with the range of bytes in the
    /// text that the token stands for.
    ///
    /// A token can be a part of a character. The range of an added token with `lstrip` or `rstrip`
    /// includes the white space that it takes. If a normalization joins several characters, the
    /// range of each token of the result contains all of them. A space that the tokenizer puts
    /// before a text has an empty range.
    ///
    /// # Errors
    /// Those of [`encode_part`](Self::encode_part).
    pub fn encode_with_offsets(
        &self,
        text: &str,
    ) -> Result<Vec<(u32, Range<usize>)>, ModelTokenizerError> {
        self.pipeline.encode_with_offsets(text)
    }

    /// Returns the byte pair encoding, or `None` if a [`Bpe`] would give other ids than
    /// [`encode_part`](Self::encode_part).
    ///
    /// A `Bpe` divides a text by GPT-2's pattern and has one special token, `<|endoftext|>`.
    /// GPT-2's tokenizer and those that are trained without further special tokens are of this
    /// kind. The opposite conversion is `ModelTokenizer::try_from(&bpe)`.
    ///
    /// ```
    /// use model_tokenizer::ModelTokenizer;
    /// use model_tokenizer::tokenizer::bpe::{Bpe, BpeConfig};
    /// let text = "the bell rang, and the bell's keeper went to the bell";
    /// let bpe = Bpe::train(text, &BpeConfig { vocab_size: 261, ..BpeConfig::default() })?;
    /// let tokenizer = ModelTokenizer::try_from(&bpe)?; // adds <|endoftext|>
    /// assert_eq!(tokenizer.encode("the bell")?, bpe.encode("the bell")?);
    /// let again = tokenizer.bpe().expect("no other special token");
    /// assert_eq!(again.merges(), bpe.merges());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn bpe(&self) -> Option<&Bpe> {
        self.pipeline.bpe()
    }

    /// The ids that are put before each text, as by a template of tokenizer.json or by
    /// `add_bos_token`.
    pub fn ids_before(&self) -> &[u32] {
        &self.affixes[0]
    }

    /// The ids that are put after each text.
    pub fn ids_after(&self) -> &[u32] {
        &self.affixes[1]
    }

    /// The text that the ids stand for.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] at the first unknown id; [`TokenizerError::NotUtf8`] if the
    /// bytes aren't UTF-8, for example half a character.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        Tokenizer::decode(self, ids)
    }

    /// Returns the text, with U+FFFD for invalid bytes, like Python's `decode`.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] at the first id that the vocabulary lacks.
    pub fn decode_lossy(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        Tokenizer::decode_lossy(self, ids)
    }

    /// The bytes that one id stands for; `None` if there is no such id.
    pub fn piece(&self, id: u32) -> Option<&[u8]> {
        self.pipeline.piece(id)
    }

    /// True for a special token, which marks up a text, such as its end. transformers'
    /// `decode(..., skip_special_tokens=True)` omits these tokens.
    pub fn is_special(&self, id: u32) -> bool {
        let added = self.pipeline.added.tokens().get(&id);
        added.is_some_and(|token| token.special) || self.named.contains(&Some(id))
    }

    /// The added tokens that take white space with them or aren't found inside words (`lstrip`,
    /// `rstrip`, `single_word`). Programs that lack these settings, as llama.cpp does, give other
    /// ids to texts with these tokens.
    pub fn context_tokens(&self) -> impl Iterator<Item = &str> {
        let looks_around = |token: &&AddedToken| token.lstrip || token.rstrip || token.single_word;
        let tokens = self.pipeline.added.tokens().values();
        tokens.filter(looks_around).map(|token| &*token.content)
    }

    /// One more than the largest id.
    pub fn vocab_size(&self) -> usize {
        self.pipeline.vocab_size
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
        Arc::ptr_eq(&self.pipeline, &Pipeline::gpt2())
    }

    /// True if the vocabulary has a token for every byte, so that it can encode any text.
    pub fn has_all_bytes(&self) -> bool {
        self.pipeline.has_all_bytes()
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
            None => Cow::Owned(gpt2::spec().into_files()?),
        })
    }

    /// Returns the parts of a byte-level tokenizer of GPT-2's form, for other programs; `None` for
    /// one of another form.
    ///
    /// # Errors
    /// None for a tokenizer that was read or made by this crate.
    pub fn byte_pairs(&self) -> Result<Option<BytePairs>, ModelTokenizerError> {
        let spec = match &self.files {
            Some(files) => tokenizer_json::read(Path::new(""), files)?,
            None => Some(gpt2::spec()),
        };
        let is_gpt2_form =
            |spec: &TokenizerSpec| spec.form.is_gpt2() && spec.normalization == Normalization::None;
        let Some(spec) = spec.filter(is_gpt2_form) else {
            return Ok(None);
        };
        let begin = match &self.affixes {
            [before, after] if after.is_empty() && before.len() < 2 => before.first().copied(),
            _ => return Ok(None),
        };
        let added = with_ids(&spec).into_iter();
        let added = added.map(|(id, token)| (id, (token.content, Some(token.special))));
        let tokens = spec.vocabulary.into_iter();
        let tokens = tokens.map(|(token, id)| (id, (token, None)));
        Ok(Some(BytePairs {
            tokens: tokens.chain(added).collect(), // a token that is in both is added
            merges: spec.merges,
            begin,
        }))
    }
}

/// The parts of a byte-level tokenizer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BytePairs {
    /// Each token by its id: its bytes in GPT-2's alphabet; or, of an added one, its text, and
    /// whether it is special.
    pub tokens: BTreeMap<u32, (String, Option<bool>)>,
    /// The first merge first.
    pub merges: Vec<(String, String)>,
    /// The id that is put before each text, if one is.
    pub begin: Option<u32>,
}

impl Tokenizer for ModelTokenizer {
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        Ok(self.encode(text)?)
    }

    fn encode_part(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        Ok(self.encode_part(text)?)
    }

    fn encode_with_offsets(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>, TokenizerError> {
        Ok(self.encode_with_offsets(text)?)
    }

    fn piece_at(&self, id: u32, position: usize) -> Result<Cow<'_, [u8]>, TokenizerError> {
        let piece = self.piece(id).ok_or(TokenizerError::UnknownId {
            id,
            position,
            vocab_size: self.vocab_size(),
        })?;
        Ok(piece.into())
    }

    fn vocab_size(&self) -> usize {
        self.vocab_size()
    }

    fn id_of(&self, token: &[u8]) -> Option<u32> {
        self.pipeline.id_of(token)
    }
}

impl fmt::Debug for ModelTokenizer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelTokenizer")
            .field("vocab_size", &self.vocab_size())
            .finish_non_exhaustive()
    }
}
