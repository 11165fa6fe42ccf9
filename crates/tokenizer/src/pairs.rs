//! Data structures for the fast implementation of byte pair encoding.
//!
//! [`Row`] stores the tokens of several words in a single array, which has one entry per byte. The
//! ID of a token is stored at the position of its first byte, and the positions of its other bytes
//! are marked as inside a token. Merging two tokens therefore changes only a few entries. For
//! example, the array changes as follows if "l" and "o" become the token 256:
//!
//! ```text
//! position         0       1    2    3    4
//! before           between l    o    w    between
//! after            between 256  -    w    between
//! ```
//!
//! [`PairCounts`] stores the number of occurrences of each pair and their positions. When a pair
//! becomes a token, only the pairs next to its occurrences have to be counted again, so the
//! training time is nearly proportional to the total length of the words.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap};

/// The IDs of two adjacent tokens.
pub(crate) type Pair = (u32, u32);

/// Rule that decides which pair of adjacent tokens is merged first during the training of a byte
/// pair encoding if several pairs are equally frequent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ties {
    /// Of several equally frequent pairs, the one that occurs first in the text is merged first, as
    /// in the book's notebook.
    FirstInText,
    /// Of several equally frequent pairs, the one with the smallest token IDs is merged first, as
    /// in Hugging Face's `tokenizers` library.
    SmallestIds,
}

/// The tokens of several words in arrays with one entry per byte of text. In this data structure,
/// merging two adjacent tokens into one takes constant time, regardless of the length of the words.
pub(crate) struct Row {
    /// One entry for each position: the ID of the token that starts at this position,
    /// [`INSIDE_TOKEN`] if the position is inside a token, or [`BETWEEN_WORDS`] if the position
    /// doesn't belong to a word.
    ids: Vec<u32>,
    /// For each token, the positions of its two ends: the entry at the token's first byte is the
    /// position of its last byte, and the entry at its last byte is the position of its first byte.
    /// The neighbors of a token can therefore be found in constant time. Entries at other positions
    /// aren't used.
    other_end: Vec<u32>,
}

/// Marker in [`Row::ids`] for the positions before the first word, between two words, and after the
/// last word. Such a position is treated like a token of one byte that is never part of a pair.
const BETWEEN_WORDS: u32 = u32::MAX;

/// Marker in the array [`Row::ids`], which has one entry per byte of text. The ID of a token is
/// stored only at its first byte, and this marker is stored at its other bytes.
const INSIDE_TOKEN: u32 = u32::MAX - 1;

impl Row {
    /// Stores each byte of the words as the token `byte_ids[byte]`.
    pub(crate) fn of(words: &[&[u8]], byte_ids: &[u32; 256]) -> Self {
        let mut ids = vec![BETWEEN_WORDS];
        for word in words {
            ids.extend(word.iter().map(|&byte| byte_ids[usize::from(byte)]));
            ids.push(BETWEEN_WORDS);
        }
        let other_end = (0..ids.len() as u32).collect();
        Self { ids, other_end }
    }

    /// Returns the position of the token that follows the token at `position`.
    fn after(&self, position: usize) -> usize {
        self.other_end[position] as usize + 1
    }

    /// Returns the position of the token that precedes the token at `position`.
    pub(crate) fn before(&self, position: usize) -> usize {
        self.other_end[position - 1] as usize
    }

    /// Returns the pair of tokens that starts at `position`. Returns `None` if no token starts
    /// there or if the token at `position` is the last token of its word.
    pub(crate) fn pair(&self, position: usize) -> Option<Pair> {
        let left = self.ids[position];
        let is_token = |id: u32| id < INSIDE_TOKEN;
        let right = is_token(left).then(|| self.ids[self.after(position)])?;
        is_token(right).then_some((left, right))
    }

    /// Replaces the pair that starts at `position` with the token `id`.
    pub(crate) fn merge(&mut self, position: usize, id: u32) {
        let right = self.after(position);
        let last = self.other_end[right];
        self.ids[right] = INSIDE_TOKEN;
        self.ids[position] = id;
        self.other_end[position] = last;
        self.other_end[last as usize] = position as u32;
    }

    pub(crate) fn into_ids(self) -> Vec<u32> {
        self.ids
            .into_iter()
            .filter(|&id| id < INSIDE_TOKEN)
            .collect()
    }
}

/// Number of occurrences and positions of each pair.
pub(crate) struct PairCounts {
    row: Row,
    word_counts: Vec<u64>, // number of occurrences of each word
    words: Vec<u32>,       // index of the word at each position
    pairs: HashMap<Pair, Occurrences>,
    /// Priority queue of pairs, ordered by their counts. If two pairs have the same count, the
    /// second element of their entries determines which pair comes first. The count in an entry can
    /// be out of date, because an entry isn't changed when its pair becomes less frequent.
    queue: BinaryHeap<(u64, Reverse<u64>, Pair)>,
    ties: Ties,
}

#[derive(Default)]
struct Occurrences {
    count: u64,
    /// Positions at which the pair of tokens starts, in the order of the text. The list can include
    /// positions that are out of date because one of the pair's tokens has been merged with another
    /// neighbor, so the pair no longer starts there.
    positions: Vec<u32>,
    /// Number of elements at the start of `positions` that are known to be out of date. The search
    /// for the pair's first occurrence skips these elements.
    stale: usize,
}

impl PairCounts {
    pub(crate) fn of(words: &[(&str, u64)], byte_ids: &[u32; 256], ties: Ties) -> Self {
        let bytes: Vec<&[u8]> = words.iter().map(|(word, _)| word.as_bytes()).collect();
        let row = Row::of(&bytes, byte_ids);
        let mut counts = Self {
            words: Vec::with_capacity(row.ids.len()),
            row,
            word_counts: words.iter().map(|(_, count)| *count).collect(),
            pairs: HashMap::new(),
            queue: BinaryHeap::new(),
            ties,
        };
        let mut word = 0;
        for position in 0..counts.row.ids.len() {
            word += u32::from(position > 0 && counts.row.ids[position] == BETWEEN_WORDS);
            counts.words.push(word);
            counts.add(position);
        }
        for pair in counts.pairs.keys().copied().collect::<Vec<_>>() {
            counts.enqueue(pair);
        }
        counts
    }

    /// If a pair of tokens starts at `position`, adds this occurrence to the counts of all pairs
    /// and returns the pair. Otherwise, returns `None`.
    fn add(&mut self, position: usize) -> Option<Pair> {
        let pair = self.row.pair(position)?;
        let occurrences = self.pairs.entry(pair).or_default();
        occurrences.count += self.word_counts[self.words[position] as usize];
        occurrences.positions.push(position as u32);
        Some(pair)
    }

    /// If a pair of tokens starts at `position`, subtracts this occurrence from the pair's count,
    /// because one of the two tokens is about to be merged with another neighbor. Otherwise, does
    /// nothing.
    fn remove(&mut self, position: usize) {
        if let Some(pair) = self.row.pair(position)
            && let Some(occurrences) = self.pairs.get_mut(&pair)
        {
            occurrences.count -= self.word_counts[self.words[position] as usize];
        }
    }

    /// Returns the most frequent pair and its number of occurrences.
    pub(crate) fn most_frequent(&mut self) -> Option<(Pair, u64)> {
        while let Some((count, _, pair)) = self.queue.pop() {
            match self.pairs.get(&pair) {
                Some(occurrences) if occurrences.count == count => return Some((pair, count)),
                _ => self.enqueue(pair),
            }
        }
        None
    }

    /// Adds a pair of tokens to the priority queue, with the pair's current count as its priority.
    /// Does nothing if this count is 0.
    fn enqueue(&mut self, pair: Pair) {
        let Some(occurrences) = self
            .pairs
            .get_mut(&pair)
            .filter(|occurrences| occurrences.count > 0)
        else {
            return;
        };
        let tie = match self.ties {
            Ties::SmallestIds => u64::from(pair.0) << 32 | u64::from(pair.1),
            Ties::FirstInText => {
                let is_stale = |&&position: &&u32| self.row.pair(position as usize) != Some(pair);
                occurrences.stale += occurrences.positions[occurrences.stale..]
                    .iter()
                    .take_while(is_stale)
                    .count();
                u64::from(occurrences.positions[occurrences.stale])
            }
        };
        self.queue.push((occurrences.count, Reverse(tie), pair));
    }

    /// Replaces each occurrence of `pair` with the token `id` and updates the counts.
    pub(crate) fn replace(&mut self, pair: Pair, id: u32) {
        let Some(occurrences) = self.pairs.remove(&pair) else {
            return;
        };
        let mut new = Vec::new();
        for position in occurrences.positions {
            let position = position as usize;
            if self.row.pair(position) != Some(pair) {
                continue;
            }
            let (before, after) = (self.row.before(position), self.row.after(position));
            self.remove(before);
            self.remove(after);
            self.row.merge(position, id);
            new.extend([self.add(before), self.add(position)].into_iter().flatten());
        }
        new.sort_unstable();
        new.dedup();
        for pair in new {
            if let Entry::Occupied(mut entry) = self.pairs.entry(pair) {
                // Merging different pairs can result in the same token. For example, merging "a"
                // with "bc" and merging "ab" with "c" both result in "abc". A pair that contains
                // this token may therefore already have had positions before the current merge. The
                // new positions were appended to them, so the whole list must be sorted.
                let occurrences = entry.get_mut();
                occurrences.positions.sort_unstable();
                occurrences.stale = 0;
            }
            self.enqueue(pair);
        }
    }
}
