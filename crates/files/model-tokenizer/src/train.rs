//! Vocabularies trained on a text: its characters, or byte pairs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use rayon::prelude::*;
use tokenizer::bpe::{Bpe, BpeConfig, Ties, gpt2_parts, gpt2_pieces, letters_of};
use tokenizer::{ENDOFTEXT, UNK};

use crate::added::AddedToken;
use crate::error::ModelTokenizerError;
use crate::files::TOKENIZER;
use crate::gpt2;
use crate::model_tokenizer::ModelTokenizer;
use crate::normalization::Normalization;
use crate::pipeline::MIN_PART;
use crate::spec::{Affixes, Form, TokenizerSpec};

/// 256 bytes and the end of a text.
const MIN_BPE: usize = 257;

/// Places in a text, and between its words, are numbered in 32 bits.
const MAX_TEXT: usize = i32::MAX as usize; // bytes

impl ModelTokenizer {
    /// The characters of a text in the order of their code points, then [`UNK`] and
    /// `<|endoftext|>`, which divides the text.
    ///
    /// # Errors
    /// None that a text can cause.
    pub fn train_chars(text: &str) -> Result<Self, ModelTokenizerError> {
        let characters: BTreeSet<char> = text.split(ENDOFTEXT).flat_map(str::chars).collect();
        let mut tokens: Vec<String> = characters.into_iter().map(String::from).collect();
        tokens.push(UNK.to_owned());
        let unknown = AddedToken::new(UNK, true);
        Self::trained(tokens, Vec::new(), &[unknown], Form::Characters)
    }

    /// Byte pairs in GPT-2's way, `vocab_size` tokens with 256 bytes first and `<|endoftext|>`,
    /// which divides the text, last.
    ///
    /// They equal those of the library tokenizers, with any number of threads. Time and memory grow
    /// in proportion to the text, for words of any length.
    ///
    /// # Errors
    /// [`ModelTokenizerError::Training`] for fewer than 257 tokens, if the text has not so many
    /// pairs that occur twice, and for 2 GiB of text.
    pub fn train_bpe(text: &str, vocab_size: usize) -> Result<Self, ModelTokenizerError> {
        match Self::train_bpe_at_most(text, vocab_size)? {
            tokenizer if tokenizer.vocab_size() == vocab_size => Ok(tokenizer),
            smaller => Err(ModelTokenizerError::Training(format!(
                "the text has byte pairs for {} tokens, not for {vocab_size}: take more text or a smaller vocabulary",
                smaller.vocab_size()
            ))),
        }
    }

    /// Trains byte pairs as [`Self::train_bpe`] does, fewer if the text has no more.
    ///
    /// # Errors
    /// [`ModelTokenizerError::Training`] for fewer than 257 tokens and for 2 GiB of text.
    pub fn train_bpe_at_most(text: &str, vocab_size: usize) -> Result<Self, ModelTokenizerError> {
        if vocab_size < MIN_BPE {
            return Err(ModelTokenizerError::Training(format!(
                "a vocabulary of {vocab_size} tokens: byte pairs need at least {MIN_BPE}, 256 bytes and the end of a text"
            )));
        }
        if text.len() > MAX_TEXT {
            return Err(ModelTokenizerError::Training(format!(
                "a text of {} bytes: a vocabulary is trained on at most {MAX_TEXT}; a part of the text makes as good a one",
                text.len()
            )));
        }
        let config = BpeConfig {
            vocab_size: vocab_size - 1,
            ties: Ties::SmallestIds,
            ..BpeConfig::default()
        };
        let bpe = Bpe::train_on(&words_of(text), &config);
        let bpe = bpe.expect("GPT-2's alphabet has all bytes");
        let tokens: Vec<String> = bpe.tokens().iter().map(|token| letters_of(token)).collect();
        let token = |id: u32| tokens[id as usize].clone();
        let merges = bpe.merges().iter();
        let merges = merges.map(|merge| (token(merge.left), token(merge.right)));
        let merges = merges.collect();
        Self::trained(tokens, merges, &[], Form::GPT2)
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
        let spec = TokenizerSpec {
            file: TOKENIZER.into(),
            added: special
                .map(|token| (ids[token.content.as_str()], token))
                .collect(),
            vocabulary: tokens.iter().cloned().zip(0..).collect(),
            merges,
            special: Vec::new(),
            named: Default::default(), // from the files
            affixes: Affixes::default(),
            adds: [false; 2],
            unknown: matches!(form, Form::Characters).then(|| UNK.to_owned()),
            fuse_unknown: false,
            normalization: Normalization::None,
            form,
        };
        let tokenizer = Self::from_files(Path::new(""), spec.into_files()?)?;
        Ok(tokenizer.expect("the files hold the vocabulary that was just written"))
    }
}

/// The words of a text and how often each occurs, counted on all threads; their order changes no
/// token.
fn words_of(text: &str) -> Vec<(&str, u64)> {
    let documents = text.split(ENDOFTEXT);
    // Small parts, because the list of a part's words takes more memory than the part.
    let parts = documents.flat_map(|text| gpt2_parts(text, MIN_PART, |_| false));
    let all: Vec<&str> = parts.collect();
    let counted = all.par_iter().fold(HashMap::new, |mut counts, part| {
        for word in gpt2_pieces(part) {
            *counts.entry(word).or_insert(0) += 1;
        }
        counts
    });
    let counts = counted.reduce(HashMap::new, |mut counts, more| {
        for (word, count) in more {
            *counts.entry(word).or_insert(0) += count;
        }
        counts
    });
    counts.into_iter().collect()
}
