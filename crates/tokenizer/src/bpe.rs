//! Byte pair encoding from the ground up, trained and applied (book section 2.5 and its notebook "BPE from scratch").
//!
//! Training counts neighbours: the pair of tokens that stands side by side most often becomes a new token, again and again.
//! Encoding begins with single bytes and makes the same pairs one, the pair that was learned first before all others.
//! With GPT-2's merges the ids are [`Gpt2Tokenizer`]'s, which is faster. It reads and writes no files.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::collections::hash_map::{Entry, HashMap};
use std::convert::Infallible;

use crate::encode_decode::{Decode, Encode};
use crate::error::TokenizerError;
use crate::gpt2::{ENDOFTEXT, Gpt2Tokenizer};

pub use crate::pattern::gpt2_pieces;

/// Two tokens side by side.
type Pair = (u32, u32);

/// A byte pair encoding: its tokens, and which pairs become which.
///
/// ```
/// use tokenizer::bpe::{Bpe, BpeConfig};
/// let text = "low lower lowest";
/// let bpe = Bpe::train(text, &BpeConfig { vocab_size: 260, ..BpeConfig::default() })?;
/// let ids = bpe.encode("slow");
/// assert_eq!(ids, [82, 257]); // "s" and "low"
/// assert_eq!(bpe.tokens()[256..], [b"lo".to_vec(), b"low".to_vec(), b" low".to_vec(), b" lowe".to_vec()]);
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
    /// How many tokens there should be, the alphabet included; fewer if the text hasn't so many pairs.
    pub vocab_size: usize,
    /// The tokens before the first pair, each byte among them (the last, if it is there twice); [`ENDOFTEXT`] may be.
    pub alphabet: Vec<Vec<u8>>,
    /// Divides a text into pieces; no pair reaches over their ends.
    pub divide: fn(&str) -> Vec<&str>,
    /// Pairs that occur less often stay two tokens.
    pub least_count: u64,
    /// Which of several pairs that are as frequent is taken.
    pub ties: Ties,
}

/// Which of several pairs that are as frequent becomes a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ties {
    /// The one that the text has first, as in the book's notebook.
    FirstInText,
    /// The one with the smallest ids, as in the library tokenizers.
    SmallestIds,
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

/// All bytes in the order in which GPT-2's vocabulary begins: first those that stand for a character that can be seen.
pub fn gpt2_bytes() -> [u8; 256] {
    let is_seen = |byte: &u8| matches!(byte, b'!'..=b'~' | 0xa1..=0xac | 0xae..=0xff);
    let mut bytes: [u8; 256] = std::array::from_fn(|byte| byte as u8);
    bytes.sort_by_key(|byte| !is_seen(byte)); // stable
    bytes
}

impl Bpe {
    /// The tokens that a text makes; [`ENDOFTEXT`] divides it.
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

    /// The tokens that words make, each with the number of times that it occurs.
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

    /// The ids of a piece: as long as two neighbours are a pair that was learned, the pair learned first becomes one, at its first place first.
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

/// Words as tokens side by side. Two of them can be made one in a moment, however many there are.
struct Row {
    /// At the place of a token's first byte its id.
    ids: Vec<u32>,
    /// At a token's first byte the place of its last, and at its last that of its first.
    other_end: Vec<u32>,
}

/// Stands before, between and behind words, as a token of one byte that is in no pair.
const BREAK: u32 = u32::MAX;

/// Stands where a token has become a part of the one before.
const GONE: u32 = u32::MAX - 1;

impl Row {
    /// The bytes of words.
    fn of(words: &[&[u8]], of_byte: &[u32; 256]) -> Self {
        let mut ids = vec![BREAK];
        for word in words {
            ids.extend(word.iter().map(|&byte| of_byte[usize::from(byte)]));
            ids.push(BREAK);
        }
        let other_end = (0..ids.len() as u32).collect();
        Self { ids, other_end }
    }

    /// Where the token behind the one at `place` begins.
    fn after(&self, place: usize) -> usize {
        self.other_end[place] as usize + 1
    }

    /// Where the token before the one at `place` begins.
    fn before(&self, place: usize) -> usize {
        self.other_end[place - 1] as usize
    }

    /// The token at `place` and the one behind it, if both are there.
    fn pair(&self, place: usize) -> Option<Pair> {
        let left = self.ids[place];
        let is_token = |id: u32| id < GONE;
        let right = is_token(left).then(|| self.ids[self.after(place)])?;
        is_token(right).then_some((left, right))
    }

    /// Makes the token at `place` and the one behind it one.
    fn join(&mut self, place: usize, id: u32) {
        let right = self.after(place);
        let last = self.other_end[right];
        self.ids[right] = GONE;
        self.ids[place] = id;
        self.other_end[place] = last;
        self.other_end[last as usize] = place as u32;
    }

    fn into_ids(self) -> Vec<u32> {
        self.ids.into_iter().filter(|&id| id < GONE).collect()
    }
}

/// How often each pair stands in the words, and where.
struct Counts {
    row: Row,
    word_counts: Vec<u64>, // word -> how often it occurs
    words: Vec<u32>,       // place -> its word
    pairs: HashMap<Pair, Places>,
    /// Counts that may have fallen since, then who wins a tie.
    frequent: BinaryHeap<(u64, Reverse<u64>, Pair)>,
    ties: Ties,
}

#[derive(Default)]
struct Places {
    count: u64,
    /// In the order of the text. At some of them the pair may be gone.
    places: Vec<u32>,
    /// So many of them are known to be gone.
    gone: usize,
}

impl Counts {
    fn of(words: &[(&str, u64)], of_byte: &[u32; 256], ties: Ties) -> Self {
        let bytes: Vec<&[u8]> = words.iter().map(|(word, _)| word.as_bytes()).collect();
        let row = Row::of(&bytes, of_byte);
        let mut counts = Self {
            words: Vec::with_capacity(row.ids.len()),
            row,
            word_counts: words.iter().map(|(_, count)| *count).collect(),
            pairs: HashMap::new(),
            frequent: BinaryHeap::new(),
            ties,
        };
        let mut word = 0;
        for place in 0..counts.row.ids.len() {
            word += u32::from(place > 0 && counts.row.ids[place] == BREAK);
            counts.words.push(word);
            counts.add(place);
        }
        for pair in counts.pairs.keys().copied().collect::<Vec<_>>() {
            counts.offer(pair);
        }
        counts
    }

    /// One more pair at a place; which it is.
    fn add(&mut self, place: usize) -> Option<Pair> {
        let pair = self.row.pair(place)?;
        let places = self.pairs.entry(pair).or_default();
        places.count += self.word_counts[self.words[place] as usize];
        places.places.push(place as u32);
        Some(pair)
    }

    /// The pair at a place is about to go.
    fn remove(&mut self, place: usize) {
        if let Some(pair) = self.row.pair(place)
            && let Some(places) = self.pairs.get_mut(&pair)
        {
            places.count -= self.word_counts[self.words[place] as usize];
        }
    }

    /// The most frequent pair and how often it occurs.
    fn most_frequent(&mut self) -> Option<(Pair, u64)> {
        while let Some((count, _, pair)) = self.frequent.pop() {
            match self.pairs.get(&pair) {
                Some(places) if places.count == count => return Some((pair, count)),
                _ => self.offer(pair),
            }
        }
        None
    }

    /// Puts a pair where its count belongs now.
    fn offer(&mut self, pair: Pair) {
        let Some(places) = self.pairs.get_mut(&pair).filter(|places| places.count > 0) else {
            return;
        };
        let tie = match self.ties {
            Ties::SmallestIds => u64::from(pair.0) << 32 | u64::from(pair.1),
            Ties::FirstInText => {
                let is_gone = |&&place: &&u32| self.row.pair(place as usize) != Some(pair);
                places.gone += places.places[places.gone..]
                    .iter()
                    .take_while(is_gone)
                    .count();
                u64::from(places.places[places.gone])
            }
        };
        self.frequent.push((places.count, Reverse(tie), pair));
    }

    /// Makes a pair the token `id` wherever it stands.
    fn replace(&mut self, pair: Pair, id: u32) {
        let Some(places) = self.pairs.remove(&pair) else {
            return;
        };
        let mut new = Vec::new();
        for place in places.places {
            let place = place as usize;
            if self.row.pair(place) != Some(pair) {
                continue;
            }
            let (before, after) = (self.row.before(place), self.row.after(place));
            self.remove(before);
            self.remove(after);
            self.row.join(place, id);
            new.extend([self.add(before), self.add(place)].into_iter().flatten());
        }
        new.sort_unstable();
        new.dedup();
        for pair in new {
            if let Entry::Occupied(mut entry) = self.pairs.entry(pair) {
                // A token that was there already has new places between the old ones.
                let places = entry.get_mut();
                places.places.sort_unstable();
                places.gone = 0;
            }
            self.offer(pair);
        }
    }
}
