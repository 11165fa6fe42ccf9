//! Training and applying a byte pair encoding (BPE), as in section 2.5 of the book and in its bonus
//! notebook "BPE from scratch".
//!
//! Training starts with a vocabulary of 256 tokens, one for each byte. It counts how often each
//! pair of adjacent tokens occurs, adds the most frequent pair to the vocabulary as a new token,
//! replaces all occurrences of the pair with this token, and repeats these steps until the
//! vocabulary is large enough. A [`Merge`] consists of such a pair and the token that replaces it.
//! To encode text, its bytes are merged in the same way: of all pairs in the text, the pair whose
//! merge was learned first is replaced first.
//!
//! Before bytes are merged, the text is divided into pieces, such as words. Each piece is encoded
//! separately, so a token never contains bytes from two pieces. See [`gpt2_pieces`].
//!
//! Training and encoding are each implemented twice. [`Bpe::train_plain`] and [`Bpe::encode_plain`]
//! follow the definition step by step and take quadratic time. [`Bpe::train`] and [`Bpe::encode`]
//! produce the same results, and their running time is nearly proportional to the length of the
//! text. With GPT-2's merges, the token IDs are the same as in OpenAI's library tiktoken.
//!
//! ```
//! use tokenizer::bpe::{Bpe, BpeConfig, Merge};
//! let config = BpeConfig { vocab_size: 258, ..BpeConfig::default() };
//! let plain = Bpe::train_plain("low lower lowest", &config)?;
//! assert_eq!(plain.tokens()[256..], [b"lo".to_vec(), b"low".to_vec()]);
//! assert_eq!(plain.merges()[1], Merge { left: 256, right: 86, id: 257 }); // "lo" and "w"
//! assert_eq!(plain.encode_plain("slow"), [82, 257]); // "s" and "low"
//!
//! let bpe = Bpe::train("low lower lowest", &config)?; // the fast implementation
//! assert_eq!(bpe.merges(), plain.merges());
//! assert_eq!(bpe.encode("slow")?, [82, 257]);
//! # Ok::<(), tokenizer::TokenizerError>(())
//! ```

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::ops::Range;
use std::sync::{LazyLock, OnceLock};

use rustc_hash::FxHashMap;

use crate::cache::PieceCache;
use crate::error::TokenizerError;
use crate::gpt2_tokens::{ENDOFTEXT, gpt2_tokens_and_pairs};
use crate::pairs::{Pair, PairCounts, Row};
use crate::pattern::pieces;
use crate::tokenizer::Tokenizer;

pub use crate::letters::{bytes_of_letters, gpt2_bytes, letter_of, letters_of};
pub use crate::pairs::Ties;
pub use crate::pattern::{gpt2_parts, gpt2_piece, gpt2_pieces};

/// A pair of tokens and the token that replaces it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Merge {
    /// ID of the first token of the pair.
    pub left: u32,
    /// ID of the second token of the pair.
    pub right: u32,
    /// ID of the token that replaces the pair.
    pub id: u32,
}

/// Settings for training a byte pair encoding.
#[derive(Clone, Debug)]
pub struct BpeConfig {
    /// Number of tokens that the vocabulary should have after training, including the tokens of the
    /// alphabet. The vocabulary becomes smaller than this if the training text doesn't contain
    /// enough frequent pairs. The default is 1,000.
    pub vocab_size: usize,
    /// Tokens that the vocabulary contains before training, in the order of their IDs. They must
    /// include each of the 256 bytes, and can include [`ENDOFTEXT`]. If a token occurs twice, as in
    /// the book's notebook, encoding uses the last of its IDs.
    ///
    /// By default, the alphabet consists of the 256 bytes in GPT-2's order and doesn't include
    /// [`ENDOFTEXT`]. If you add it at the end of the alphabet, it gets the ID 256, and the tokens
    /// that are learned get the IDs from 257:
    ///
    /// ```
    /// use tokenizer::{ENDOFTEXT, bpe::{Bpe, BpeConfig}};
    /// let mut config = BpeConfig { vocab_size: 259, ..BpeConfig::default() };
    /// config.alphabet.push(ENDOFTEXT.into());
    /// let bpe = Bpe::train("low lower<|endoftext|>lowest", &config)?;
    /// assert_eq!(bpe.tokens()[257..], [&b"lo"[..], b"low"]);
    /// assert_eq!(bpe.encode("low<|endoftext|>low")?, [258, 256, 258]);
    /// # Ok::<(), tokenizer::TokenizerError>(())
    /// ```
    ///
    /// Without [`ENDOFTEXT`], the trained encoding encodes the string `<|endoftext|>` as ordinary
    /// text. In GPT-2's vocabulary, this token has the last ID instead. The type `ModelTokenizer`
    /// of the crate `model-tokenizer` trains such a vocabulary.
    pub alphabet: Vec<Vec<u8>>,
    /// Function that returns the first piece of a string. The encoding calls it repeatedly to
    /// divide a text into pieces. The pieces are encoded separately, so a token never contains
    /// bytes from two pieces. The default is [`gpt2_piece`].
    ///
    /// The function is called once for each piece. Its argument is all of the text that isn't
    /// divided yet and is never empty. The function must return a prefix of its argument. If the
    /// prefix is empty, the whole argument becomes a single piece. If the returned string isn't a
    /// prefix, training and encoding panic.
    ///
    /// The function should examine only the beginning of its argument. If it examines the whole
    /// argument, for example to find all pieces at once, the time for training and encoding grows
    /// quadratically with the length of the text.
    ///
    /// ```
    /// use tokenizer::bpe::{Bpe, BpeConfig};
    /// /// Returns the first line of a text, including its line break.
    /// fn line(text: &str) -> &str {
    ///     let end = text.find('\n').map_or(text.len(), |position| position + 1);
    ///     &text[..end]
    /// }
    /// let config = BpeConfig { divide: line, ..BpeConfig::default() };
    /// let bpe = Bpe::train("one two\none two\n", &config)?;
    /// assert_eq!(bpe.pieces("one two\nthree"), ["one two\n", "three"]);
    /// assert_eq!(bpe.encode("one two\n")?.len(), 1); // The line has become a single token.
    /// # Ok::<(), tokenizer::TokenizerError>(())
    /// ```
    ///
    /// The function can't capture any values, because it is a function pointer. If it uses a
    /// regular expression, compile the expression only once, in a `static` of type [`LazyLock`].
    /// Begin the expression with `\A`, so that it matches only at the beginning of the text.
    pub divide: fn(&str) -> &str,
    /// Minimum number of times that a pair of adjacent tokens must occur in the training text to be
    /// merged into a new token. The default is 2.
    pub least_count: u64,
    /// Rule that decides which pair of adjacent tokens is merged first if several pairs are equally
    /// frequent. The default is [`Ties::SmallestIds`].
    pub ties: Ties,
}

/// The default settings train a vocabulary like GPT-2's, but with 1,000 tokens: the alphabet
/// consists of the 256 bytes in GPT-2's order, text is divided into GPT-2's pieces, and a pair must
/// occur at least twice to become a token.
///
/// If several pairs are equally frequent, the pair with the smallest IDs becomes a token first. The
/// crate `model-tokenizer` and Hugging Face's `tokenizers` library follow the same rule, so they
/// learn the same tokens from the same text. The book's notebook instead chooses the pair that
/// occurs first in the text ([`Ties::FirstInText`]).
impl Default for BpeConfig {
    fn default() -> Self {
        Self {
            vocab_size: 1000,
            alphabet: gpt2_bytes().map(|byte| vec![byte]).to_vec(),
            divide: gpt2_piece,
            least_count: 2,
            ties: Ties::SmallestIds,
        }
    }
}

/// A byte pair encoding with its tokens and merges.
///
/// ```
/// use tokenizer::bpe::{Bpe, BpeConfig, gpt2_piece};
/// let text = "low lower lowest";
/// let bpe = Bpe::train(text, &BpeConfig { vocab_size: 260, ..BpeConfig::default() })?;
/// let ids = bpe.encode("slow")?;
/// assert_eq!(ids, [82, 257]); // "s" and "low"
/// assert_eq!(bpe.tokens()[256..], [&b"lo"[..], b"low", b" low", b" lowe"]);
/// assert_eq!(bpe.decode(&ids)?, "slow");
///
/// // An encoding can be rebuilt from its tokens and merges.
/// let again = Bpe::from_merges(bpe.tokens().to_vec(), bpe.merges().to_vec(), gpt2_piece)?;
/// assert_eq!(again.encode("slow")?, ids);
/// # Ok::<(), tokenizer::TokenizerError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Bpe {
    tokens: Vec<Vec<u8>>, // the bytes of each token, indexed by ID
    ids: OnceLock<FxHashMap<Box<[u8]>, u32>>, // the ID of each token
    byte_ids: [u32; 256],
    rules: EncodingRules,
    merges: Vec<Merge>, // in the order in which they were learned
    ranks: FxHashMap<Pair, (usize, u32)>, // pair -> index of its merge, and ID of the new token
    divide: fn(&str) -> &str,
    end_of_text: Option<u32>,
}

/// Rules for encoding text, which can differ between models. The default values are GPT-2's rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodingRules {
    /// Whether to encode a piece as a single token if the vocabulary contains a token with the same
    /// bytes, even if the merges would result in other tokens.
    pub ignore_merges: bool,
    /// ID of the unknown token, which represents bytes that have no token of their own. If this is
    /// `None`, such a byte is encoded as [`NO_TOKEN`], which isn't a valid ID.
    pub unknown: Option<u32>,
    /// Whether a sequence of bytes that have no token is encoded as a single unknown token,
    /// provided that all of these bytes belong to the same piece of the text. If this is false,
    /// each byte is encoded as an unknown token of its own.
    pub fuse_unknown: bool,
}

/// ID that an encoder returns for a byte without a token if [`EncodingRules::unknown`] is `None`.
pub const NO_TOKEN: u32 = u32::MAX - 2;

/// Marker for a pair of adjacent tokens that can't be merged. Real entries consist of the index of
/// the pair's merge and the ID of the merged token. The index of this entry is greater than that of
/// any merge, so the pair is never chosen before a pair that can be merged.
const NO_MERGE: (usize, u32) = (usize::MAX, 0);

/// The plain implementation.
impl Bpe {
    /// Learns a vocabulary from text by following the definition of byte pair encoding step by
    /// step. [`train`](Self::train) produces the same result in less time.
    ///
    /// # Errors
    /// Returns [`TokenizerError::MissingByte`] if the alphabet doesn't contain each byte.
    ///
    /// # Panics
    /// Panics if [`BpeConfig::divide`] returns a string that isn't a prefix of its argument.
    pub fn train_plain(text: &str, config: &BpeConfig) -> Result<Self, TokenizerError> {
        let mut bpe = Self::of_alphabet(config)?;
        let words = text.split(ENDOFTEXT);
        let words = words.flat_map(|text| pieces(text, config.divide));
        let mut words: Vec<Vec<u32>> = words.map(|word| bpe.ids_of_bytes(word)).collect();
        while bpe.tokens.len() < config.vocab_size
            && let Some(pair) = most_frequent(&words, config)
        {
            let bytes = [&*bpe.tokens[pair.0 as usize], &bpe.tokens[pair.1 as usize]].concat();
            // If different pairs have the same concatenation, they share one token.
            let known = bpe.tokens.iter().rposition(|token| *token == bytes);
            let id = known.unwrap_or(bpe.tokens.len()) as u32;
            if known.is_none() {
                bpe.tokens.push(bytes);
            }
            words = words.iter().map(|word| merged(word, pair, id)).collect();
            bpe.push(pair, id);
        }
        Ok(bpe)
    }

    /// Encodes a piece of text by following the definition of byte pair encoding step by step. As
    /// long as adjacent tokens of the piece can be merged, the merge that was learned first is
    /// applied to all of its occurrences.
    pub fn encode_plain(&self, piece: &str) -> Vec<u32> {
        let mut ids = self.ids_of_bytes(piece);
        let stands_in = |merge: &Merge, ids: &[u32]| {
            let mut pairs = ids.windows(2);
            pairs.any(|pair| pair == [merge.left, merge.right])
        };
        while let Some(merge) = self.merges.iter().find(|merge| stands_in(merge, &ids)) {
            ids = merged(&ids, (merge.left, merge.right), merge.id);
        }
        ids
    }

    fn ids_of_bytes(&self, word: &str) -> Vec<u32> {
        let ids = word.bytes().map(|byte| self.byte_ids[usize::from(byte)]);
        ids.collect()
    }
}

/// Returns the most frequent pair of adjacent tokens in `words`, or `None` if no pair occurs at
/// least `config.least_count` times. The function uses linear searches to count the pairs, so it
/// takes quadratic time.
fn most_frequent(words: &[Vec<u32>], config: &BpeConfig) -> Option<Pair> {
    let mut counts: Vec<(Pair, u64)> = Vec::new(); // in the order of the text
    for pair in words.iter().flat_map(|word| word.windows(2)) {
        let pair = (pair[0], pair[1]);
        match counts.iter_mut().find(|(counted, _)| *counted == pair) {
            Some((_, count)) => *count += 1,
            None => counts.push((pair, 1)),
        }
    }
    if config.ties == Ties::SmallestIds {
        counts.sort_unstable();
    }
    let first_of_equals = counts.iter().rev().max_by_key(|(_, count)| *count)?;
    (first_of_equals.1 >= config.least_count).then_some(first_of_equals.0)
}

/// Returns a copy of a word's token IDs in which each occurrence of `pair`, from left to right, is
/// replaced with `id`, the token into which the pair is merged.
fn merged(word: &[u32], pair: Pair, id: u32) -> Vec<u32> {
    let (mut new, mut rest) = (Vec::new(), word);
    while let [first, behind @ ..] = rest {
        let is_pair = (Some(first), behind.first()) == (Some(&pair.0), Some(&pair.1));
        new.push(if is_pair { id } else { *first });
        rest = if is_pair { &behind[1..] } else { behind };
    }
    new
}

/// The fast implementation, and methods that both implementations use.
impl Bpe {
    /// Learns a vocabulary from text. If the text consists of several documents that are separated
    /// by [`ENDOFTEXT`], no token extends from one document into the next.
    ///
    /// The vocabulary can become smaller than `config.vocab_size` (see
    /// [`train_texts`](Self::train_texts)).
    ///
    /// # Errors
    /// Returns [`TokenizerError::MissingByte`] if the alphabet doesn't contain each byte.
    ///
    /// # Panics
    /// Panics if [`BpeConfig::divide`] returns a string that isn't a prefix of its argument.
    pub fn train(text: &str, config: &BpeConfig) -> Result<Self, TokenizerError> {
        Self::train_texts(&[text], config)
    }

    /// Learns a vocabulary from several strings, such as the contents of files. The result is the
    /// same as if the strings were joined with [`ENDOFTEXT`] between them.
    ///
    /// The vocabulary becomes smaller than `config.vocab_size` if the strings don't contain enough
    /// pairs that occur at least `config.least_count` times. This isn't an error, so compare
    /// [`vocab_size`](Self::vocab_size) with the requested size if you need an exact size.
    ///
    /// # Errors
    /// Returns [`TokenizerError::MissingByte`] if the alphabet doesn't contain each byte.
    ///
    /// # Panics
    /// Panics if [`BpeConfig::divide`] returns a string that isn't a prefix of its argument.
    pub fn train_texts(texts: &[&str], config: &BpeConfig) -> Result<Self, TokenizerError> {
        // The distinct words, each with its number of occurrences.
        let mut words: Vec<(&str, u64)> = Vec::new();
        let mut places = HashMap::new();
        let documents = texts.iter().flat_map(|text| text.split(ENDOFTEXT));
        for word in documents.flat_map(|text| pieces(text, config.divide)) {
            let position = *places.entry(word).or_insert(words.len());
            match words.get_mut(position) {
                Some((_, count)) => *count += 1,
                None => words.push((word, 1)),
            }
        }
        Self::train_on(&words, config)
    }

    /// Learns a vocabulary from a list of words. Each word is given with the number of its
    /// occurrences.
    ///
    /// The time and memory that training requires are nearly proportional to the total length of
    /// the words, even if some of the words are very long.
    ///
    /// # Errors
    /// Returns [`TokenizerError::MissingByte`] if the alphabet doesn't contain each byte.
    pub fn train_on(words: &[(&str, u64)], config: &BpeConfig) -> Result<Self, TokenizerError> {
        let mut bpe = Self::of_alphabet(config)?;
        let mut ids: HashMap<Vec<u8>, u32> = bpe.tokens.iter().cloned().zip(0..).collect();
        let mut counts = PairCounts::of(words, &bpe.byte_ids, config.ties);
        while bpe.tokens.len() < config.vocab_size
            && let Some((pair, count)) = counts.most_frequent()
            && count >= config.least_count
        {
            let bytes = [&*bpe.tokens[pair.0 as usize], &bpe.tokens[pair.1 as usize]].concat();
            // If different pairs have the same concatenation, they share one token.
            let id = *ids.entry(bytes.clone()).or_insert(bpe.tokens.len() as u32);
            if id as usize == bpe.tokens.len() {
                bpe.tokens.push(bytes);
            }
            bpe.push(pair, id);
            counts.replace(pair, id);
        }
        Ok(bpe)
    }

    /// Builds an encoding from a vocabulary that was trained earlier. The tokens must be in the
    /// order of their IDs, and the merges must be in the order in which they were learned. The
    /// function `divide` divides text into pieces by returning the first piece of a string. It must
    /// meet the requirements of [`BpeConfig::divide`]. Otherwise, encoding panics.
    ///
    /// # Errors
    /// Returns [`TokenizerError::MissingByte`] if a byte has no token, and
    /// [`TokenizerError::UnknownId`] with the index of the merge if a merge contains an ID without
    /// a token.
    pub fn from_merges(
        tokens: Vec<Vec<u8>>,
        merges: Vec<Merge>,
        divide: fn(&str) -> &str,
    ) -> Result<Self, TokenizerError> {
        let bpe = Self::with_rules(tokens, merges, divide, EncodingRules::default())?;
        bpe.with_all_bytes()
    }

    /// Builds an encoding whose rules can differ from GPT-2's. Unlike
    /// [`from_merges`](Self::from_merges), this function accepts a vocabulary in which some bytes
    /// have no token. If an element of `tokens` is empty, its ID isn't used. The function `divide`
    /// must meet the requirements of [`BpeConfig::divide`]. Otherwise, encoding panics.
    ///
    /// # Errors
    /// Returns [`TokenizerError::UnknownId`] with the index of the merge if a merge contains an ID
    /// without a token.
    pub fn with_rules(
        tokens: Vec<Vec<u8>>,
        merges: Vec<Merge>,
        divide: fn(&str) -> &str,
        rules: EncodingRules,
    ) -> Result<Self, TokenizerError> {
        let mut bpe = Self::without_merges(tokens, divide, rules);
        let vocab_size = bpe.vocab_size();
        for (position, &merge) in merges.iter().enumerate() {
            let mut ids = [merge.left, merge.right, merge.id].into_iter();
            if let Some(id) = ids.find(|&id| id as usize >= vocab_size) {
                return Err(TokenizerError::UnknownId {
                    id,
                    position,
                    vocab_size,
                });
            }
            bpe.push((merge.left, merge.right), merge.id);
        }
        Ok(bpe)
    }

    /// Returns GPT-2's encoding, which is built once per process.
    pub fn gpt2() -> &'static Self {
        static GPT2: LazyLock<Bpe> = LazyLock::new(|| {
            let (tokens, pairs) = gpt2_tokens_and_pairs();
            let merge = |((left, right), id)| Merge { left, right, id };
            let merges = pairs.into_iter().zip(256..).map(merge);
            let bpe = Bpe::from_merges(tokens, merges.collect(), gpt2_piece);
            bpe.expect("GPT-2's vocabulary begins with all bytes")
        });
        &GPT2
    }

    /// Builds an encoding that has no merges yet.
    fn without_merges(
        tokens: Vec<Vec<u8>>,
        divide: fn(&str) -> &str,
        rules: EncodingRules,
    ) -> Self {
        let mut byte_ids = [rules.unknown.unwrap_or(NO_TOKEN); 256];
        for (token, id) in tokens.iter().zip(0..) {
            if let [byte] = token[..] {
                byte_ids[usize::from(byte)] = id;
            }
        }
        let end_of_text = tokens
            .iter()
            .rposition(|token| token == ENDOFTEXT.as_bytes());
        Self {
            byte_ids,
            end_of_text: end_of_text.map(|id| id as u32),
            tokens,
            ids: OnceLock::new(),
            rules,
            merges: Vec::new(),
            ranks: FxHashMap::default(),
            divide,
        }
    }

    /// Builds an encoding whose vocabulary is the alphabet.
    fn of_alphabet(config: &BpeConfig) -> Result<Self, TokenizerError> {
        let (alphabet, rules) = (config.alphabet.clone(), EncodingRules::default());
        Self::without_merges(alphabet, config.divide, rules).with_all_bytes()
    }

    /// Returns this encoding, or [`TokenizerError::MissingByte`] if a byte has no token.
    fn with_all_bytes(self) -> Result<Self, TokenizerError> {
        match (0..=255).find(|&byte| self.lacks(byte)) {
            Some(byte) => Err(TokenizerError::MissingByte { byte }),
            None => Ok(self),
        }
    }

    /// Returns true if no token consists of this byte alone.
    pub fn lacks(&self, byte: u8) -> bool {
        let id = self.byte_ids[usize::from(byte)];
        self.tokens.get(id as usize).map(Vec::as_slice) != Some(&[byte])
    }

    /// Returns the ID of the token that consists of the given bytes, or `None` if there is no such
    /// token.
    pub fn id_of(&self, token: &[u8]) -> Option<u32> {
        let ids = self.ids.get_or_init(|| {
            let tokens = self.tokens.iter().map(|token| token.as_slice().into());
            tokens.zip(0..).collect()
        });
        ids.get(token).copied().filter(|_| !token.is_empty())
    }

    fn push(&mut self, (left, right): Pair, id: u32) {
        self.ranks.insert((left, right), (self.merges.len(), id));
        self.merges.push(Merge { left, right, id });
    }

    /// Encodes text and returns its token IDs. If the vocabulary contains [`ENDOFTEXT`], each
    /// occurrence in the text is encoded as this special token. Otherwise, it is encoded as
    /// ordinary text.
    ///
    /// # Errors
    /// Returns [`TokenizerError::MissingByte`] if a byte of the text has no token and there is no
    /// unknown ID. This can happen only if the encoding was built with
    /// [`with_rules`](Self::with_rules).
    ///
    /// # Panics
    /// Panics if the function that divides text into pieces returns a string that isn't a prefix of
    /// its argument (see [`BpeConfig::divide`]).
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::new();
        self.encoder(text.len()).encode(text, &mut ids);
        match self.missing_byte(text, &ids) {
            Some(byte) => Err(TokenizerError::MissingByte { byte }),
            None => Ok(ids),
        }
    }

    /// Explains why `text` couldn't be encoded completely. If its token IDs, `ids`, include
    /// [`NO_TOKEN`], returns the first byte of `text` for which the vocabulary has no token.
    /// Otherwise, all bytes were encoded, and this method returns `None`.
    ///
    /// Some tokenizers add a space in front of the text before they encode it. If the vocabulary
    /// has a token for each byte of `text` and `ids` nevertheless includes [`NO_TOKEN`], the byte
    /// without a token can only be the added space, so this method returns `b' '`.
    pub fn missing_byte(&self, text: &str, ids: &[u32]) -> Option<u8> {
        let has_no_id = |byte: &u8| self.byte_ids[usize::from(*byte)] == NO_TOKEN;
        let is_missing = self.byte_ids.contains(&NO_TOKEN) && ids.contains(&NO_TOKEN);
        is_missing.then(|| text.bytes().find(has_no_id).unwrap_or(b' '))
    }

    /// Encodes text without special tokens and returns its token IDs. [`ENDOFTEXT`] is encoded as
    /// ordinary text.
    ///
    /// # Panics
    /// Panics if the function that divides text into pieces returns a string that isn't a prefix of
    /// its argument (see [`BpeConfig::divide`]).
    pub fn encode_ordinary(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.encoder(text.len()).encode_ordinary(text, &mut ids);
        ids
    }

    /// Returns an encoder, which can encode one or more strings. `bytes` is the total length of
    /// these strings in bytes, which determines the size of the encoder's cache. Each thread needs
    /// its own encoder.
    pub fn encoder(&self, bytes: usize) -> Encoder<'_> {
        Encoder {
            bpe: self,
            cache: PieceCache::for_text(bytes),
        }
    }

    /// Splits text into documents at each [`ENDOFTEXT`]. If the vocabulary doesn't contain this
    /// token, the whole text is one document.
    fn documents<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let most = self.end_of_text.map_or(1, |_| usize::MAX);
        text.splitn(most, ENDOFTEXT)
    }

    /// Returns how many bytes of a text the token `id` represents. The token must have been
    /// produced by encoding a piece of the text, and `rest` contains the bytes of this piece from
    /// the start of the token to the end of the piece.
    ///
    /// An unknown token represents a single byte that has no token. However, if
    /// [`EncodingRules::fuse_unknown`] is true, it represents all adjacent bytes that have no
    /// token.
    fn token_length(&self, id: u32, rest: &[u8]) -> usize {
        let unknown = rest.iter().take_while(|byte| self.lacks(**byte)).count();
        match unknown {
            0 => self.tokens.get(id as usize).map_or(0, Vec::len),
            _ if self.rules.fuse_unknown => unknown,
            _ => 1,
        }
    }

    /// Encodes a piece of a text, such as a word, and appends its token IDs to `ids`. With the
    /// default rules, [`encode_plain`](Self::encode_plain) returns the same IDs.
    fn encode_piece_into(&self, piece: &[u8], ids: &mut Vec<u32>) {
        // Maximum length in bytes of a piece that is encoded by searching all of its pairs after
        // each merge. This search takes quadratic time, so longer pieces are encoded with a heap.
        const MAX: usize = 32;
        if self.rules.ignore_merges
            && let Some(id) = self.id_of(piece)
        {
            return ids.push(id);
        }
        let mut piece = Cow::Borrowed(piece);
        if self.rules.fuse_unknown {
            let is_same = |a: &mut u8, b: &mut u8| self.lacks(*a) && self.lacks(*b);
            piece.to_mut().dedup_by(is_same);
        }
        let piece = &*piece;
        if piece.len() > MAX {
            return ids.extend(self.encode_long_piece(piece));
        }
        let mut row = [0; MAX];
        for (id, &byte) in row.iter_mut().zip(piece) {
            *id = self.byte_ids[usize::from(byte)];
        }
        // For each pair of adjacent tokens, the array `merges` contains the index of the merge that
        // combines the pair, and the ID of the resulting token. The entry is `NO_MERGE` if the pair
        // can't be merged.
        let learned = |left, right| self.ranks.get(&(left, right)).copied().unwrap_or(NO_MERGE);
        let mut merges = [NO_MERGE; MAX];
        let mut length = piece.len();
        for at in 1..length {
            merges[at - 1] = learned(row[at - 1], row[at]);
        }
        loop {
            let pairs = &merges[..length.saturating_sub(1)];
            let first = pairs.iter().enumerate().min_by_key(|(_, merge)| merge.0);
            let Some((at, &(_, id))) = first.filter(|(_, merge)| **merge != NO_MERGE) else {
                return ids.extend_from_slice(&row[..length]);
            };
            row.copy_within(at + 2..length, at + 1);
            merges.copy_within(at + 1..length, at);
            length -= 1;
            row[at] = id;
            if at > 0 {
                merges[at - 1] = learned(row[at - 1], id);
            }
            if at + 1 < length {
                merges[at] = learned(id, row[at + 1]);
            }
        }
    }

    /// Encodes a piece of a text and returns its token IDs. This function is fast even for a very
    /// long piece, because it stores all pairs of adjacent tokens that can be merged in a heap. The
    /// top of the heap is the pair whose merge was learned first. If this pair occurs several times
    /// in the piece, its leftmost occurrence is at the top.
    fn encode_long_piece(&self, piece: &[u8]) -> Vec<u32> {
        let mut row = Row::of(&[piece], &self.byte_ids);
        let learned = |row: &Row, position| Some((self.ranks.get(&row.pair(position)?)?, position));
        let mut next: BinaryHeap<_> = (1..=piece.len())
            .filter_map(|position| learned(&row, position))
            .map(Reverse)
            .collect();
        while let Some(Reverse((merge, position))) = next.pop() {
            // The heap can contain pairs of tokens that no longer exist, because one of the two
            // tokens has been merged with another neighbor in the meantime. Such pairs are skipped.
            if learned(&row, position) == Some((merge, position)) {
                row.merge(position, merge.1);
                let around = [row.before(position), position];
                next.extend(
                    around
                        .into_iter()
                        .filter_map(|position| learned(&row, position))
                        .map(Reverse),
                );
            }
        }
        row.into_ids()
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

    /// Returns the rules for encoding text.
    pub fn rules(&self) -> EncodingRules {
        self.rules
    }

    /// Divides text into the pieces that are encoded separately.
    ///
    /// # Panics
    /// Panics if the function that divides text into pieces returns a string that isn't a prefix of
    /// its argument (see [`BpeConfig::divide`]).
    pub fn pieces<'t>(&self, text: &'t str) -> Vec<&'t str> {
        pieces(text, self.divide).collect()
    }

    /// Returns the bytes of all tokens in the order of their IDs.
    pub fn tokens(&self) -> &[Vec<u8>] {
        &self.tokens
    }

    /// Returns the merges in the order in which they were learned.
    pub fn merges(&self) -> &[Merge] {
        &self.merges
    }

    /// Returns the ID of the token that replaces the pair of `left` and `right`, or `None` if this
    /// pair has no merge.
    pub fn merged(&self, left: u32, right: u32) -> Option<u32> {
        self.ranks.get(&(left, right)).map(|(_, id)| *id)
    }

    /// Returns the number of tokens. All valid IDs are less than this number.
    pub fn vocab_size(&self) -> usize {
        self.tokens.len()
    }
}

/// An encoder that caches the IDs of short pieces. The cache makes encoding faster, because most
/// pieces of a typical text occur many times.
///
/// ```
/// let bpe = tokenizer::bpe::Bpe::gpt2();
/// let (mut encoder, mut ids) = (bpe.encoder(1 << 20), Vec::new());
/// for line in ["Hello, I am\n", "Hello, I was\n"] {
///     encoder.encode(line, &mut ids);
/// }
/// assert_eq!(ids, [15496, 11, 314, 716, 198, 15496, 11, 314, 373, 198]);
/// ```
pub struct Encoder<'b> {
    bpe: &'b Bpe,
    cache: PieceCache,
}

impl Encoder<'_> {
    /// Encodes text and appends its IDs to `ids`. [`ENDOFTEXT`] is encoded in the same way as by
    /// [`Bpe::encode`]. A byte that has no token is encoded as [`EncodingRules::unknown`], or as
    /// [`NO_TOKEN`] if there is no unknown ID.
    ///
    /// # Panics
    /// Panics if the function that divides text into pieces returns a string that isn't a prefix of
    /// its argument (see [`BpeConfig::divide`]).
    pub fn encode(&mut self, text: &str, ids: &mut Vec<u32>) {
        for (number, document) in self.bpe.documents(text).enumerate() {
            ids.extend(self.bpe.end_of_text.filter(|_| number > 0));
            self.encode_ordinary(document, ids);
        }
    }

    /// Encodes text without special tokens, like [`Bpe::encode_ordinary`], and appends the token
    /// IDs to `ids`.
    ///
    /// # Panics
    /// Panics if the function that divides text into pieces returns a string that isn't a prefix of
    /// its argument (see [`BpeConfig::divide`]).
    pub fn encode_ordinary(&mut self, text: &str, ids: &mut Vec<u32>) {
        for piece in pieces(text, self.bpe.divide) {
            self.encode_piece(piece, ids);
        }
    }

    /// Encodes a single piece of a text, such as a word, and appends its token IDs to `ids`. Unlike
    /// [`encode_ordinary`](Self::encode_ordinary), this method doesn't divide its input into
    /// pieces.
    pub fn encode_piece(&mut self, piece: &str, ids: &mut Vec<u32>) {
        let piece = piece.as_bytes();
        self.cache
            .encode(piece, ids, |ids| self.bpe.encode_piece_into(piece, ids));
    }

    /// Encodes text like [`encode_ordinary`](Self::encode_ordinary), and appends each token ID to
    /// `tokens` together with the range of bytes that the token represents. If `text` is part of a
    /// longer text, `start` is the position at which `text` begins in the longer text, and the
    /// ranges refer to the longer text.
    ///
    /// # Panics
    /// Panics if the function that divides text into pieces returns a string that isn't a prefix of
    /// its argument (see [`BpeConfig::divide`]).
    pub fn encode_ordinary_with_offsets(
        &mut self,
        text: &str,
        mut start: usize,
        tokens: &mut Vec<(u32, Range<usize>)>,
    ) {
        for piece in pieces(text, self.bpe.divide) {
            self.encode_piece_with_offsets(piece, start, tokens);
            start += piece.len();
        }
    }

    /// Encodes a piece like [`encode_piece`](Self::encode_piece), and appends each token ID to
    /// `tokens` together with the range of bytes that the token represents. `start` is the position
    /// at which `piece` begins in the whole text, and the ranges refer to the whole text.
    pub fn encode_piece_with_offsets(
        &mut self,
        piece: &str,
        start: usize,
        tokens: &mut Vec<(u32, Range<usize>)>,
    ) {
        let mut ids = Vec::new();
        self.encode_piece(piece, &mut ids);
        let mut rest = piece.as_bytes();
        let count = ids.len();
        for id in ids {
            let at = start + piece.len() - rest.len();
            let length = match count {
                1 => rest.len(),
                _ => self.bpe.token_length(id, rest).min(rest.len()),
            };
            rest = &rest[length..];
            tokens.push((id, at..at + length));
        }
    }
}

impl Tokenizer for Bpe {
    fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        self.encode(text)
    }

    fn encode_with_offsets(&self, text: &str) -> Result<Vec<(u32, Range<usize>)>, TokenizerError> {
        let (mut encoder, mut tokens, mut start) = (self.encoder(text.len()), Vec::new(), 0);
        for (number, document) in self.documents(text).enumerate() {
            if let Some(end_of_text) = self.end_of_text.filter(|_| number > 0) {
                let end = start + ENDOFTEXT.len();
                tokens.push((end_of_text, start..end));
                start = end;
            }
            encoder.encode_ordinary_with_offsets(document, start, &mut tokens);
            start += document.len();
        }
        match tokens.iter().find(|(id, _)| *id == NO_TOKEN) {
            Some((_, range)) => Err(TokenizerError::MissingByte {
                byte: text.as_bytes()[range.start],
            }),
            None => Ok(tokens),
        }
    }

    fn piece_at(&self, id: u32, position: usize) -> Result<Cow<'_, [u8]>, TokenizerError> {
        let piece = self.tokens.get(id as usize);
        let piece = piece.filter(|piece| !piece.is_empty()); // An empty token means that its ID isn't used.
        let piece = piece.ok_or(TokenizerError::UnknownId {
            id,
            position,
            vocab_size: self.tokens.len(),
        })?;
        Ok(piece.into())
    }

    fn vocab_size(&self) -> usize {
        self.tokens.len()
    }

    fn id_of(&self, token: &[u8]) -> Option<u32> {
        self.id_of(token)
    }
}
