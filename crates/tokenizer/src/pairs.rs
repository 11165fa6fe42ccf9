//! The words of the plain form in one row, in which two neighbours become one without moving the
//! rest, and the counts of all pairs.
//!
//! A token is at the place of its first byte; the places of its other bytes, and the places between
//! two words, are marked. When a pair becomes a token, only the pairs around its places are counted
//! again, so training takes time proportional to the words, however long one is.

use std::cmp::Reverse;
use std::collections::hash_map::Entry;
use std::collections::{BinaryHeap, HashMap};

/// Two tokens side by side.
pub(crate) type Pair = (u32, u32);

/// The one of several pairs as frequent that becomes a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Ties {
    /// The one that the text has first, as in the book's notebook.
    FirstInText,
    /// The one with the smallest ids, as in the library tokenizers.
    SmallestIds,
}

/// Words as tokens side by side.
pub(crate) struct Row {
    /// At the place of a token's first byte its id; elsewhere one of the two below.
    ids: Vec<u32>,
    /// A token's first byte has the place of its last, and its last has the place of its first.
    other_end: Vec<u32>,
}

/// The id before, between and behind words: of a token of one byte that is in no pair.
const BETWEEN_WORDS: u32 = u32::MAX;

/// The id at the places of a token's other bytes.
const INSIDE_TOKEN: u32 = u32::MAX - 1;

impl Row {
    /// The bytes of words.
    pub(crate) fn of(words: &[&[u8]], of_byte: &[u32; 256]) -> Self {
        let mut ids = vec![BETWEEN_WORDS];
        for word in words {
            ids.extend(word.iter().map(|&byte| of_byte[usize::from(byte)]));
            ids.push(BETWEEN_WORDS);
        }
        let other_end = (0..ids.len() as u32).collect();
        Self { ids, other_end }
    }

    /// Returns the place of the token behind the one at `place`.
    fn after(&self, place: usize) -> usize {
        self.other_end[place] as usize + 1
    }

    /// Returns the place of the token before the one at `place`.
    pub(crate) fn before(&self, place: usize) -> usize {
        self.other_end[place - 1] as usize
    }

    /// The token at `place` and the one behind it, if both are there.
    pub(crate) fn pair(&self, place: usize) -> Option<Pair> {
        let left = self.ids[place];
        let is_token = |id: u32| id < INSIDE_TOKEN;
        let right = is_token(left).then(|| self.ids[self.after(place)])?;
        is_token(right).then_some((left, right))
    }

    /// Makes the token at `place` and the one behind it one.
    pub(crate) fn join(&mut self, place: usize, id: u32) {
        let right = self.after(place);
        let last = self.other_end[right];
        self.ids[right] = INSIDE_TOKEN;
        self.ids[place] = id;
        self.other_end[place] = last;
        self.other_end[last as usize] = place as u32;
    }

    pub(crate) fn into_ids(self) -> Vec<u32> {
        self.ids
            .into_iter()
            .filter(|&id| id < INSIDE_TOKEN)
            .collect()
    }
}

/// The count and the places of each pair in the words.
pub(crate) struct Counts {
    row: Row,
    word_counts: Vec<u64>, // word -> how often it occurs
    words: Vec<u32>,       // place -> its word
    pairs: HashMap<Pair, Places>,
    /// Count, tie key and pair of each pair; a count may be from before it fell.
    frequent: BinaryHeap<(u64, Reverse<u64>, Pair)>,
    ties: Ties,
}

#[derive(Default)]
struct Places {
    count: u64,
    /// In the order of the text. At some of them the pair may be gone.
    places: Vec<u32>,
    /// Number of the first places at which it is gone.
    gone: usize,
}

impl Counts {
    pub(crate) fn of(words: &[(&str, u64)], of_byte: &[u32; 256], ties: Ties) -> Self {
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
            word += u32::from(place > 0 && counts.row.ids[place] == BETWEEN_WORDS);
            counts.words.push(word);
            counts.add(place);
        }
        for pair in counts.pairs.keys().copied().collect::<Vec<_>>() {
            counts.offer(pair);
        }
        counts
    }

    /// Counts the pair at a place and returns it.
    fn add(&mut self, place: usize) -> Option<Pair> {
        let pair = self.row.pair(place)?;
        let places = self.pairs.entry(pair).or_default();
        places.count += self.word_counts[self.words[place] as usize];
        places.places.push(place as u32);
        Some(pair)
    }

    /// Counts the pair at a place no more.
    fn remove(&mut self, place: usize) {
        if let Some(pair) = self.row.pair(place)
            && let Some(places) = self.pairs.get_mut(&pair)
        {
            places.count -= self.word_counts[self.words[place] as usize];
        }
    }

    /// The most frequent pair and how often it occurs.
    pub(crate) fn most_frequent(&mut self) -> Option<(Pair, u64)> {
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

    /// Replaces all occurrences of a pair by the token `id`.
    pub(crate) fn replace(&mut self, pair: Pair, id: u32) {
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
