//! The Mersenne Twister MT19937 of Matsumoto and Nishimura (1998), the engine of PyTorch's CPU
//! generator (`aten/src/ATen/core/MT19937RNGEngine.h`).
//!
//! The engine computes 624 words of its recurrence at a time:
//!
//! ```text
//! x[k + 624] = x[k + 397] ^ twist(highest bit of x[k], lower 31 bits of x[k + 1])
//! ```
//!
//! The words of the recurrence are tempered, which means that their bits are mixed, only when they
//! are drawn. As in PyTorch, the seed is a single 32-bit number. Seeding from an array isn't
//! supported.

use std::fmt;

use multiversion::multiversion;

/// Number of 32-bit words in a block. The words of a block are also the state of the recurrence.
pub(crate) const WORDS: usize = 624;
const MIDDLE: usize = 397;
const TWIST_MATRIX: u32 = 0x9908_b0df;
const HIGH_BIT: u32 = 0x8000_0000;

#[derive(Clone)]
pub(crate) struct Mt19937 {
    /// Last 624 words of the recurrence, before tempering.
    words: [u32; WORDS],
    /// Index of the next word to draw. If it is [`WORDS`], the next draw computes a new block.
    position: usize,
}

impl Mt19937 {
    pub(crate) fn new(seed: u32) -> Self {
        let mut words = [seed; WORDS];
        for i in 1..WORDS {
            let previous = words[i - 1] ^ (words[i - 1] >> 30);
            words[i] = previous.wrapping_mul(1_812_433_253).wrapping_add(i as u32);
        }
        Self::from_parts(words, WORDS)
    }

    /// Creates an engine from values that [`words`](Self::words) and [`position`](Self::position)
    /// have returned. The position must be at most [`WORDS`].
    pub(crate) fn from_parts(words: [u32; WORDS], position: usize) -> Self {
        Self { words, position }
    }

    pub(crate) fn words(&self) -> &[u32; WORDS] {
        &self.words
    }

    pub(crate) fn position(&self) -> usize {
        self.position
    }

    #[inline]
    pub(crate) fn next_u32(&mut self) -> u32 {
        temper(self.take(1)[0])
    }

    /// Takes two draws and combines them into a 64-bit number. The first draw is the upper half.
    #[inline]
    pub(crate) fn next_u64(&mut self) -> u64 {
        let high = u64::from(self.next_u32());
        high << 32 | u64::from(self.next_u32())
    }

    /// Draws up to `at_most` words and returns them without tempering. The result may be shorter
    /// than `at_most` because it ends at the end of the current block. It is empty only if
    /// `at_most` is 0.
    #[inline]
    pub(crate) fn take(&mut self, at_most: usize) -> &[u32] {
        if self.position == WORDS && at_most > 0 {
            self.next_block();
        }
        let start = self.position;
        self.position += at_most.min(WORDS - start);
        &self.words[start..self.position]
    }

    /// Draws up to `at_most` pairs of words and returns them without tempering, like
    /// [`take`](Self::take). If only one word is left in the block, no pairs are returned and
    /// nothing is drawn. In this case, the caller must draw the two words of the next pair one at a
    /// time.
    #[inline]
    pub(crate) fn take_pairs(&mut self, at_most: usize) -> &[[u32; 2]] {
        let held = match (WORDS - self.position) / 2 {
            0 if self.position == WORDS => WORDS / 2,
            held => held,
        };
        self.take(2 * at_most.min(held)).as_chunks().0
    }

    /// Takes one draw for each element of `out` and sets the element to the result of calling `map`
    /// with the draw.
    #[inline]
    pub(crate) fn fill<T>(&mut self, mut out: &mut [T], map: impl Fn(u32) -> T) {
        while !out.is_empty() {
            let words = self.take(out.len());
            let (head, rest) = out.split_at_mut(words.len());
            for (slot, &word) in head.iter_mut().zip(words) {
                *slot = map(temper(word));
            }
            out = rest;
        }
    }

    /// Advances the engine by `n` draws.
    pub(crate) fn skip(&mut self, mut n: u64) {
        while n > (WORDS - self.position) as u64 {
            n -= (WORDS - self.position) as u64;
            self.next_block();
        }
        self.position += n as usize;
    }

    #[cold]
    fn next_block(&mut self) {
        next_words(&mut self.words);
        self.position = 0;
    }
}

/// Replaces a block with the next 624 words of the recurrence.
#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn next_words(words: &mut [u32; WORDS]) {
    const FIRST: usize = WORDS - MIDDLE;
    // Each new word replaces the old word at the same index. It is computed from old words that
    // haven't been replaced yet and, in the second loop, also from the new word 227 positions
    // before it. This distance is larger than the number of words in a vector register, so both
    // loops can be vectorized.
    for i in 0..FIRST {
        words[i] = words[i + MIDDLE] ^ twist(words[i], words[i + 1]);
    }
    for i in FIRST..WORDS - 1 {
        words[i] = words[i - FIRST] ^ twist(words[i], words[i + 1]);
    }
    // The last word of the block is computed separately, because it depends on the word that
    // follows it, which is the first word of the new block. For all other words, the word that
    // follows is still an old word.
    words[WORDS - 1] = words[MIDDLE - 1] ^ twist(words[WORDS - 1], words[0]);
}

/// Two engines are equal if they have the same words and the same position, so all of their future
/// draws are equal.
impl PartialEq for Mt19937 {
    fn eq(&self, other: &Self) -> bool {
        self.position == other.position && self.words == other.words
    }
}

impl fmt::Debug for Mt19937 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mt19937")
            .field("position", &self.position)
            .finish_non_exhaustive()
    }
}

#[inline(always)]
fn twist(word: u32, next: u32) -> u32 {
    let y = (word & HIGH_BIT) | (next & !HIGH_BIT);
    // `0 - (y & 1)` has all bits set if `y` is odd, and no bits otherwise. It serves as a mask
    // because a branch would prevent vectorization.
    (y >> 1) ^ (TWIST_MATRIX & 0u32.wrapping_sub(y & 1))
}

/// Tempers a word of the recurrence, that is, mixes its bits. The result is the number that a draw
/// returns.
#[inline(always)]
pub(crate) fn temper(mut y: u32) -> u32 {
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c_5680;
    y ^= (y << 15) & 0xefc6_0000;
    y ^ (y >> 18)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand_mt::Mt;

    #[test]
    fn draws_equal_another_implementation_over_many_blocks() {
        for seed in [0, 1, 123, 5489, 0x8000_0000, u32::MAX] {
            let (mut ours, mut theirs) = (Mt19937::new(seed), Mt::new(seed));
            for i in 0..10 * WORDS + 7 {
                assert_eq!(ours.next_u32(), theirs.next_u32(), "seed {seed}, draw {i}");
            }
        }
    }

    #[test]
    fn skipped_draws_are_as_good_as_drawn() {
        for start in [0, 1, 623, 624] {
            for n in [0, 1, 2, 622, 623, 624, 625, 1_247, 1_248, 10_000] {
                let mut drawn = Mt19937::new(7);
                drawn.fill(&mut vec![0; start], |draw| draw);
                let mut skipped = drawn.clone();
                drawn.fill(&mut vec![0; n], |draw| draw);
                skipped.skip(n as u64);
                assert_eq!(skipped, drawn, "{n} from {start}");
                assert_eq!(skipped.next_u64(), drawn.next_u64(), "{n} from {start}");
            }
        }
    }
}
