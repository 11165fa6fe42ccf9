//! Vocabularies trained on a text: its characters, or byte pairs.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::Path;

use rayon::prelude::*;
use tokenizer::bpe::{Bpe, BpeConfig, EncodingRules, gpt2_parts, gpt2_pieces, letters_of};
use tokenizer::{ENDOFTEXT, UNK};

use crate::added::{AddedToken, AddedTokens};
use crate::error::ModelTokenizerError;
use crate::files::TOKENIZER;
use crate::model_tokenizer::ModelTokenizer;
use crate::normalization::Normalization;
use crate::pipeline::MIN_PART;
use crate::spec::{Affixes, Form, TokenizerSpec};

/// Number of tokens that are a single byte.
const BYTES: usize = 256;

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
        Self::trained(tokens, Vec::new(), &[UNK, ENDOFTEXT], Form::Characters)
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
    /// with special tokens.
    ///
    /// The special tokens get the last ids, in their order, and are followed by `<|endoftext|>`
    /// unless they contain it. No other token contains a special token or reaches from one text
    /// into the next.
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
    /// [`ModelTokenizerError::Training`] if `vocab_size` is less than 256 plus the number of
    /// special tokens, for 2 GiB of text, and for a special token that is empty or equal to another
    /// token.
    pub fn train_bpe_on(
        texts: &[&str],
        special: &[&str],
        vocab_size: usize,
    ) -> Result<Self, ModelTokenizerError> {
        let refused = |problem: String| Err(ModelTokenizerError::Training(problem));
        let mut special = special.to_vec();
        if !special.contains(&ENDOFTEXT) {
            special.push(ENDOFTEXT);
        }
        let least = BYTES + special.len();
        if vocab_size < least {
            return refused(format!(
                "a vocabulary of {vocab_size} tokens is too small: 256 bytes and the special tokens need at least {least}"
            ));
        }
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        if bytes > MAX_TEXT {
            return refused(format!(
                "a text of {bytes} bytes: a vocabulary is trained on at most {MAX_TEXT}; a part of the text makes as good a one"
            ));
        }
        if special.contains(&"") {
            return refused("a special token is empty".to_owned());
        }
        let config = BpeConfig {
            vocab_size: vocab_size - special.len(),
            ..BpeConfig::default()
        };
        // Texts are divided at special tokens as they are when they are encoded.
        let tokens = special.iter().map(|token| AddedToken::new(*token, true));
        let tokens = AddedTokens::new((0..).zip(tokens).collect(), Normalization::None);
        let tokens = tokens.map_err(|error| {
            ModelTokenizerError::Training(format!("the special tokens: {error}"))
        })?;
        let documents = texts.iter().flat_map(|text| {
            let segments = tokens.segments(text).into_iter();
            let between = segments.filter(|segment| matches!(segment.parts[..], [(None, _)]));
            between.map(|segment| &text[segment.range])
        });
        let documents: Vec<&str> = documents.collect();
        let bpe = Bpe::train_on(&words_of(&documents), &config);
        let bpe = bpe.expect("GPT-2's alphabet has all bytes");
        Self::of_bpe(&bpe, &special).or_else(refused)
    }

    /// Makes a tokenizer of byte pairs and special tokens, which follow the other tokens unless the
    /// byte pairs contain them.
    ///
    /// The error is the reason why files can't hold these tokens.
    fn of_bpe(bpe: &Bpe, special: &[&str]) -> Result<Self, String> {
        let mut tokens: Vec<String> = bpe.tokens().iter().map(|token| letters_of(token)).collect();
        if let Some(id) = tokens.iter().position(String::is_empty) {
            return Err(format!("the token with the ID {id} is empty"));
        }
        let token = |id: u32| tokens[id as usize].clone();
        let mut merges = Vec::new();
        for merge in bpe.merges() {
            let (left, right) = (token(merge.left), token(merge.right));
            if token(merge.id) != format!("{left}{right}") {
                return Err(format!(
                    "the token of the merge {left:?} {right:?} is {:?}",
                    token(merge.id)
                ));
            }
            merges.push((left, right));
        }
        let ends = bpe.id_of(ENDOFTEXT.as_bytes()).is_some();
        let new = special
            .iter()
            .filter(|token| !(ends && **token == ENDOFTEXT));
        tokens.extend(new.map(|token| (*token).to_owned()));
        let mut distinct = HashSet::new();
        if let Some(token) = tokens.iter().find(|token| !distinct.insert(*token)) {
            return Err(format!("two tokens are {token:?}"));
        }
        Self::trained(tokens, merges, special, Form::GPT2).map_err(|error| error.to_string())
    }

    /// A tokenizer of tokens in the order of their ids, with `<|endoftext|>` among them.
    fn trained(
        tokens: Vec<String>,
        merges: Vec<(String, String)>,
        special: &[&str],
        form: Form,
    ) -> Result<Self, ModelTokenizerError> {
        let vocabulary: HashMap<String, u32> = tokens.into_iter().zip(0..).collect();
        let special = special.iter();
        let added = special.map(|token| (vocabulary[*token], AddedToken::new(*token, true)));
        let spec = TokenizerSpec {
            file: TOKENIZER.into(),
            added: added.collect(),
            vocabulary,
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

/// Makes a tokenizer for a model of a byte pair encoding. Each token keeps its ID, and
/// `<|endoftext|>` gets the next one unless the encoding has it.
///
/// The opposite conversion is [`ModelTokenizer::bpe`].
///
/// # Errors
/// [`ModelTokenizerError::Conversion`] if the encoding doesn't divide a text by GPT-2's pattern, has
/// other [rules](Bpe::rules) than GPT-2's, an empty token, two tokens with the same bytes, or a
/// merge whose token isn't its two parts, one after the other. Whether it divides texts by GPT-2's
/// pattern is tested with a text.
impl TryFrom<&Bpe> for ModelTokenizer {
    type Error = ModelTokenizerError;

    fn try_from(bpe: &Bpe) -> Result<Self, ModelTokenizerError> {
        const SAMPLE: &str = "It's 12 o'clock,  we'll go! \n\n a\u{3000}b 1a a1 <|x|> ";
        let refused = |problem: String| Err(ModelTokenizerError::Conversion(problem));
        if bpe.pieces(SAMPLE) != gpt2_pieces(SAMPLE) {
            return refused("they don't divide texts by GPT-2's pattern".to_owned());
        }
        if bpe.rules() != EncodingRules::default() {
            return refused(format!("{:?} aren't GPT-2's rules", bpe.rules()));
        }
        Self::of_bpe(bpe, &[ENDOFTEXT]).or_else(refused)
    }
}

/// The words of texts and how often each occurs, counted on all threads; their order changes no
/// token.
fn words_of<'t>(documents: &[&'t str]) -> Vec<(&'t str, u64)> {
    // Small parts, because the list of a part's words takes more memory than the part.
    let parts = documents.iter().flat_map(|text| gpt2_parts(text, MIN_PART));
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
