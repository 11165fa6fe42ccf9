//! Byte pair encoding from the ground up, trained and applied (book section 2.5 and its notebook
//! "BPE from scratch").
//!
//! The plain form comes first: [`Bpe::train_plain`] counts the pairs of neighbours, makes the most
//! frequent one a token, and repeats; [`Bpe::encode_plain`] merges the same pairs, always the one
//! learned first. [`Bpe::train`] and [`Bpe::encode`] do the same in time proportional to the text
//! (`pairs.rs`). With GPT-2's merges the ids equal tiktoken's. This file reads and writes no files.
//!
//! ```
//! use tokenizer::bpe::{Bpe, BpeConfig, Merge};
//! let config = BpeConfig { vocab_size: 258, ..BpeConfig::default() };
//! let plain = Bpe::train_plain("low lower lowest", &config)?;
//! assert_eq!(plain.tokens()[256..], [b"lo".to_vec(), b"low".to_vec()]);
//! assert_eq!(plain.merges()[1], Merge { left: 256, right: 86, id: 257 }); // "lo" and "w"
//! assert_eq!(plain.encode_plain("slow"), [82, 257]); // "s" and "low"
//!
//! let bpe = Bpe::train("low lower lowest", &config)?; // the same, faster
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

use crate::error::TokenizerError;
use crate::gpt2_tokens::{ENDOFTEXT, gpt2_tokens_and_pairs};
use crate::known::KnownPieces;
use crate::pairs::{Counts, Pair, Row};
use crate::pattern::pieces;
use crate::tokenizer::Tokenizer;

pub use crate::letters::{bytes_of_letters, gpt2_bytes, letter_of, letters_of};
pub use crate::pairs::Ties;
pub use crate::pattern::{gpt2_parts, gpt2_piece, gpt2_pieces};

/// Two tokens side by side that are one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Merge {
    /// The id of the first.
    pub left: u32,
    /// The id of the second.
    pub right: u32,
    /// The id of both together.
    pub id: u32,
}

/// The settings of a training.
#[derive(Clone, Debug)]
pub struct BpeConfig {
    /// The number of tokens that there should be, the alphabet included; fewer if the text hasn't
    /// so many pairs.
    pub vocab_size: usize,
    /// The tokens before the first pair, with all bytes (of a duplicate, the last counts);
    /// [`ENDOFTEXT`] may be.
    pub alphabet: Vec<Vec<u8>>,
    /// Returns the first piece of a text; no pair reaches over the end of a piece.
    pub divide: fn(&str) -> &str,
    /// The fewest times that a pair must occur to become a token.
    pub least_count: u64,
    /// The pair that comes first where several are equally frequent.
    pub ties: Ties,
}

/// 256 bytes in GPT-2's order, GPT-2's pieces, pairs that occur at least twice, and of several as
/// frequent the one with the smallest ids, because `model-tokenizer` and the library tokenizers
/// take it: a text has the same tokens everywhere. The book's notebook takes
/// [`Ties::FirstInText`].
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

/// A byte pair encoding: its tokens and merges. They can be kept, and make it again.
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
/// let again = Bpe::from_merges(bpe.tokens().to_vec(), bpe.merges().to_vec(), gpt2_piece)?;
/// assert_eq!(again.encode("slow")?, ids);
/// # Ok::<(), tokenizer::TokenizerError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Bpe {
    tokens: Vec<Vec<u8>>,                     // id -> its bytes
    ids: OnceLock<FxHashMap<Box<[u8]>, u32>>, // the reverse
    of_byte: [u32; 256],
    rules: EncodingRules,
    merges: Vec<Merge>,                   // first learned first
    ranks: FxHashMap<Pair, (usize, u32)>, // pair -> its number among the merges, and their id
    divide: fn(&str) -> &str,
    end_of_text: Option<u32>,
}

/// How byte pairs from other programs' files differ from GPT-2's; the default is GPT-2's way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EncodingRules {
    /// A piece whose bytes are those of a token becomes that token, regardless of the merges.
    pub ignore_merges: bool,
    /// The id of bytes without a token; `None` leaves [`NO_TOKEN`] in their place.
    pub unknown: Option<u32>,
    /// Several bytes without a token side by side in a piece have the unknown id once.
    pub fuse_unknown: bool,
}

/// Stands among ids for a byte without a token, if there is no token for unknown bytes.
pub const NO_TOKEN: u32 = u32::MAX - 2;

/// No merge: behind all others.
const NONE: (usize, u32) = (usize::MAX, 0);

/// The plain form.
impl Bpe {
    /// Learns its tokens as they are defined: count, merge, repeat. [`train`](Self::train) does the
    /// same sooner.
    ///
    /// # Errors
    /// [`TokenizerError::MissingByte`] if the alphabet lacks a byte.
    pub fn train_plain(text: &str, config: &BpeConfig) -> Result<Self, TokenizerError> {
        let mut bpe = Self::of_alphabet(config)?;
        let words = text.split(ENDOFTEXT);
        let words = words.flat_map(|text| pieces(text, config.divide));
        let mut words: Vec<Vec<u32>> = words.map(|word| bpe.ids_of_bytes(word)).collect();
        while bpe.tokens.len() < config.vocab_size
            && let Some(pair) = most_frequent(&words, config)
        {
            let bytes = [&*bpe.tokens[pair.0 as usize], &bpe.tokens[pair.1 as usize]].concat();
            // Two pairs may spell the same token: it has one id.
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

    /// Returns the ids of a piece by definition: while two neighbours are a learned pair, merges
    /// the pair that was learned first.
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
        let ids = word.bytes().map(|byte| self.of_byte[usize::from(byte)]);
        ids.collect()
    }
}

/// Returns the pair that occurs most often, if it occurs often enough. The search for each pair
/// makes the time quadratic in the number of different pairs.
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

/// Returns a word with `id` replacing every occurrence of a pair.
fn merged(word: &[u32], pair: Pair, id: u32) -> Vec<u32> {
    let (mut new, mut rest) = (Vec::new(), word);
    while let [first, behind @ ..] = rest {
        let is_pair = (Some(first), behind.first()) == (Some(&pair.0), Some(&pair.1));
        new.push(if is_pair { id } else { *first });
        rest = if is_pair { &behind[1..] } else { behind };
    }
    new
}

/// The fast form, and the rest.
impl Bpe {
    /// Learns its tokens from a text; [`ENDOFTEXT`] divides it.
    ///
    /// # Errors
    /// [`TokenizerError::MissingByte`] if the alphabet lacks a byte.
    pub fn train(text: &str, config: &BpeConfig) -> Result<Self, TokenizerError> {
        Self::train_texts(&[text], config)
    }

    /// Learns the tokens of several texts, such as files. A token never reaches from one text into
    /// the next, as if [`ENDOFTEXT`] separated them.
    ///
    /// # Errors
    /// Those of [`train`](Self::train).
    pub fn train_texts(texts: &[&str], config: &BpeConfig) -> Result<Self, TokenizerError> {
        let mut words: Vec<(&str, u64)> = Vec::new(); // each once, and how often it occurs
        let mut places = HashMap::new();
        let documents = texts.iter().flat_map(|text| text.split(ENDOFTEXT));
        for word in documents.flat_map(|text| pieces(text, config.divide)) {
            let place = *places.entry(word).or_insert(words.len());
            match words.get_mut(place) {
                Some((_, count)) => *count += 1,
                None => words.push((word, 1)),
            }
        }
        Self::train_on(&words, config)
    }

    /// Learns its tokens from words, each with the number of times that it occurs.
    ///
    /// Time and memory grow in proportion to the words, however long one is.
    ///
    /// # Errors
    /// [`TokenizerError::MissingByte`] if the alphabet lacks a byte.
    pub fn train_on(words: &[(&str, u64)], config: &BpeConfig) -> Result<Self, TokenizerError> {
        let mut bpe = Self::of_alphabet(config)?;
        let mut ids: HashMap<Vec<u8>, u32> = bpe.tokens.iter().cloned().zip(0..).collect();
        let mut counts = Counts::of(words, &bpe.of_byte, config.ties);
        while bpe.tokens.len() < config.vocab_size
            && let Some((pair, count)) = counts.most_frequent()
            && count >= config.least_count
        {
            let bytes = [&*bpe.tokens[pair.0 as usize], &bpe.tokens[pair.1 as usize]].concat();
            // Two pairs may spell the same token: it has one id.
            let id = *ids.entry(bytes.clone()).or_insert(bpe.tokens.len() as u32);
            if id as usize == bpe.tokens.len() {
                bpe.tokens.push(bytes);
            }
            bpe.push(pair, id);
            counts.replace(pair, id);
        }
        Ok(bpe)
    }

    /// A vocabulary that was learned before, by its tokens, its merges and the function that
    /// divides a text into pieces.
    ///
    /// # Errors
    /// [`TokenizerError::MissingByte`] if a byte has no token, [`TokenizerError::UnknownId`] if a
    /// merge, by its place, names an id without one.
    pub fn from_merges(
        tokens: Vec<Vec<u8>>,
        merges: Vec<Merge>,
        divide: fn(&str) -> &str,
    ) -> Result<Self, TokenizerError> {
        let bpe = Self::with_rules(tokens, merges, divide, EncodingRules::default())?;
        bpe.with_all_bytes()
    }

    /// A vocabulary from another program's file, which may lack bytes; an empty token is an id
    /// that isn't used.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] if a merge, by its place, names an id without a token.
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

    /// GPT-2's tokens and merges, in tables that are built once in a process.
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

    /// Tokens without a merge.
    fn without_merges(
        tokens: Vec<Vec<u8>>,
        divide: fn(&str) -> &str,
        rules: EncodingRules,
    ) -> Self {
        let mut of_byte = [rules.unknown.unwrap_or(NO_TOKEN); 256];
        for (token, id) in tokens.iter().zip(0..) {
            if let [byte] = token[..] {
                of_byte[usize::from(byte)] = id;
            }
        }
        let end_of_text = tokens
            .iter()
            .position(|token| token == ENDOFTEXT.as_bytes());
        Self {
            of_byte,
            end_of_text: end_of_text.map(|id| id as u32),
            tokens,
            ids: OnceLock::new(),
            rules,
            merges: Vec::new(),
            ranks: FxHashMap::default(),
            divide,
        }
    }

    /// The tokens before the first pair.
    fn of_alphabet(config: &BpeConfig) -> Result<Self, TokenizerError> {
        let (alphabet, rules) = (config.alphabet.clone(), EncodingRules::default());
        Self::without_merges(alphabet, config.divide, rules).with_all_bytes()
    }

    /// The same, if every byte has a token.
    fn with_all_bytes(self) -> Result<Self, TokenizerError> {
        match (0..=255).find(|&byte| self.lacks(byte)) {
            Some(byte) => Err(TokenizerError::MissingByte { byte }),
            None => Ok(self),
        }
    }

    /// True if a byte has no token of its own.
    pub fn lacks(&self, byte: u8) -> bool {
        let id = self.of_byte[usize::from(byte)];
        self.tokens.get(id as usize).map(Vec::as_slice) != Some(&[byte])
    }

    /// Returns the id of the token with these bytes.
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

    /// The ids of a text, in which [`ENDOFTEXT`] is special if the vocabulary has it.
    ///
    /// # Errors
    /// [`TokenizerError::MissingByte`] if the text has a byte without a token, and there is none
    /// for unknown bytes; only a vocabulary from [`with_rules`](Self::with_rules) may lack one.
    pub fn encode(&self, text: &str) -> Result<Vec<u32>, TokenizerError> {
        let mut ids = Vec::new();
        self.encoder(text.len()).encode(text, &mut ids);
        match self.missing_byte(text, &ids) {
            Some(byte) => Err(TokenizerError::MissingByte { byte }),
            None => Ok(ids),
        }
    }

    /// Returns the first byte without a token in a text whose ids contain [`NO_TOKEN`], or a space,
    /// which a tokenizer can put before a text, if the text has no such byte. Returns `None` for
    /// ids without [`NO_TOKEN`].
    pub fn missing_byte(&self, text: &str, ids: &[u32]) -> Option<u8> {
        let has_no_id = |byte: &u8| self.of_byte[usize::from(*byte)] == NO_TOKEN;
        let is_missing = self.of_byte.contains(&NO_TOKEN) && ids.contains(&NO_TOKEN);
        is_missing.then(|| text.bytes().find(has_no_id).unwrap_or(b' '))
    }

    /// The ids of a text in which nothing is special.
    pub fn encode_ordinary(&self, text: &str) -> Vec<u32> {
        let mut ids = Vec::new();
        self.encoder(text.len()).encode_ordinary(text, &mut ids);
        ids
    }

    /// Returns an encoder for texts of so many bytes together; a thread has its own.
    pub fn encoder(&self, bytes: usize) -> Encoder<'_> {
        Encoder {
            bpe: self,
            known: KnownPieces::for_text(bytes),
        }
    }

    /// Returns the documents of a text, which [`ENDOFTEXT`] separates if the vocabulary has it.
    fn documents<'t>(&self, text: &'t str) -> impl Iterator<Item = &'t str> {
        let most = self.end_of_text.map_or(1, |_| usize::MAX);
        text.splitn(most, ENDOFTEXT)
    }

    /// Returns the number of bytes that the token `id` stands for at the start of `rest`, which is
    /// the end of a piece.
    ///
    /// The unknown token stands for one byte without a token, or for all of them side by side if
    /// [`EncodingRules::fuse_unknown`] is set.
    fn length(&self, id: u32, rest: &[u8]) -> usize {
        let unknown = rest.iter().take_while(|byte| self.lacks(**byte)).count();
        match unknown {
            0 => self.tokens.get(id as usize).map_or(0, Vec::len),
            _ if self.rules.fuse_unknown => unknown,
            _ => 1,
        }
    }

    /// Appends the ids of a piece, as [`encode_plain`](Self::encode_plain) returns them.
    fn encode_piece_into(&self, piece: &[u8], ids: &mut Vec<u32>) {
        const MAX: usize = 32; // bytes: the time grows with their square
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
            return ids.extend(self.encode_piece(piece));
        }
        let mut row = [0; MAX];
        for (id, &byte) in row.iter_mut().zip(piece) {
            *id = self.of_byte[usize::from(byte)];
        }
        // The merge of each two neighbours: its number, and the id of both together.
        let learned = |left, right| self.ranks.get(&(left, right)).copied().unwrap_or(NONE);
        let mut merges = [NONE; MAX];
        let mut length = piece.len();
        for at in 1..length {
            merges[at - 1] = learned(row[at - 1], row[at]);
        }
        loop {
            let pairs = &merges[..length.saturating_sub(1)];
            let first = pairs.iter().enumerate().min_by_key(|(_, merge)| merge.0);
            let Some((at, &(_, id))) = first.filter(|(_, merge)| **merge != NONE) else {
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

    /// The same for a piece of any length: a heap contains all learned pairs in it, with the one
    /// learned first on top; of equal pairs, the first in the text.
    fn encode_piece(&self, piece: &[u8]) -> Vec<u32> {
        let mut row = Row::of(&[piece], &self.of_byte);
        let learned = |row: &Row, place| Some((self.ranks.get(&row.pair(place)?)?, place));
        let mut next: BinaryHeap<_> = (1..=piece.len())
            .filter_map(|place| learned(&row, place))
            .map(Reverse)
            .collect();
        while let Some(Reverse((merge, place))) = next.pop() {
            // The pair may have gone into another.
            if learned(&row, place) == Some((merge, place)) {
                row.join(place, merge.1);
                let around = [row.before(place), place];
                next.extend(
                    around
                        .into_iter()
                        .filter_map(|place| learned(&row, place))
                        .map(Reverse),
                );
            }
        }
        row.into_ids()
    }

    /// The text that the ids stand for.
    ///
    /// # Errors
    /// [`TokenizerError::UnknownId`] at the first unknown id; [`TokenizerError::NotUtf8`] if the
    /// bytes aren't UTF-8, for example half a character.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        Tokenizer::decode(self, ids)
    }

    /// The rules that differ from GPT-2's.
    pub fn rules(&self) -> EncodingRules {
        self.rules
    }

    /// Divides a text into the pieces that are encoded by themselves.
    pub fn pieces<'t>(&self, text: &'t str) -> Vec<&'t str> {
        pieces(text, self.divide).collect()
    }

    /// The bytes of all tokens, in the order of their ids.
    pub fn tokens(&self) -> &[Vec<u8>] {
        &self.tokens
    }

    /// The pairs that became tokens, the first learned first.
    pub fn merges(&self) -> &[Merge] {
        &self.merges
    }

    /// Returns the token that two become, if they were learned.
    pub fn merged(&self, left: u32, right: u32) -> Option<u32> {
        self.ranks.get(&(left, right)).map(|(_, id)| *id)
    }

    /// Returns the number of tokens; ids run from 0 to one less.
    pub fn vocab_size(&self) -> usize {
        self.tokens.len()
    }
}

/// Encodes texts one after the other, and remembers their short pieces, because most pieces of a
/// text are repeated.
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
    known: KnownPieces,
}

impl Encoder<'_> {
    /// Appends the ids of a text, as [`Bpe::encode`] returns them.
    pub fn encode(&mut self, text: &str, ids: &mut Vec<u32>) {
        for (number, document) in self.bpe.documents(text).enumerate() {
            ids.extend(self.bpe.end_of_text.filter(|_| number > 0));
            self.encode_ordinary(document, ids);
        }
    }

    /// Appends the ids of a text in which nothing is special, as [`Bpe::encode_ordinary`] returns
    /// them.
    pub fn encode_ordinary(&mut self, text: &str, ids: &mut Vec<u32>) {
        for piece in pieces(text, self.bpe.divide) {
            self.encode_piece(piece, ids);
        }
    }

    /// Appends the ids of one piece, which isn't divided further.
    pub fn encode_piece(&mut self, piece: &str, ids: &mut Vec<u32>) {
        let piece = piece.as_bytes();
        self.known
            .encode(piece, ids, |ids| self.bpe.encode_piece_into(piece, ids));
    }

    /// Does the same as [`encode_ordinary`](Self::encode_ordinary), but also returns the range of
    /// bytes that each token stands for. The first byte of `text` has the number `start`.
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

    /// Does the same as [`encode_piece`](Self::encode_piece), but also returns the range of bytes
    /// that each token stands for. The first byte of `piece` has the number `start`.
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
                _ => self.bpe.length(id, rest).min(rest.len()),
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
        let piece = piece.filter(|piece| !piece.is_empty()); // an ID without a token
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
