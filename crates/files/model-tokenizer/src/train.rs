//! Trains tokenizers whose tokens are characters or byte pairs, and converts a [`Bpe`] to a
//! tokenizer.

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

/// Number of single-byte tokens with which training begins.
const BYTES: usize = 256;

/// Maximum total size of the training text in bytes. The size is limited because the training
/// stores positions as 32-bit numbers.
const MAX_TEXT: usize = i32::MAX as usize;

impl ModelTokenizer {
    /// Creates a tokenizer whose tokens are the distinct characters of a text, in the order of
    /// their code points, followed by [`UNK`] and `<|endoftext|>`. If the text contains the string
    /// `<|endoftext|>`, the characters of this string aren't counted.
    ///
    /// # Errors
    /// Never returns an error.
    pub fn train_chars(text: &str) -> Result<Self, ModelTokenizerError> {
        let characters: BTreeSet<char> = text.split(ENDOFTEXT).flat_map(str::chars).collect();
        let mut tokens: Vec<String> = characters.into_iter().map(String::from).collect();
        tokens.extend([UNK.to_owned(), ENDOFTEXT.to_owned()]);
        Self::trained(tokens, Vec::new(), &[UNK, ENDOFTEXT], Form::Characters)
    }

    /// Trains a byte pair encoding like GPT-2's with exactly `vocab_size` tokens: the 256 bytes,
    /// the learned tokens, and `<|endoftext|>`. If the text contains `<|endoftext|>`, the parts
    /// before and after it are treated as separate texts, so no learned token extends across it.
    ///
    /// The learned tokens are the same as those of [`Bpe::train`] and of Hugging Face's
    /// `tokenizers` library, regardless of the number of threads. Running time and memory usage
    /// grow almost linearly with the length of the text, even if the text contains very long words.
    ///
    /// # Errors
    /// Returns [`ModelTokenizerError::Training`] if `vocab_size` is less than 257, if the text
    /// doesn't contain enough pairs that occur at least twice, or if the text is 2 GiB or longer.
    pub fn train_bpe(text: &str, vocab_size: usize) -> Result<Self, ModelTokenizerError> {
        match Self::train_bpe_at_most(text, vocab_size)? {
            tokenizer if tokenizer.vocab_size() == vocab_size => Ok(tokenizer),
            smaller => Err(ModelTokenizerError::Training(format!(
                "the text contains enough byte pairs for a vocabulary of {} tokens, but not for one of {vocab_size} tokens; use a longer text or a smaller vocabulary",
                smaller.vocab_size()
            ))),
        }
    }

    /// Trains a byte pair encoding like [`train_bpe`](Self::train_bpe), but returns a tokenizer
    /// with fewer tokens if the text doesn't contain enough pairs that occur at least twice.
    ///
    /// # Errors
    /// Returns [`ModelTokenizerError::Training`] if `vocab_size` is less than 257 or if the text is
    /// 2 GiB or longer.
    pub fn train_bpe_at_most(text: &str, vocab_size: usize) -> Result<Self, ModelTokenizerError> {
        Self::train_bpe_on(&[text], &[], vocab_size)
    }

    /// Trains a byte pair encoding like [`train_bpe_at_most`](Self::train_bpe_at_most), but on
    /// several strings, such as the contents of files, and with special tokens.
    ///
    /// The special tokens get the last IDs, in the given order. If `special` doesn't contain
    /// `<|endoftext|>`, it is added as the last token. Learned tokens never contain a part of a
    /// special token that occurs in a string, and they never extend from one string into the next.
    ///
    /// The vocabulary becomes smaller than `vocab_size` if the strings don't contain enough pairs
    /// that occur at least twice. This isn't an error, so compare
    /// [`vocab_size`](Self::vocab_size) with the requested size if you need an exact size.
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
    /// Returns [`ModelTokenizerError::Training`] if `vocab_size` is less than 256 plus the number
    /// of special tokens, if the strings have 2 GiB or more in total, or if a special token is
    /// empty or equal to another token.
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
                "a vocabulary of {vocab_size} tokens is too small, because the 256 bytes and the special tokens alone need {least} tokens"
            ));
        }
        let bytes: usize = texts.iter().map(|text| text.len()).sum();
        if bytes > MAX_TEXT {
            return refused(format!(
                "the text has {bytes} bytes, but a vocabulary can be trained on at most {MAX_TEXT} bytes; use a shorter text"
            ));
        }
        if special.contains(&"") {
            return refused(
                "a special token is empty, but it must contain at least one byte".to_owned(),
            );
        }
        let config = BpeConfig {
            vocab_size: vocab_size - special.len(),
            ..BpeConfig::default()
        };
        // Divide the training text at the special tokens, so that no learned token contains a part
        // of a special token. The encoder divides text in the same way.
        let tokens = special.iter().map(|token| AddedToken::new(*token, true));
        let tokens = AddedTokens::new((0..).zip(tokens).collect(), Normalization::None);
        let tokens = tokens.map_err(|error| {
            ModelTokenizerError::Training(format!(
                "can't build the matcher for special tokens: {error}"
            ))
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

    /// Creates a tokenizer from a byte pair encoding and special tokens. The special tokens get the
    /// IDs that follow those of the byte pair encoding. However, if the byte pair encoding already
    /// contains `<|endoftext|>`, this token keeps its ID.
    ///
    /// Returns an error if the tokenizer can't be stored in the file format of Hugging Face's
    /// `tokenizers` library. The error contains only the reason, for use in a longer message,
    /// such as "the token with the ID 5 is empty".
    fn of_bpe(bpe: &Bpe, special: &[&str]) -> Result<Self, String> {
        let mut tokens: Vec<String> = bpe.tokens().iter().map(|token| letters_of(token)).collect();
        if let Some(id) = tokens.iter().position(String::is_empty) {
            return Err(format!(
                "the token with the ID {id} is empty, but each token must contain at least one byte"
            ));
        }
        let token = |id: u32| tokens[id as usize].clone();
        let mut merges = Vec::new();
        for merge in bpe.merges() {
            let (left, right) = (token(merge.left), token(merge.right));
            if token(merge.id) != format!("{left}{right}") {
                return Err(format!(
                    "the merge of {left:?} and {right:?} produces the token {:?}, which isn't their concatenation",
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
            return Err(format!("the vocabulary contains the token {token:?} twice"));
        }
        Self::trained(tokens, merges, special, Form::GPT2).map_err(|error| error.to_string())
    }

    /// Creates a tokenizer from a list of tokens in the order of their IDs. The list must also
    /// contain the special tokens.
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
            named: Default::default(), // They are read from the files.
            affixes: Affixes::default(),
            add_bos_eos: [false; 2],
            unknown: matches!(form, Form::Characters).then(|| UNK.to_owned()),
            fuse_unknown: false,
            normalization: Normalization::None,
            form,
        };
        let tokenizer = Self::from_files(Path::new(""), spec.into_files()?)?;
        Ok(tokenizer.expect("the files hold the vocabulary that was just written"))
    }
}

/// Converts a byte pair encoding to the tokenizer of a model. Each token keeps its ID. If the byte
/// pair encoding doesn't contain `<|endoftext|>`, this token gets the next ID.
///
/// [`ModelTokenizer::bpe`] converts in the opposite direction.
///
/// # Errors
/// Returns [`ModelTokenizerError::Conversion`] if the files of a model can't represent the
/// encoding:
///
/// - The encoding doesn't divide text by GPT-2's pattern, which is checked with a sample text.
/// - The [rules](Bpe::rules) of the encoding differ from GPT-2's.
/// - A token is empty, or two tokens consist of the same bytes.
/// - The result of a merge isn't the concatenation of the two tokens that the merge combines.
impl TryFrom<&Bpe> for ModelTokenizer {
    type Error = ModelTokenizerError;

    fn try_from(bpe: &Bpe) -> Result<Self, ModelTokenizerError> {
        const SAMPLE: &str = "It's 12 o'clock,  we'll go! \n\n a\u{3000}b 1a a1 <|x|> ";
        let refused = |problem: String| Err(ModelTokenizerError::Conversion(problem));
        if bpe.pieces(SAMPLE) != gpt2_pieces(SAMPLE) {
            return refused("it doesn't split text with GPT-2's pattern".to_owned());
        }
        if bpe.rules() != EncodingRules::default() {
            return refused(format!(
                "its encoding rules must be the same as GPT-2's, but they are {:?}",
                bpe.rules()
            ));
        }
        Self::of_bpe(bpe, &[ENDOFTEXT]).or_else(refused)
    }
}

/// Divides several documents into words by GPT-2's pattern, and returns each distinct word with the
/// number of times it occurs. All threads are used. The order of the returned words is arbitrary,
/// but it has no effect on the learned tokens.
fn words_of<'t>(documents: &[&'t str]) -> Vec<(&'t str, u64)> {
    // Count the words of each small part of a document immediately, because a list of all words of
    // a document would need more memory than the document itself.
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
