//! A model's vocabulary: its tokenizer, or the reason why it has ids alone, and the ids that begin,
//! end and pad its texts.
//!
//! Nothing is decoded with a vocabulary that isn't the model's.

use std::fs;
use std::ops::RangeInclusive;
use std::path::Path;

use anyhow::{Context, Result, anyhow};
use checkpoint::SpecialTokens;
use dataloader::Corpus;
use gpt::Memory;
use model_tokenizer::{MOST_FILE_BYTES, ModelTokenizer, ModelTokenizerError, TOKENIZER_FILES};

use crate::ids::Given;
use crate::memory::check;

/// GPT-2's 50257 tokens, and as nanoGPT pads them.
const GPT2_SIZES: RangeInclusive<usize> = 50257..=50304;

/// What a model's ids mean.
#[derive(Clone, Debug)]
pub(crate) struct Vocabulary {
    tokenizer: Result<ModelTokenizer, Without>,
    /// The ids that begin, end and pad a text.
    pub(crate) special: SpecialTokens,
}

/// Why a vocabulary is ids alone.
#[derive(Clone, Debug)]
struct Without {
    reason: String,
    /// There are files of a tokenizer of a kind that is read.
    damaged: bool,
}

impl Vocabulary {
    /// A tokenizer's, with its own beginning, end and padding of a text.
    pub(crate) fn new(tokenizer: ModelTokenizer) -> Self {
        let special = tokenizer.eos_token_id().map(SpecialTokens::between);
        let mut special = special.unwrap_or_default();
        special.bos = tokenizer.bos_token_id().or(special.bos);
        special.pad = tokenizer.pad_token_id();
        Self {
            special,
            tokenizer: Ok(tokenizer),
        }
    }

    /// That of the model at `path`: what its folder has, or GPT-2's if it has no tokenizer but as
    /// many tokens.
    ///
    /// # Errors
    /// If its files can't be read, or those that name the end of a text are damaged.
    pub(crate) fn of_model(path: &Path, vocab_size: usize) -> Result<Self> {
        let folder = folder_of(path);
        let mut vocabulary = Self::of_folder(folder, vocab_size)?;
        let tokenizer = vocabulary.tokenizer.as_ref().ok();
        let id = |name: &str| match name {
            "bos_token" => tokenizer?.bos_token_id(),
            "eos_token" => tokenizer?.eos_token_id(),
            "pad_token" => tokenizer?.pad_token_id(),
            _ => None,
        };
        let special = SpecialTokens::of_folder(folder, id)?;
        vocabulary.special = special.within(vocab_size);
        Ok(vocabulary)
    }

    /// That of the tokenizer in a folder, or GPT-2's if there is none but as many tokens.
    ///
    /// A tokenizer that is damaged or of another kind is an error where it is needed: ids go
    /// without.
    ///
    /// # Errors
    /// If its files can't be read.
    pub(crate) fn of_folder(folder: &Path, vocab_size: usize) -> Result<Self> {
        check_reading(folder)?;
        let without = match ModelTokenizer::from_folder(folder) {
            Ok(Some(tokenizer)) => return Ok(Self::new(tokenizer)),
            Ok(None) if is_gpt2_size(vocab_size) => return Ok(Self::new(ModelTokenizer::gpt2())),
            Ok(None) => Without {
                reason: format!(
                    "{}: no tokenizer in this folder, and {vocab_size} tokens are not GPT-2's",
                    folder.display()
                ),
                damaged: false,
            },
            Err(error @ ModelTokenizerError::Io(_)) => return Err(error.into()),
            Err(error) => Without {
                reason: error.to_string(),
                damaged: !matches!(error, ModelTokenizerError::OtherKind { .. }),
            },
        };
        Ok(Self {
            tokenizer: Err(without),
            special: SpecialTokens::default(),
        })
    }

    /// The tokenizer.
    ///
    /// # Errors
    /// Says why there is none, and what goes without.
    pub(crate) fn tokenizer(&self) -> Result<&ModelTokenizer> {
        match &self.tokenizer {
            Ok(tokenizer) => Ok(tokenizer),
            Err(Without { reason, .. }) => {
                Err(anyhow!("{reason}; ids (--tokens, .bin) go without"))
            }
        }
    }

    /// The tokenizer to write, if there is one.
    ///
    /// # Errors
    /// If it is damaged.
    pub(crate) fn whole(&self) -> Result<Option<&ModelTokenizer>> {
        match &self.tokenizer {
            Err(without) if !without.damaged => Ok(None),
            _ => self.tokenizer().map(Some),
        }
    }

    /// The ids of a text.
    ///
    /// # Errors
    /// If there is no tokenizer, or the memory has no room for the longest word.
    pub(crate) fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let tokenizer = self.tokenizer()?;
        check_encoding(text, tokenizer)?;
        Ok(tokenizer.encode(text)?)
    }

    /// The ids of a part of a text: nothing is put before or after it.
    ///
    /// # Errors
    /// Those of [`encode`](Self::encode).
    pub(crate) fn encode_part(&self, text: &str) -> Result<Vec<u32>> {
        let tokenizer = self.tokenizer()?;
        check_encoding(text, tokenizer)?;
        Ok(tokenizer.encode_part(text)?)
    }

    /// The ids of what was given, which may be in a file.
    pub(crate) fn corpus(&self, given: Given) -> Result<Corpus> {
        match given {
            Given::Ids(ids) => Ok(ids),
            Given::Text(text) => Ok(Corpus::from_ids(self.encode(&text)?)),
        }
    }

    /// The ids of what was given.
    pub(crate) fn ids(&self, given: Given) -> Result<Vec<u32>> {
        let ids = self.corpus(given)?;
        Ok(ids.read(..)?.into_owned())
    }

    /// The text of ids, or the ids themselves.
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

    /// `memory`, and what it takes to make the files that [`save`](Self::save) writes: each token
    /// stands in three lists, by its text.
    pub(crate) fn with_files(&self, memory: Memory) -> Result<Memory> {
        const BYTES_PER_TOKEN: usize = 512;
        let tokens = self
            .tokenizer
            .as_ref()
            .map_or(0, ModelTokenizer::vocab_size);
        Ok(memory.with("the tokenizer's files", &[BYTES_PER_TOKEN, tokens])?)
    }

    /// Writes it into a model's folder, as transformers loads it; a model without a tokenizer stays
    /// without.
    ///
    /// # Errors
    /// If its own tokenizer is damaged, or a file can't be written.
    pub(crate) fn save(&self, folder: &Path) -> Result<()> {
        if let Some(tokenizer) = self.whole()? {
            check(&self.with_files(Memory::new())?)?;
            tokenizer.save(folder)?;
        }
        Ok(self.special.save(folder)?)
    }
}

/// That the memory has room for the tables of the tokenizer in a folder while its files are read;
/// of one that is too long to be read its reader says so.
pub(crate) fn check_reading(folder: &Path) -> Result<()> {
    const TIMES: usize = 10;
    let sizes =
        TOKENIZER_FILES.map(|name| fs::metadata(folder.join(name)).map_or(0, |at| at.len()));
    let bytes: u64 = sizes.iter().filter(|&&size| size <= MOST_FILE_BYTES).sum();
    let memory = Memory::new().with("the tokenizer's tables", &[TIMES, bytes as usize])?;
    check(&memory).with_context(|| folder.display().to_string())
}

/// That the memory has room for the ids of a text, and for its longest word, whose pairs are merged
/// in one piece.
pub(crate) fn check_encoding(text: &str, tokenizer: &ModelTokenizer) -> Result<()> {
    let per_byte = if tokenizer.is_gpt2() { 64 } else { 256 };
    let longest_word = longest_word(text);
    // Nothing may be tried before it is known that the longest word fits.
    check(&Memory::encoding(0, longest_word, per_byte)?)?;
    check(&Memory::encoding(
        about_ids(text, tokenizer),
        longest_word,
        per_byte,
    )?)
}

/// That the memory has room to train byte pairs on the longest word of a text, of which each byte
/// is a token at first that knows its neighbours and where else its pairs are.
pub(crate) fn check_byte_pairs(text: &str) -> Result<()> {
    const PER_BYTE: usize = 80;
    check(&Memory::new().with(
        "byte pairs of the longest word",
        &[PER_BYTE, longest_word(text)],
    )?)
}

/// How many ids a text has: at most one a byte, and a long text a quarter more than its parts say.
fn about_ids(text: &str, tokenizer: &ModelTokenizer) -> usize {
    const PARTS: usize = 64;
    const BYTES: usize = 1024;
    if text.len() < 16 * PARTS * BYTES {
        return text.len();
    }
    let whole = |at: usize| (at..).find(|&at| text.is_char_boundary(at));
    let parts = (0..PARTS).filter_map(|part| {
        let begin = part * (text.len() / PARTS);
        text.get(whole(begin)?..whole(begin + BYTES)?)
    });
    // What no token stands for is told when the text is encoded.
    let counts = parts.map(|part| tokenizer.encode_part(part).map_or(BYTES, |ids| ids.len()));
    let share = counts.sum::<usize>() as f64 / (PARTS * BYTES) as f64;
    text.len().min((1.25 * share * text.len() as f64) as usize)
}

/// The bytes of the longest run of letters, of digits, of white space or of other characters, none
/// of which is cut before its pieces are merged.
fn longest_word(text: &str) -> usize {
    let (mut longest, mut begin, mut kind) = (0, 0, None);
    for (at, c) in text.char_indices() {
        let this = Some((c.is_alphabetic(), c.is_numeric(), c.is_whitespace()));
        if this != kind {
            (begin, kind) = (at, this);
        }
        longest = longest.max(at + c.len_utf8() - begin);
    }
    longest
}

/// The folder that a path is, or that its file is in.
pub(crate) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        _ if path.is_dir() => path,
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Whether a model of so many tokens can have GPT-2's.
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
    fn the_longest_word_is_of_one_kind_of_characters() {
        assert_eq!(longest_word(""), 0);
        assert_eq!(longest_word("ab cdé, 12345"), 5);
        assert_eq!(longest_word("été  \n\t  !?!"), 6);
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
        vocabulary.save(folder.path()).unwrap(); // ids alone
    }

    #[test]
    fn a_tokenizer_that_cant_be_read_is_never_no_tokenizer() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("tokenizer.json"), "{").unwrap();
        let damaged = Vocabulary::of_model(folder.path(), 50257).unwrap();
        assert_eq!(damaged.text_of(&[7, 8]), "7 8");
        let error = damaged.save(folder.path()).unwrap_err().to_string();
        assert!(error.contains("tokenizer.json: EOF"), "{error}");
        // A folder in the place of a file of the tokenizer's: what the system says is an error at
        // once.
        let no_folder = folder.path().join("tokenizer.json").join("inside");
        assert!(Vocabulary::of_folder(&no_folder, 50257).is_err());
    }
}
