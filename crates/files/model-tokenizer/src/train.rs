//! Vocabularies of a text of one's own: its characters, or byte pairs trained on it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tokenizer::ENDOFTEXT;
use tokenizers::models::bpe::{BPE, BpeTrainer};
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::{
    AddedToken, OffsetReferential, OffsetType, PreTokenizedString, PreTokenizer, Trainer,
};

use crate::byte_chars::char_of;
use crate::error::{ModelTokenizerError, library};
use crate::files::TOKENIZER;
use crate::gpt2;
use crate::model_tokenizer::ModelTokenizer;
use crate::parts::parts;
use crate::recipe::{Form, Recipe};

/// The token for characters that a vocabulary of characters lacks.
pub const UNK: &str = "<|unk|>";

/// 256 bytes and the end of a text.
const LEAST_BPE: usize = 257;

/// A pair that occurs once is no rule.
const LEAST_COUNT: u64 = 2;

/// The library counts pairs in `i32`.
const MOST_TEXT: usize = i32::MAX as usize; // bytes

impl ModelTokenizer {
    /// The characters of a text in the order of their code points, then [`UNK`] and `<|endoftext|>`, which divides the text.
    ///
    /// # Errors
    /// None that a text can cause.
    pub fn train_chars(text: &str) -> Result<Self, ModelTokenizerError> {
        let characters: BTreeSet<char> = text.split(ENDOFTEXT).flat_map(str::chars).collect();
        let mut tokens: Vec<String> = characters.into_iter().map(String::from).collect();
        tokens.push(UNK.to_owned());
        let unknown = AddedToken::from(UNK, true);
        let form = Form::Characters {
            unknown: UNK.to_owned(),
        };
        Self::trained(tokens, Vec::new(), &[unknown], form)
    }

    /// Byte pairs in GPT-2's way, `vocab_size` tokens with 256 bytes first and `<|endoftext|>`, which divides the text, last.
    ///
    /// The same text gives the same tokens, whatever the number of threads.
    ///
    /// # Errors
    /// [`ModelTokenizerError::VocabularyTooSmall`] for fewer than 257 tokens;
    /// [`ModelTokenizerError::TextTooShort`] if the text has not so many pairs that occur twice;
    /// [`ModelTokenizerError::TextTooLong`] for 2 GiB of text.
    pub fn train_bpe(text: &str, vocab_size: usize) -> Result<Self, ModelTokenizerError> {
        if vocab_size < LEAST_BPE {
            return Err(ModelTokenizerError::VocabularyTooSmall {
                asked: vocab_size,
                least: LEAST_BPE,
            });
        }
        if text.len() > MOST_TEXT {
            return Err(ModelTokenizerError::TextTooLong {
                bytes: text.len(),
                limit: MOST_TEXT,
            });
        }
        let mut trainer = BpeTrainer::builder()
            .vocab_size(vocab_size - 1)
            .min_frequency(LEAST_COUNT)
            .initial_alphabet((0..=255).map(char_of).collect())
            .show_progress(false)
            .build();
        let bytes = ByteLevel::new(false, false, true);
        let all: Vec<&str> = text
            .split(ENDOFTEXT)
            .flat_map(|text| parts(text, |_| false))
            .collect();
        let words = |part: &str| {
            let mut words = PreTokenizedString::from(part);
            bytes.pre_tokenize(&mut words)?;
            let words = words.get_splits(OffsetReferential::Original, OffsetType::None);
            Ok(words
                .into_iter()
                .map(|(word, ..)| word.to_owned())
                .collect())
        };
        trainer.feed(all.into_iter(), words).map_err(library)?;
        let mut model = BPE::default();
        trainer.train(&mut model).map_err(library)?;

        let mut tokens: Vec<(String, u32)> = model.get_vocab().into_iter().collect();
        tokens.sort_unstable_by_key(|(_, id)| *id);
        if tokens.len() + 1 < vocab_size {
            return Err(ModelTokenizerError::TextTooShort {
                asked: vocab_size,
                made: tokens.len() + 1,
            });
        }
        let tokens = tokens.into_iter().map(|(token, _)| token).collect();
        Self::trained(tokens, merges_of(&model)?, &[], gpt2::FORM)
    }

    /// A tokenizer of tokens in the order of their ids, and `<|endoftext|>` after them.
    fn trained(
        mut tokens: Vec<String>,
        merges: Vec<(String, String)>,
        special: &[AddedToken],
        form: Form,
    ) -> Result<Self, ModelTokenizerError> {
        tokens.push(ENDOFTEXT.to_owned());
        let ids: BTreeMap<&str, u32> = tokens.iter().map(String::as_str).zip(0..).collect();
        let special = special.iter().cloned().chain([gpt2::end_of_text()]);
        let recipe = Recipe {
            file: TOKENIZER.into(),
            added: special
                .map(|token| (ids[token.content.as_str()], token))
                .collect(),
            vocabulary: tokens.iter().cloned().zip(0..).collect(),
            merges,
            special: Vec::new(),
            end_of_text: Some(ENDOFTEXT.to_owned()),
            form,
        };
        let tokenizer = Self::from_files(Path::new(""), recipe.into_files()?)?;
        Ok(tokenizer.expect("the files hold the vocabulary that was just written"))
    }
}

/// The merges of a model, which the library shows in its JSON alone.
fn merges_of(model: &BPE) -> Result<Vec<(String, String)>, ModelTokenizerError> {
    let json = serde_json::to_value(model)
        .and_then(|mut json| serde_json::from_value(json["merges"].take()));
    json.map_err(|error| library(error.into()))
}
