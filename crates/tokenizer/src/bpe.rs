//! Byte pair encoding from the ground up, trained and applied (book section 2.5 and its notebook
//! "BPE from scratch").
//!
//! Training counts neighbours: the pair of tokens that stands side by side most often becomes a new
//! token, again and again.
//! Encoding begins with single bytes and makes the same pairs one, the pair that was learned first
//! before all others.
//! With GPT-2's merges the ids are [`Gpt2Tokenizer`]'s, which is faster. It reads and writes no
//! files.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::convert::Infallible;

use crate::encode_decode::{Decode, Encode};
use crate::error::TokenizerError;
use crate::gpt2::{ENDOFTEXT, Gpt2Tokenizer};
use crate::pairs::{Counts, Pair, Row};

pub use crate::pairs::Ties;
pub use crate::pattern::{gpt2_parts, gpt2_pieces};

/// A byte pair encoding: its tokens, and which pairs become which.
///
/// ```
/// use tokenizer::bpe::{Bpe, BpeConfig};
/// let text = "low lower lowest";
/// let bpe = Bpe::train(text, &BpeConfig { vocab_size: 260, ..BpeConfig::default() })?;
/// let ids = bpe.encode("slow");
/// assert_eq!(ids, [82, 257]); // "s" and "low"
/// assert_eq!(bpe.tokens()[256..], [&b"lo"[..], b"low", b" low", b" lowe"]);
/// assert_eq!(bpe.decode(&ids)?, "slow");
/// # Ok::<(), tokenizer::TokenizerError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Bpe {
    tokens: Vec<Vec<u8>>, // id -> its bytes
    of_byte: [u32; 256],
    merges: Vec<Pair>,                    // first learned first
    learned: HashMap<Pair, (usize, u32)>, // its number among the merges, and what it becomes
    divide: fn(&str) -> Vec<&str>,
    end_of_text: Option<u32>,
}

/// How a vocabulary is trained.
#[derive(Clone, Debug)]
pub struct BpeConfig {
    /// How many tokens there should be, the alphabet included; fewer if the text hasn't so many
    /// pairs.
    pub vocab_size: usize,
    /// The tokens before the first pair, each byte among them (the last, if it is there twice);
    /// [`ENDOFTEXT`] may be.
    pub alphabet: Vec<Vec<u8>>,
    /// Divides a text into pieces; no pair reaches over their ends.
    pub divide: fn(&str) -> Vec<&str>,
    /// How often a pair must occur to become a token.
    pub least_count: u64,
    /// Which pair comes first where several are equally frequent.
    pub ties: Ties,
}

/// 256 bytes in GPT-2's order, GPT-2's pieces, and what occurs twice.
impl Default for BpeConfig {
    fn default() -> Self {
        Self {
            vocab_size: 1000,
            alphabet: gpt2_bytes().map(|byte| vec![byte]).to_vec(),
            divide: gpt2_pieces,
            least_count: 2,
            ties: Ties::FirstInText,
        }
    }
}

/// All bytes in the order in which GPT-2's vocabulary begins: first those that stand for a
/// character that can be seen.
pub fn gpt2_bytes() -> [u8; 256] {
    let is_seen = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut bytes: [u8; 256] = std::array::from_fn(|byte| byte as u8);
    bytes.sort_by_key(|byte| !is_seen(byte)); // stable
    bytes
}

impl Bpe {
    /// Learns its tokens from a text; [`ENDOFTEXT`] divides it.
    ///
    /// # Errors
    /// [`TokenizerError::MissingByte`] if the alphabet lacks a byte.
    pub fn train(text: &str, config: &BpeConfig) -> Result<Self, TokenizerError> {
        let mut words: Vec<(&str, u64)> = Vec::new(); // each once, and how often it occurs
        let mut places = HashMap::new();
        for word in text.split(ENDOFTEXT).flat_map(config.divide) {
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
        let mut bpe = Self::of_alphabet(config.alphabet.clone(), config.divide)?;
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
            bpe.learn(pair, id);
            counts.replace(pair, id);
        }
        Ok(bpe)
    }

    /// A vocabulary that was learned before, divided by GPT-2's pattern: the tokens by their ids,
    /// and the merges, the first learned first: two tokens and what they become.
    ///
    /// # Errors
    /// [`TokenizerError::MissingByte`] if a byte has no token, [`TokenizerError::UnknownId`] if a
    /// merge, by its place, names an id without one.
    pub fn of_merges(
        tokens: Vec<Vec<u8>>,
        merges: &[(u32, u32, u32)],
    ) -> Result<Self, TokenizerError> {
        let mut bpe = Self::of_alphabet(tokens, gpt2_pieces)?;
        let vocab_size = bpe.tokens.len();
        for (position, &(left, right, id)) in merges.iter().enumerate() {
            let mut ids = [left, right, id].into_iter();
            if let Some(id) = ids.find(|&id| id as usize >= vocab_size) {
                return Err(TokenizerError::UnknownId {
                    id,
                    position,
                    vocab_size,
                });
            }
            bpe.learn((left, right), id);
        }
        Ok(bpe)
    }

    /// GPT-2's, from its tokens alone: their order says which pair each was made of.
    pub fn gpt2() -> Self {
        let gpt2 = Gpt2Tokenizer::new();
        let pieces = (0..gpt2.vocab_size() as u32).filter_map(|id| gpt2.piece(id));
        let tokens: Vec<Vec<u8>> = pieces.map(<[u8]>::to_vec).collect();
        let bpe = Self::of_alphabet(tokens, gpt2_pieces);
        let mut bpe = bpe.expect("GPT-2's vocabulary begins with all bytes");
        for id in 256..bpe.tokens.len() as u32 {
            // What the merges before make of its bytes are the two that its own joins.
            if let [left, right] = bpe.encode_piece(&bpe.tokens[id as usize])[..] {
                bpe.learn((left, right), id);
            }
        }
        bpe
    }

    /// Tokens without a merge.
    fn of_alphabet(
        tokens: Vec<Vec<u8>>,
        divide: fn(&str) -> Vec<&str>,
    ) -> Result<Self, TokenizerError> {
        let mut of_byte = [None; 256];
        for (token, id) in tokens.iter().zip(0..) {
            if let [byte] = token[..] {
                of_byte[usize::from(byte)] = Some(id);
            }
        }
        if let Some(byte) = of_byte.iter().position(Option::is_none) {
            return Err(TokenizerError::MissingByte { byte: byte as u8 });
        }
        let end_of_text = tokens
            .iter()
            .position(|token| token == ENDOFTEXT.as_bytes());
        Ok(Self {
            of_byte: of_byte.map(Option::unwrap_or_default),
            end_of_text: end_of_text.map(|id| id as u32),
            tokens,
            merges: Vec::new(),
            learned: HashMap::new(),
            divide,
        })
    }

    fn learn(&mut self, pair: Pair, id: u32) {
        self.learned.insert(pair, (self.merges.len(), id));
        self.merges.push(pair);
    }

    /// The ids of a text, in which [`ENDOFTEXT`] is special if the vocabulary has it.
    pub fn encode(&self, text: &str) -> Vec<u32> {
        let Some(end_of_text) = self.end_of_text else {
            return self.encode_ordinary(text);
        };
        let documents = text.split(ENDOFTEXT).map(|text| self.encode_ordinary(text));
        documents.collect::<Vec<_>>().join(&end_of_text)
    }

    /// The ids of a text in which nothing is special.
    pub fn encode_ordinary(&self, text: &str) -> Vec<u32> {
        let pieces = (self.divide)(text).into_iter();
        pieces
            .flat_map(|piece| self.encode_piece(piece.as_bytes()))
            .collect()
    }

    /// The ids of a piece: as long as two neighbours are a pair that was learned, the pair learned
    /// first becomes one, at its first place first.
    fn encode_piece(&self, piece: &[u8]) -> Vec<u32> {
        let mut row = Row::of(&[piece], &self.of_byte);
        let learned = |row: &Row, place| Some((self.learned.get(&row.pair(place)?)?, place));
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
    /// [`TokenizerError::UnknownId`] at the first id that the vocabulary lacks;
    /// [`TokenizerError::NotUtf8`] if the bytes are no text, as when a character is cut in half.
    pub fn decode(&self, ids: &[u32]) -> Result<String, TokenizerError> {
        Decode::decode(self, ids)
    }

    /// The bytes of all tokens, in the order of their ids.
    pub fn tokens(&self) -> &[Vec<u8>] {
        &self.tokens
    }

    /// The pairs that became tokens, the first learned first.
    pub fn merges(&self) -> &[(u32, u32)] {
        &self.merges
    }

    /// The token that two become.
    pub fn merged(&self, left: u32, right: u32) -> Option<u32> {
        self.learned.get(&(left, right)).map(|(_, id)| *id)
    }
}

impl Encode for Bpe {
    type Error = Infallible;

    fn encode(&self, text: &str) -> Result<Vec<u32>, Infallible> {
        Ok(self.encode(text))
    }
}

impl Decode for Bpe {
    fn piece_at(&self, id: u32, position: usize) -> Result<Cow<'_, [u8]>, TokenizerError> {
        let piece = self.tokens.get(id as usize);
        let piece = piece.ok_or(TokenizerError::UnknownId {
            id,
            position,
            vocab_size: self.tokens.len(),
        })?;
        Ok(piece.into())
    }
}
