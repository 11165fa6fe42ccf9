//! The tokenizer of a model.

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

/// The tokenizer that a model was trained with.
///
/// A `ModelTokenizer` can be loaded from a model folder, trained on text, or created for GPT-2. A
/// clone shares the tables of the original.
///
/// As in transformers, if a text contains the string of a special token, such as `<|endoftext|>`,
/// this string is encoded as the special token. If the author of a text must not be able to insert
/// special tokens, check the text for them before you encode it.
///
/// ```
/// use model_tokenizer::ModelTokenizer;
/// let tokenizer = ModelTokenizer::train_chars("to be or not to be")?;
/// let ids = tokenizer.encode("not to be")?;
/// assert_eq!(tokenizer.decode(&ids)?, "not to be");
/// let folder = std::env::temp_dir().join("model-tokenizer-example");
/// std::fs::create_dir_all(&folder)?;
/// tokenizer.save(&folder)?; // for AutoTokenizer.from_pretrained
/// let again = ModelTokenizer::from_folder(&folder)?.expect("it was saved there");
/// assert_eq!(again.encode("not to be")?, ids);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct ModelTokenizer {
    pipeline: Arc<Pipeline>,
    named: Named<u32>,
    affixes: Affixes,
    files: Option<Arc<Files>>, // `None` for GPT-2, whose files are created only when needed.
}

impl ModelTokenizer {
    /// Returns GPT-2's tokenizer.
    pub fn gpt2() -> Self {
        Self {
            pipeline: Pipeline::gpt2(),
            named: [Some(ENDOFTEXT_ID), Some(ENDOFTEXT_ID), None],
            affixes: Affixes::default(),
            files: None,
        }
    }

    /// Loads the tokenizer from a model folder, like `AutoTokenizer.from_pretrained` in
    /// transformers. Returns `None` if the folder contains no tokenizer.
    ///
    /// # Errors
    /// Returns [`ModelTokenizerError::OtherKind`] if the tokenizer is of a kind that isn't
    /// supported, [`ModelTokenizerError::Invalid`] if a file is damaged, and
    /// [`ModelTokenizerError::Io`] if the folder doesn't exist or a file can't be read. The crate's
    /// documentation lists the supported kinds.
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

    /// Creates a tokenizer from the contents of its files. Returns `None` if the files contain no
    /// vocabulary. `folder` is used only in error messages.
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
        for ((ids, add), id) in affixes.iter_mut().zip(spec.add_bos_eos).zip(named) {
            ids.extend(id.filter(|_| add));
        }
        Ok(Some(Self {
            pipeline,
            named,
            affixes,
            files: Some(Arc::new(files)),
        }))
    }

    /// Encodes a whole text and returns its token IDs, including the IDs that the tokenizer adds
    /// [before](Self::ids_before) and [after](Self::ids_after) each text. If the text contains the
    /// string of a special token, it is encoded as the ID of this token.
    ///
    /// # Errors
    /// Returns the same errors as [`encode_part`](Self::encode_part).
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, ModelTokenizerError> {
        let [before, after] = &self.affixes;
        let mut ids = self.encode_part(text)?;
        ids.splice(..0, before.iter().copied());
        ids.extend(after);
        Ok(ids)
    }

    /// Encodes a part of a text, such as one message of a conversation, and returns its token IDs
    /// without adding any IDs before or after them. If the text contains the string of a special
    /// token, it is encoded as the ID of this token.
    ///
    /// # Errors
    /// Returns [`ModelTokenizerError::UnknownByte`] if the vocabulary has neither a token for a
    /// byte of the text nor an unknown token, and [`ModelTokenizerError::LeftOut`] if the pattern
    /// of the tokenizer doesn't match a part of the text. In both cases, transformers would
    /// silently omit a part of the text.
    pub fn encode_part(&self, text: &str) -> Result<Vec<u32>, ModelTokenizerError> {
        self.pipeline.encode(text)
    }

    /// Encodes text like [`encode_part`](Self::encode_part), and returns each token ID with the
    /// range of bytes in the text that the token represents.
    ///
    /// The ranges have these special cases: If a character consists of several bytes, a token may
    /// represent only some of them. The range of an added token with the setting `lstrip` or
    /// `rstrip` includes the adjacent white space. If Unicode normalization combines several
    /// characters, such as a letter and an accent, each token that contains a part of the result
    /// has a range that includes all of these characters. If the tokenizer adds a space before the
    /// text, the range of this space is empty.
    ///
    /// # Errors
    /// Returns the same errors as [`encode_part`](Self::encode_part).
    pub fn encode_with_offsets(
        &self,
        text: &str,
    ) -> Result<Vec<(u32, Range<usize>)>, ModelTokenizerError> {
        self.pipeline.encode_with_offsets(text)
    }

    /// Returns the byte pair encoding of this tokenizer, or `None` if the IDs of a [`Bpe`] would
    /// differ from those of [`encode_part`](Self::encode_part).
    ///
    /// The returned `Bpe` divides text by GPT-2's pattern, and its only special token is
    /// `<|endoftext|>`. Therefore, only GPT-2's tokenizer and similar byte pair encodings without
    /// other added tokens can be converted. `ModelTokenizer::try_from(&bpe)` converts in the
    /// opposite direction.
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

    /// Returns the IDs that [`encode`](Self::encode) adds before each text. They are defined by the
    /// post-processor in tokenizer.json or, if this file doesn't exist, by the setting
    /// `add_bos_token`.
    pub fn ids_before(&self) -> &[u32] {
        &self.affixes[0]
    }

    /// Returns the IDs that [`encode`](Self::encode) adds after each text. They are defined by the
    /// post-processor in tokenizer.json or, if this file doesn't exist, by the setting
    /// `add_eos_token`.
    pub fn ids_after(&self) -> &[u32] {
        &self.affixes[1]
    }

    /// Returns the decoded text.
    ///
    /// # Errors
    /// Returns [`TokenizerError::UnknownId`] for the first ID that the vocabulary doesn't contain,
    /// and [`TokenizerError::NotUtf8`] if the bytes aren't valid UTF-8, for example because the
    /// last token ends in the middle of a character.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        Tokenizer::decode(self, ids)
    }

    /// Returns the decoded text. As in transformers' `decode`, invalid UTF-8 is replaced with
    /// U+FFFD.
    ///
    /// # Errors
    /// Returns [`TokenizerError::UnknownId`] for the first ID that the vocabulary doesn't contain.
    pub fn decode_lossy(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        Tokenizer::decode_lossy(self, ids)
    }

    /// Returns the bytes of the token `id`, or `None` if the vocabulary doesn't contain this ID.
    pub fn piece(&self, id: u32) -> Option<&[u8]> {
        self.pipeline.piece(id)
    }

    /// Returns true if `id` is the ID of a special token, such as the token that marks the end of a
    /// text. In transformers, `decode(..., skip_special_tokens=True)` omits special tokens.
    pub fn is_special(&self, id: u32) -> bool {
        let added = self.pipeline.added.tokens().get(&id);
        added.is_some_and(|token| token.special) || self.named.contains(&Some(id))
    }

    /// Returns the added tokens whose recognition depends on the surrounding text: tokens with
    /// `lstrip` or `rstrip`, which include adjacent white space, and tokens with `single_word`,
    /// which aren't recognized inside words. Programs that ignore these settings, such as
    /// llama.cpp, may encode a text that contains these tokens to different IDs.
    pub fn context_tokens(&self) -> impl Iterator<Item = &str> {
        let looks_around = |token: &&AddedToken| token.lstrip || token.rstrip || token.single_word;
        let tokens = self.pipeline.added.tokens().values();
        tokens.filter(looks_around).map(|token| &*token.content)
    }

    /// Returns the size of the vocabulary, which is the largest token ID plus one.
    pub fn vocab_size(&self) -> usize {
        self.pipeline.vocab_size
    }

    /// Returns the ID of `bos_token`, which marks the beginning of a text, or `None` if the
    /// tokenizer doesn't define it.
    pub fn bos_token_id(&self) -> Option<u32> {
        self.named[0]
    }

    /// Returns the ID of `eos_token`, which marks the end of a text, or `None` if the tokenizer
    /// doesn't define it. If the model's configuration contains a different ID, that ID takes
    /// precedence.
    pub fn eos_token_id(&self) -> Option<u32> {
        self.named[1]
    }

    /// Returns the ID of `pad_token`, which is appended to the shorter sequences of a batch so that
    /// all sequences have the same length. Returns `None` if the tokenizer doesn't define this
    /// token.
    pub fn pad_token_id(&self) -> Option<u32> {
        self.named[2]
    }

    /// Returns true if the tokenizer is GPT-2's, which means that its vocabulary, its merges, its
    /// special token and its settings are equal to those of GPT-2.
    pub fn is_gpt2(&self) -> bool {
        Arc::ptr_eq(&self.pipeline, &Pipeline::gpt2())
    }

    /// Returns true if the vocabulary contains a token for each of the 256 bytes. In this case,
    /// encoding never fails with [`ModelTokenizerError::UnknownByte`].
    pub fn has_all_bytes(&self) -> bool {
        self.pipeline.has_all_bytes()
    }

    /// Returns the contents of tokenizer_config.json, or `None` if the tokenizer has no such file.
    pub fn config(&self) -> Option<&str> {
        self.files.as_ref()?.get(files::CONFIG).map(String::as_str)
    }

    /// Writes the files of this tokenizer to a folder, so that transformers can load them. If the
    /// folder doesn't exist, it is created together with any missing parent folders. If the
    /// tokenizer was loaded from files, these files are written unchanged. If the folder already
    /// contains the files of another tokenizer, they are replaced or deleted.
    ///
    /// # Errors
    /// Returns [`ModelTokenizerError::Io`] if the folder can't be created, or if a file can't be
    /// written or deleted. If writing a file fails, the old file remains.
    pub fn save(&self, folder: impl AsRef<Path>) -> Result<(), ModelTokenizerError> {
        let files = self.files()?;
        files::write_all(folder.as_ref(), &files)
    }

    /// Returns the files that [`save`](Self::save) writes, as a map from file names to contents.
    ///
    /// # Errors
    /// Never returns an error for a tokenizer that this crate has loaded or created.
    pub fn files(&self) -> Result<Cow<'_, BTreeMap<&'static str, String>>, ModelTokenizerError> {
        Ok(match &self.files {
            Some(files) => Cow::Borrowed(files.as_ref()),
            None => Cow::Owned(gpt2::spec().into_files()?),
        })
    }

    /// Returns the vocabulary and the merges, so that they can be exported to the format of another
    /// program. Returns `None` if the tokenizer isn't a byte pair encoding that divides text like
    /// GPT-2, or if it adds tokens other than a single one at the start of each text.
    ///
    /// # Errors
    /// Never returns an error for a tokenizer that this crate has loaded or created.
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
            tokens: tokens.chain(added).collect(), // A token in both lists counts as added.
            merges: spec.merges,
            begin,
        }))
    }
}

/// The vocabulary and the merges of a byte-level byte pair encoding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BytePairs {
    /// Tokens by ID. Each token consists of a string and a flag. For an ordinary token, the string
    /// represents each byte of the token by a printable character (see
    /// [`letters_of`](tokenizer::bpe::letters_of)), and the flag is `None`. For an added token, the
    /// string is the text of the token, and the flag says whether the token is special.
    pub tokens: BTreeMap<u32, (String, Option<bool>)>,
    /// The merge rules of the byte pair encoding, in the order in which they were learned. Each
    /// rule consists of the two tokens that are combined, such as "t" and "h" for the new token
    /// "th".
    pub merges: Vec<(String, String)>,
    /// ID of the token that the tokenizer adds at the start of each text, such as the ID of
    /// `bos_token`. `None` if the tokenizer adds no token.
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
