//! Vocabularies trained on a text: its characters, or byte pairs.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use rayon::prelude::*;
use tokenizer::bpe::{Bpe, BpeConfig, gpt2_parts, gpt2_pieces, letters_of};
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
        tokens.extend([UNK.to_owned(), ENDOFTEXT.to_owned()]);
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
        Self::train_bpe_on(&[text], &[], vocab_size)
    }

    /// Trains byte pairs as [`Self::train_bpe_at_most`] does, on several texts, such as files, and
    /// with special tokens, which divide the texts and have the ids before `<|endoftext|>`'s.
    ///
    /// ```
    /// use model_tokenizer::ModelTokenizer;
    /// let texts = ["<|user|>Is it late?", "<|user|>It is late."];
    /// let tokenizer = ModelTokenizer::train_bpe_on(&texts, &["<|user|>"], 264)?;
    /// let user = tokenizer.vocab_size() as u32 - 2;
    /// assert_eq!(tokenizer.encode("<|user|>")?, [user]);
    /// assert!(tokenizer.is_special(user));
    /// # Ok::<(), model_tokenizer::ModelTokenizerError>(())
    /// ```
    ///
    /// # Errors
    /// [`ModelTokenizerError::Training`] for a vocabulary smaller than 256 bytes and the special
    /// tokens, for 2 GiB of text, and for a special token that is empty or another token.
    pub fn train_bpe_on(
        texts: &[&str],
        special: &[&str],
        vocab_size: usize,
    ) -> Result<Self, ModelTokenizerError> {
        let least = MIN_BPE + special.len();
        if vocab_size < least {
            let special = match special.len() {
                0 => String::new(),
                count => format!(", {count} special tokens"),
            };
            return Err(ModelTokenizerError::Training(format!(
                "a vocabulary of {vocab_size} tokens: byte pairs need at least {least}, 256 bytes{special} and the end of a text"
            )));
        }
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        if bytes > MAX_TEXT {
            return Err(ModelTokenizerError::Training(format!(
                "a text of {bytes} bytes: a vocabulary is trained on at most {MAX_TEXT}; a part of the text makes as good a one"
            )));
        }
        if let Some(token) = special.iter().find(|token| token.is_empty()) {
            let problem = format!("the special token {token:?} is empty");
            return Err(ModelTokenizerError::Training(problem));
        }
        let config = BpeConfig {
            vocab_size: vocab_size - 1 - special.len(),
            ..BpeConfig::default()
        };
        let mut documents = texts.to_vec();
        for token in special.iter().chain([&ENDOFTEXT]) {
            documents = documents
                .iter()
                .flat_map(|text| text.split(token))
                .collect();
        }
        let bpe = Bpe::train_on(&words_of(&documents), &config);
        let bpe = bpe.expect("GPT-2's alphabet has all bytes");
        Self::of_bpe(&bpe, special)
    }

    /// A tokenizer of byte pairs, special tokens after them, and `<|endoftext|>`, if it isn't among
    /// them, at the end.
    fn of_bpe(bpe: &Bpe, special: &[&str]) -> Result<Self, ModelTokenizerError> {
        let mut tokens: Vec<String> = bpe.tokens().iter().map(|token| letters_of(token)).collect();
        let token = |id: u32| tokens[id as usize].clone();
        let merges = bpe.merges().iter();
        let merges = merges.map(|merge| (token(merge.left), token(merge.right)));
        let merges = merges.collect();
        let ends = (bpe.id_of(ENDOFTEXT.as_bytes()).is_none()).then_some(&ENDOFTEXT);
        tokens.extend(special.iter().chain(ends).map(|token| (*token).to_owned()));
        let mut distinct = BTreeSet::new();
        if let Some(token) = tokens.iter().find(|token| !distinct.insert(*token)) {
            let problem = format!("two tokens are {token:?}");
            return Err(ModelTokenizerError::Training(problem));
        }
        let special = special.iter().map(|token| AddedToken::new(*token, true));
        let special: Vec<AddedToken> = special.collect();
        Self::trained(tokens, merges, &special, Form::GPT2)
    }

    /// A tokenizer of tokens in the order of their ids, with `<|endoftext|>` among them.
    fn trained(
        tokens: Vec<String>,
        merges: Vec<(String, String)>,
        special: &[AddedToken],
        form: Form,
    ) -> Result<Self, ModelTokenizerError> {
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

/// Byte pairs that were trained with [`Bpe::train`], as a tokenizer with files; the ids stay, and
/// `<|endoftext|>` gets the next one unless it is among the tokens. [`ModelTokenizer::bpe`] gives
/// them back.
///
/// # Errors
/// [`ModelTokenizerError::Training`] if the byte pairs divide a text in another way than GPT-2's,
/// have other rules, or two tokens with the same bytes.
impl TryFrom<&Bpe> for ModelTokenizer {
    type Error = ModelTokenizerError;

    fn try_from(bpe: &Bpe) -> Result<Self, ModelTokenizerError> {
        const PROBE: &str = "It's 12 o'clock,  we'll go! \n\n a\u{3000}b 1a a1 <|x|> ";
        if bpe.pieces(PROBE) != gpt2_pieces(PROBE) || bpe.rules() != Default::default() {
            let problem = "transformers' files need byte pairs with GPT-2's pieces and rules";
            return Err(ModelTokenizerError::Training(problem.to_owned()));
        }
        Self::of_bpe(bpe, &[])
    }
}

/// The words of texts and how often each occurs, counted on all threads; their order changes no
/// token.
fn words_of<'t>(documents: &[&'t str]) -> Vec<(&'t str, u64)> {
    // Small parts, because the list of a part's words takes more memory than the part.
    let parts = documents
        .iter()
        .flat_map(|text| gpt2_parts(text, MIN_PART, |_| false));
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
