//! Reads, uses and saves the vocabulary of a model, which consists of a tokenizer, special tokens,
//! generation settings and chat templates.
//!
//! If a model's folder contains no tokenizer, but the model's vocabulary has the size of GPT-2's,
//! GPT-2's tokenizer is used. Any other model without a supported tokenizer can be used only with
//! token IDs.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Result, anyhow, bail};
use atomic_file::folder_of;
use checkpoint::SpecialTokens;
use dataloader::Corpus;
use model_tokenizer::{ModelTokenizer, ModelTokenizerError};

use crate::model::ids::Input;
use crate::model::sidecar_files::SidecarFiles;
use crate::terminal::output::note;

/// Vocabulary sizes for which GPT-2's tokenizer is used if a model has no tokenizer of its own.
/// GPT-2's tokenizer has 50257 tokens, and nanoGPT pads the vocabulary to 50304 tokens.
const GPT2_SIZES: RangeInclusive<usize> = 50257..=50304;

/// The tokenizer, special tokens, generation settings and chat templates of a model.
#[derive(Clone, Debug)]
pub(crate) struct Vocabulary {
    /// Tokenizer, or the reason why the model has none.
    tokenizer: Result<ModelTokenizer, String>,
    /// IDs of the BOS, EOS and padding tokens.
    pub(crate) special: SpecialTokens,
    /// Generation settings and chat templates.
    pub(crate) settings: SidecarFiles,
}

impl Vocabulary {
    /// Creates a vocabulary with a tokenizer and the special tokens that the tokenizer defines.
    pub(crate) fn new(tokenizer: ModelTokenizer) -> Self {
        let special = tokenizer.eos_token_id().map(SpecialTokens::between);
        let mut special = special.unwrap_or_default();
        special.bos = tokenizer.bos_token_id().or(special.bos);
        special.pad = tokenizer.pad_token_id();
        Self {
            special,
            tokenizer: Ok(tokenizer),
            settings: SidecarFiles::default(),
        }
    }

    /// Reads the vocabulary of the model at `path`. `vocab_size` is the number of tokens in this
    /// vocabulary. If the model's folder contains no tokenizer, but GPT-2's vocabulary has this
    /// size, uses GPT-2's tokenizer and prints a note.
    ///
    /// # Errors
    /// Returns an error if a file with the tokenizer, the special tokens or the generation settings
    /// can't be read or is damaged.
    pub(crate) fn of_model(path: &Path, vocab_size: usize) -> Result<Self> {
        let folder = folder_at(path);
        let (mut vocabulary, is_assumed) = Self::find(folder, vocab_size)?;
        if is_assumed {
            let name = folder.display();
            note(&format!(
                "{name}: this folder contains no tokenizer; using GPT-2's tokenizer, because the model's vocabulary has {vocab_size} tokens"
            ));
        }
        let tokenizer = vocabulary.tokenizer.as_ref().ok();
        let id = |name: &str| match name {
            "bos_token" => tokenizer?.bos_token_id(),
            "eos_token" => tokenizer?.eos_token_id(),
            "pad_token" => tokenizer?.pad_token_id(),
            _ => None,
        };
        let special = SpecialTokens::of_folder(folder, id)?;
        vocabulary.special = special.within(vocab_size);
        vocabulary.settings = SidecarFiles::of_folder(folder)?;
        Ok(vocabulary)
    }

    /// Reads the tokenizer in a folder. If the folder contains no tokenizer, but `vocab_size` is
    /// the size of GPT-2's vocabulary, uses GPT-2's tokenizer.
    ///
    /// An unsupported kind of tokenizer isn't an error here, because the model can still be used
    /// with token IDs. The error is returned only when the tokenizer is needed, for example to
    /// encode a text.
    ///
    /// # Errors
    /// Returns an error if the tokenizer can't be read or is damaged.
    pub(crate) fn of_folder(folder: &Path, vocab_size: usize) -> Result<Self> {
        Ok(Self::find(folder, vocab_size)?.0)
    }

    /// Implements [`of_folder`](Self::of_folder). In addition to the vocabulary, returns true if
    /// GPT-2's tokenizer was chosen, because the folder contains no tokenizer and `vocab_size` is
    /// the size of GPT-2's vocabulary. Returns false if the folder's own tokenizer was read, or if
    /// the vocabulary has no tokenizer.
    fn find(folder: &Path, vocab_size: usize) -> Result<(Self, bool)> {
        let reason = match ModelTokenizer::from_folder(folder) {
            Ok(Some(tokenizer)) => return Ok((Self::new(tokenizer), false)),
            Ok(None) if is_gpt2_size(vocab_size) => {
                return Ok((Self::new(ModelTokenizer::gpt2()), true));
            }
            Ok(None) => format!(
                "{}: this folder contains no tokenizer, and GPT-2's tokenizer doesn't match the model's vocabulary of {vocab_size} tokens",
                folder.display()
            ),
            Err(error @ ModelTokenizerError::OtherKind { .. }) => error.to_string(),
            Err(error) => return Err(error.into()),
        };
        let without = Self {
            tokenizer: Err(reason),
            special: SpecialTokens::default(),
            settings: SidecarFiles::default(),
        };
        Ok((without, false))
    }

    /// Returns the tokenizer.
    ///
    /// # Errors
    /// Returns an error if there is no tokenizer. The message contains the reason, and suggests
    /// using token IDs instead.
    pub(crate) fn tokenizer(&self) -> Result<&ModelTokenizer> {
        let without =
            |reason| anyhow!("{reason}; use token IDs (--tokens, or a .bin file) instead of text");
        self.tokenizer.as_ref().map_err(without)
    }

    /// Encodes a complete text.
    ///
    /// # Errors
    /// Returns an error if there is no tokenizer, or if it can't encode a part of the text.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.tokenizer()?.encode(text)?)
    }

    /// Encodes a text that continues another text. Unlike [`encode`](Self::encode), this method
    /// doesn't add any tokens before or after the text.
    ///
    /// # Errors
    /// Returns the errors of [`encode`](Self::encode).
    pub(crate) fn encode_part(&self, text: &str) -> Result<Vec<u32>> {
        Ok(self.tokenizer()?.encode_part(text)?)
    }

    /// Returns the token IDs with which text generation starts: the token IDs of the prompt or, if
    /// the prompt is empty, the model's beginning-of-text token (BOS).
    ///
    /// # Errors
    /// Returns an error if the prompt is empty and the model has no BOS token.
    pub(crate) fn begin<'t>(&'t self, prompt: &'t [u32]) -> Result<&'t [u32]> {
        match (prompt, self.special.bos.as_slice()) {
            ([], []) => bail!(
                "the prompt is empty, and this model has no beginning-of-text token; specify at least one token"
            ),
            ([], begin) => Ok(begin),
            _ => Ok(prompt),
        }
    }

    /// Returns the token IDs of a command's input, which is either a list of token IDs or a text. A
    /// text is encoded with the model's tokenizer. If some of its characters aren't in the
    /// vocabulary, prints a note.
    ///
    /// # Errors
    /// Returns the errors of [`encode`](Self::encode).
    pub(crate) fn corpus(&self, input: &Input) -> Result<Corpus> {
        match input {
            Input::Ids(ids) => Ok(ids.clone()),
            Input::Text(text) => {
                let ids = self.encode(text)?;
                self.note_unknown(text);
                Ok(Corpus::from_ids(ids))
            }
        }
    }

    /// Prints a note that lists the characters of `text` that aren't in the vocabulary. The
    /// tokenizer encodes them as its token for unknown characters.
    pub(crate) fn note_unknown(&self, text: &str) {
        const MAX_SHOWN: usize = 10;
        let Some(tokenizer) = self
            .tokenizer
            .as_ref()
            .ok()
            .filter(|all| !all.has_all_bytes())
        else {
            return;
        };
        // Removes the names of special tokens, such as `<|endoftext|>`, from the text before it is
        // searched for unknown characters. Each of these names is encoded as a single token, so its
        // characters don't have to be in the vocabulary.
        let special = [tokenizer.bos_token_id(), tokenizer.eos_token_id()];
        let special = special
            .into_iter()
            .flatten()
            .chain(self.special.eos.iter().copied());
        let special = special.filter_map(|id| String::from_utf8(tokenizer.piece(id)?.into()).ok());
        let text = special.fold(text.to_owned(), |text, name| match name.is_empty() {
            true => text,
            false => text.replace(&name, ""),
        });
        let is_unknown = |c: &char| {
            let text = c.to_string();
            let ids = tokenizer.encode_part(&text).unwrap_or_default();
            let back = tokenizer.decode_lossy(&ids);
            back.is_ok_and(|back| !back.contains(&text))
        };
        let characters: BTreeSet<char> = text.chars().collect();
        let unknown: Vec<char> = characters.into_iter().filter(is_unknown).collect();
        if unknown.is_empty() {
            return;
        }
        let shown = unknown.iter().take(MAX_SHOWN).map(|c| format!("{c:?}"));
        let more = match unknown.len() > MAX_SHOWN {
            true => format!(" and {} more", unknown.len() - MAX_SHOWN),
            false => String::new(),
        };
        note(&format!(
            "the vocabulary doesn't contain {}{more}, so the model's unknown token is used instead",
            shown.collect::<Vec<_>>().join(" ")
        ));
    }

    /// Returns the IDs of all special tokens: the tokens that mark the beginning and the end of a
    /// text, the padding token, and the tokens that the tokenizer adds to each text.
    pub(crate) fn special_ids(&self) -> Vec<u32> {
        let special = &self.special;
        let mut ids = special.eos.clone();
        ids.extend(special.bos.iter().chain(&special.pad));
        if let Ok(tokenizer) = &self.tokenizer {
            ids.extend(tokenizer.ids_before().iter().chain(tokenizer.ids_after()));
            ids.extend(tokenizer.eos_token_id());
        }
        ids.sort_unstable();
        ids.dedup();
        ids
    }

    /// Checks that all token IDs are less than `vocab_size`, the size of the model's vocabulary.
    ///
    /// # Errors
    /// Returns an error that contains the first ID that is too large and, if possible, its token.
    pub(crate) fn check_ids(&self, ids: &Corpus, vocab_size: usize) -> Result<()> {
        let Err(error) = ids.check_ids(vocab_size) else {
            return Ok(());
        };
        let all = ids.read(..)?;
        let missing = all.iter().find(|&&id| id as usize >= vocab_size);
        let tokenizer = self.tokenizer.as_ref().ok();
        let piece = missing.and_then(|&id| tokenizer?.piece(id));
        match (missing, piece) {
            (Some(id), Some(piece)) => bail!(
                "the token {:?} (ID {id}) isn't in the model's vocabulary of {vocab_size} tokens; remove it from the text, or use the model's own tokenizer",
                String::from_utf8_lossy(piece)
            ),
            _ => Err(error.into()),
        }
    }

    /// Decodes token IDs. If there is no tokenizer, returns the IDs themselves, separated by
    /// spaces.
    pub(crate) fn text_of(&self, ids: &[u32]) -> String {
        let text = self.tokenizer.as_ref().ok();
        match text.and_then(|tokenizer| tokenizer.decode_lossy(ids).ok()) {
            Some(text) => text,
            None => {
                let ids: Vec<String> = ids.iter().map(u32::to_string).collect();
                ids.join(" ")
            }
        }
    }

    /// Returns the files that contain the tokenizer, the generation settings and the chat
    /// templates. Each element consists of the name and the content of a file.
    ///
    /// # Errors
    /// Returns an error if the chat templates can't be read.
    pub(crate) fn files(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let owned = |(name, bytes): (&str, &[u8])| (name.to_owned(), bytes.to_owned());
        let mut files: Vec<_> = self.settings.all()?.map(owned).collect();
        if let Ok(tokenizer) = &self.tokenizer {
            for (name, text) in tokenizer.files()?.iter() {
                files.push(((*name).to_owned(), text.clone().into_bytes()));
            }
        }
        Ok(files)
    }

    /// Saves the vocabulary to a model's folder, in files that the transformers library can load.
    ///
    /// # Errors
    /// Returns an error if a file can't be written, or if the chat templates can't be read.
    pub(crate) fn save(&self, folder: &Path) -> Result<()> {
        if let Ok(tokenizer) = &self.tokenizer {
            tokenizer.save(folder)?;
        }
        self.special.save(folder)?;
        self.settings.save(folder)
    }
}

/// Returns `path` if it is a folder, and otherwise the folder that contains it.
pub(crate) fn folder_at(path: &Path) -> &Path {
    match path.is_dir() {
        true => path,
        false => folder_of(path),
    }
}

/// Returns true if a vocabulary has the size of GPT-2's, either with or without the padding that
/// nanoGPT adds.
pub(crate) fn is_gpt2_size(vocab_size: usize) -> bool {
    GPT2_SIZES.contains(&vocab_size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_tokenizer_gpt2s_size_is_gpt2_and_any_other_is_ids() {
        let folder = tempfile::tempdir().unwrap();
        let of = |size| Vocabulary::of_model(folder.path(), size).unwrap();
        for size in [50257, 50304] {
            assert_eq!(of(size).text_of(&[15496]), "Hello");
            assert_eq!(of(size).special, SpecialTokens::between(50256));
        }
        for size in [512, 50256, 50305, 151_936] {
            assert_eq!(of(size).text_of(&[15496, 11]), "15496 11");
            assert_eq!(of(size).special, SpecialTokens::default());
            let error = of(size).encode("Hello").unwrap_err().to_string();
            assert!(
                error.contains("no tokenizer") && error.contains("--tokens"),
                "{error}"
            );
        }
    }

    #[test]
    fn a_tokenizer_that_is_not_read_is_named_and_the_models_own_end_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("spiece.model"), [0]).unwrap();
        std::fs::write(
            folder.path().join("config.json"),
            r#"{"eos_token_id": [7, 900]}"#,
        )
        .unwrap();
        let vocabulary = Vocabulary::of_model(folder.path(), 512).unwrap();
        let error = vocabulary.encode("Hello").unwrap_err().to_string();
        assert!(error.contains("SentencePiece"), "{error}");
        assert_eq!(
            (vocabulary.special.bos, &vocabulary.special.eos[..]),
            (Some(7), &[7][..])
        );
        vocabulary.save(folder.path()).unwrap(); // A model without a tokenizer can be saved.
    }

    #[test]
    fn a_tokenizer_that_cant_be_read_is_never_no_tokenizer() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tokenizer.json"), "{").unwrap();
        let error = Vocabulary::of_model(folder.path(), 50257).unwrap_err();
        let error = error.to_string();
        assert!(error.contains("tokenizer.json: EOF"), "{error}");
        // The path of this folder contains the name of a file.
        let no_folder = folder.path().join("tokenizer.json").join("inside");
        assert!(Vocabulary::of_folder(&no_folder, 50257).is_err());
    }
}
