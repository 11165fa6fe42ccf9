//! Which elements dropout keeps, a bit each.
//!
//! It holds no scale: the caller multiplies what is kept by 1 / (1 - p).

/// A list of kept (true) and dropped (false) elements, in row-major order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepMask {
    words: Vec<u64>,
    len: usize,
}

impl KeepMask {
    /// A mask of `len` elements out of words whose bits beyond `len` may hold anything.
    pub(crate) fn new(mut words: Vec<u64>, len: usize) -> Self {
        debug_assert_eq!(words.len(), len.div_ceil(64));
        if let (Some(last), false) = (words.last_mut(), len.is_multiple_of(64)) {
            *last &= (1 << (len % 64)) - 1;
        }
        Self { words, len }
    }

    /// A mask that keeps all `len` elements, or none.
    pub(crate) fn constant(len: usize, keep: bool) -> Self {
        Self::new(vec![if keep { u64::MAX } else { 0 }; len.div_ceil(64)], len)
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// True if element `i` is kept.
    ///
    /// # Panics
    ///
    /// If `i` is not below [`len`](Self::len).
    pub fn get(&self, i: usize) -> bool {
        assert!(i < self.len, "keep mask: element {i} of {}", self.len);
        self.words[i / 64] >> (i % 64) & 1 == 1
    }

    /// The bits: element i is bit `i % 64` of word `i / 64`; bits beyond the last element are 0.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// The elements in order.
    pub fn iter(&self) -> impl Iterator<Item = bool> + '_ {
        (0..self.len).map(|i| self.words[i / 64] >> (i % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_beyond_the_end_are_zero() {
        for len in [0usize, 1, 63, 64, 65, 130] {
            let mask = KeepMask::new(vec![u64::MAX; len.div_ceil(64)], len);
            assert_eq!(mask.iter().filter(|&kept| kept).count(), len);
            assert_eq!(mask, KeepMask::constant(len, true));
            assert_eq!(mask.is_empty(), len == 0);
        }
    }

    #[test]
    #[should_panic(expected = "keep mask: element 3 of 3")]
    fn reading_beyond_the_end_panics() {
        KeepMask::constant(3, true).get(3);
    }
}
