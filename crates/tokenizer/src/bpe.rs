//! Byte pair encoding (BPE), trained and applied (section 2.5 of the book and its bonus notebook
//! "BPE from scratch").
//!
//! Training begins with a vocabulary of the 256 bytes. It counts how often each two tokens are next
//! to each other, adds the most frequent pair to the vocabulary as a new token, replaces the pair
//! by the new token everywhere, and repeats these steps until the vocabulary is large enough. Each
//! new token and the pair that it replaces is a [`Merge`]. To encode a text, its bytes are merged
//! in the same way: the pair whose merge was learned first is replaced first.
//!
//! A text is first divided into pieces, such as words, and a token never contains parts of two
//! pieces. See [`gpt2_pieces`].
//!
//! The file contains two implementations. [`Bpe::train_plain`] and [`Bpe::encode_plain`] follow the
//! definition and take quadratic time. [`Bpe::train`] and [`Bpe::encode`] give the same results in
//! a time that is proportional to the length of the text. With GPT-2's merges, the IDs are those of
//! tiktoken.
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
    /// ID of the token that consists of both.
    pub id: u32,
}

/// Settings for training a byte pair encoding.
#[derive(Clone, Debug)]
pub struct BpeConfig {
    /// Number of tokens that the vocabulary should have, including the alphabet. The vocabulary
    /// becomes smaller if the text doesn't contain enough frequent pairs.
    pub vocab_size: usize,
    /// The tokens that the vocabulary has before the training, in the order of their IDs. They must
    /// include each byte. If a token occurs twice, the second ID is used. The alphabet can contain
    /// [`ENDOFTEXT`].
    pub alphabet: Vec<Vec<u8>>,
    /// Function that returns the first piece of a text. A token never contains parts of two pieces.
    pub divide: fn(&str) -> &str,
    /// Smallest number of times that a pair must occur in the text to become a token.
    pub least_count: u64,
    /// Rule that decides which of several equally frequent pairs becomes a token first.
    pub ties: Ties,
}

/// The default is GPT-2's kind of vocabulary with 1,000 tokens: an alphabet of 256 bytes in GPT-2's
/// order, GPT-2's pieces, and pairs that occur at least twice.
///
/// If several pairs are equally frequent, the pair with the smallest IDs becomes a token first, as
/// in the crate `model-tokenizer` and in Hugging Face's library tokenizers. All three therefore
/// learn the same tokens from a text. The book's notebook uses [`Ties::FirstInText`] instead.
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

/// Rules for encoding a text in which a vocabulary file can differ from GPT-2. The default is
/// GPT-2's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodingRules {
    /// Whether a piece that is equal to a token becomes that token even if the merges would give
    /// other tokens.
    pub ignore_merges: bool,
    /// ID that is used for a byte without a token. If it is `None`, [`NO_TOKEN`] is used instead.
    pub unknown: Option<u32>,
    /// Whether adjacent bytes without a token share one unknown ID within a piece. Otherwise, each
    /// of these bytes has its own.
    pub fuse_unknown: bool,
}

/// Stands for a byte that has no token in a list of IDs, if [`EncodingRules::unknown`] is `None`.
pub const NO_TOKEN: u32 = u32::MAX - 2;

/// Stands for "no merge" and is greater than each index of a merge.
const NO_MERGE: (usize, u32) = (usize::MAX, 0);

/// The plain implementation.
impl Bpe {
    /// Learns a vocabulary as byte pair encoding is defined. [`train`](Self::train) gives the same
    /// result faster.
    ///
    /// # Errors
    /// Returns [`TokenizerError::MissingByte`] if the alphabet doesn't contain each byte.
    pub fn train_plain(text: &str, config: &BpeConfig) -> Result<Self, TokenizerError> {
        let mut bpe = Self::of_alphabet(config)?;
        let words = text.split(ENDOFTEXT);
        let words = words.flat_map(|text| pieces(text, config.divide));
        let mut words: Vec<Vec<u32>> = words.map(|word| bpe.ids_of_bytes(word)).collect();
        while bpe.tokens.len() < config.vocab_size
            && let Some(pair) = most_frequent(&words, config)
        {
            let bytes = [&*bpe.tokens[pair.0 as usize], &bpe.tokens[pair.1 as usize]].concat();
            // A token that two different pairs spell has only one ID.
            let known = bpe.tokens.iter().position(|token| *token == bytes);
            let id = known.unwrap_or(bpe.tokens.len()) as u32;
            if known.is_none() {
                bpe.tokens.push(bytes);
            }
            words = words.iter().map(|word| merged(word, pair, id)).collect();
            bpe.push(pair, id);
        }
        Ok(bpe)
    }

    /// Returns the IDs of a piece by definition: as long as the piece contains a learned pair, the
    /// pair that was learned first is replaced.
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

/// Returns the most frequent pair, or `None` if it occurs less often than `config.least_count`. The
/// linear search for each pair makes the time quadratic in the number of distinct pairs.
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

/// Returns a word in which each occurrence of the pair is replaced by `id`, from left to right.
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
    /// Learns a vocabulary from a text. If the text contains [`ENDOFTEXT`], no token reaches across
    /// it.
    ///
    /// # Errors
    /// Returns [`TokenizerError::MissingByte`] if the alphabet doesn't contain each byte.
    pub fn train(text: &str, config: &BpeConfig) -> Result<Self, TokenizerError> {
        Self::train_texts(&[text], config)
    }

    /// Learns a vocabulary from several texts, such as files. The result is the same as if the
    /// texts were joined with [`ENDOFTEXT`] between them.
    ///
    /// # Errors
    /// Returns [`TokenizerError::MissingByte`] if the alphabet doesn't contain each byte.
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

    /// Learns a vocabulary from words, each of which comes with its number of occurrences.
    ///
    /// Time and memory are proportional to the total length of the words, even if a word is very
    /// long.
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
            // A token that two different pairs spell has only one ID.
            let id = *ids.entry(bytes.clone()).or_insert(bpe.tokens.len() as u32);
            if id as usize == bpe.tokens.len() {
                bpe.tokens.push(bytes);
            }
            bpe.push(pair, id);
            counts.replace(pair, id);
        }
        Ok(bpe)
    }

    /// Builds an encoding from a vocabulary that was trained earlier: its tokens in the order of
    /// the IDs, its merges in the order in which they were learned, and the function that returns
    /// the first piece of a text.
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

    /// Builds an encoding from the vocabulary of another program. Bytes may have no token, and an
    /// empty token means that its ID isn't used.
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
            .position(|token| token == ENDOFTEXT.as_bytes());
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

    /// Returns the ID of the token that consists of the given bytes, or `None` if there is none.
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

    /// Returns the IDs of a text. [`ENDOFTEXT`] is encoded as the special token if the vocabulary
    /// contains it, and otherwise as ordinary text.
    ///
    /// # Errors
    /// Returns [`TokenizerError::MissingByte`] if a byte of the text has no token and there is no
    /// unknown ID. This can happen only if the encoding was built with
    /// [`with_rules`](Self::with_rules).
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::new();
        self.encoder(text.len()).encode(text, &mut ids);
        match self.missing_byte(text, &ids) {
            Some(byte) => Err(TokenizerError::MissingByte { byte }),
            None => Ok(ids),
        }
    }

    /// Returns the first byte of a text that has no token, given the IDs of the text. Returns
    /// `None` if the IDs don't contain [`NO_TOKEN`].
    ///
    /// If the IDs contain [`NO_TOKEN`] but each byte of the text has a token, the result is the
    /// space, because a tokenizer can put a space before a text when it encodes it.
    pub fn missing_byte(&self, text: &str, ids: &[u32]) -> Option<u8> {
        let has_no_id = |byte: &u8| self.byte_ids[usize::from(*byte)] == NO_TOKEN;
        let is_missing = self.byte_ids.contains(&NO_TOKEN) && ids.contains(&NO_TOKEN);
        is_missing.then(|| text.bytes().find(has_no_id).unwrap_or(b' '))
    }

    /// Returns the IDs of a text without special tokens. [`ENDOFTEXT`] is encoded as ordinary text.
    pub fn encode_ordinary(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.encoder(text.len()).encode_ordinary(text, &mut ids);
        ids
    }

    /// Returns an encoder for several texts with `bytes` bytes in total. Each thread needs its own.
    pub fn encoder(&self, bytes: usize) -> Encoder<'_> {
        Encoder {
            bpe: self,
            cache: PieceCache::for_text(bytes),
        }
    }

    /// Splits a text at [`ENDOFTEXT`]. If the vocabulary doesn't contain this token, the whole text
    /// is one document.
    fn documents<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let most = self.end_of_text.map_or(1, |_| usize::MAX);
        text.splitn(most, ENDOFTEXT)
    }

    /// Returns the number of bytes that the token `id` stands for at the start of `rest`, which is
    /// the end of a piece.
    ///
    /// The unknown token stands for one byte without a token, or for all adjacent bytes without a
    /// token if [`EncodingRules::fuse_unknown`] is set.
    fn token_length(&self, id: u32, rest: &[u8]) -> usize {
        let unknown = rest.iter().take_while(|byte| self.lacks(**byte)).count();
        match unknown {
            0 => self.tokens.get(id as usize).map_or(0, Vec::len),
            _ if self.rules.fuse_unknown => unknown,
            _ => 1,
        }
    }

    /// Appends the IDs of a piece, which are the same as those of
    /// [`encode_plain`](Self::encode_plain).
    fn encode_piece_into(&self, piece: &[u8], ids: &mut Vec<u32>) {
        // Largest number of bytes of a piece for which all pairs are searched after each merge. The
        // time for this search is quadratic in the number of bytes.
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
        // The merge of each two neighbours, as the index of the merge and the ID of the new token.
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

    /// Returns the IDs of a piece of any length. A heap contains all learned pairs of the piece.
    /// The pair whose merge was learned first is on top, and of several occurrences of this pair,
    /// the leftmost one.
    fn encode_long_piece(&self, piece: &[u8]) -> Vec<u32> {
        let mut row = Row::of(&[piece], &self.byte_ids);
        let learned = |row: &Row, position| Some((self.ranks.get(&row.pair(position)?)?, position));
        let mut next: BinaryHeap<_> = (1..=piece.len())
            .filter_map(|position| learned(&row, position))
            .map(Reverse)
            .collect();
        while let Some(Reverse((merge, position))) = next.pop() {
            // A pair is skipped if one of its tokens has been merged since it was added to the
            // heap.
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

    /// Returns the rules in which this encoding can differ from GPT-2's.
    pub fn rules(&self) -> EncodingRules {
        self.rules
    }

    /// Divides a text into the pieces that are encoded separately.
    pub fn pieces<'t>(&self, text: &'t str) -> Vec<&'t str> {
        pieces(text, self.divide).collect()
    }

    /// Returns the bytes of each token in the order of the IDs.
    pub fn tokens(&self) -> &[Vec<u8>] {
        &self.tokens
    }

    /// Returns the merges in the order in which they were learned.
    pub fn merges(&self) -> &[Merge] {
        &self.merges
    }

    /// Returns the ID of the token that replaces a pair, or `None` if the pair wasn't learned.
    pub fn merged(&self, left: u32, right: u32) -> Option<u32> {
        self.ranks.get(&(left, right)).map(|(_, id)| *id)
    }

    /// Returns the number of tokens. Valid IDs are smaller.
    pub fn vocab_size(&self) -> usize {
        self.tokens.len()
    }
}

/// Encodes several texts and caches the IDs of short pieces, because most pieces of a text occur
/// many times.
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
    /// Appends the IDs of a text. [`ENDOFTEXT`] is treated as in [`Bpe::encode`]. A byte without a
    /// token is encoded as the unknown ID or as [`NO_TOKEN`].
    pub fn encode(&mut self, text: &str, ids: &mut Vec<u32>) {
        for (number, document) in self.bpe.documents(text).enumerate() {
            ids.extend(self.bpe.end_of_text.filter(|_| number > 0));
            self.encode_ordinary(document, ids);
        }
    }

    /// Appends the IDs of a text without special tokens, like [`Bpe::encode_ordinary`].
    pub fn encode_ordinary(&mut self, text: &str, ids: &mut Vec<u32>) {
        for piece in pieces(text, self.bpe.divide) {
            self.encode_piece(piece, ids);
        }
    }

    /// Appends the IDs of a piece, which isn't divided further.
    pub fn encode_piece(&mut self, piece: &str, ids: &mut Vec<u32>) {
        let piece = piece.as_bytes();
        self.cache
            .encode(piece, ids, |ids| self.bpe.encode_piece_into(piece, ids));
    }

    /// Appends the IDs that [`encode_ordinary`](Self::encode_ordinary) would append, each with the
    /// range of bytes that the token stands for. Positions are counted from `start` at the
    /// beginning of `text`.
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

    /// Appends the IDs that [`encode_piece`](Self::encode_piece) would append, each with the range
    /// of bytes that the token stands for. Positions are counted from `start` at the beginning of
    /// `piece`.
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
