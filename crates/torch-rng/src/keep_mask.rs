//! A dropout mask, stored as one bit per element.

/// A dropout mask. It contains one boolean per element of a tensor, in row-major order, which is
/// true if dropout keeps the element.
///
/// In training mode, dropout also multiplies the kept elements by `1 / (1 - p)`. The mask doesn't
/// include this factor, so the caller must multiply the elements by it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeepMask {
    words: Vec<u64>,
    len: usize,
}

impl KeepMask {
    /// Creates a mask of `len` elements from 64-bit words. If there are unused bits in the last
    /// word, they are set to 0.
    pub(crate) fn new(mut words: Vec<u64>, len: usize) -> Self {
        debug_assert_eq!(words.len(), len.div_ceil(64));
        if let (Some(last), false) = (words.last_mut(), len.is_multiple_of(64)) {
            *last &= (1 << (len % 64)) - 1;
        }
        Self { words, len }
    }

    /// Creates a mask that keeps all `len` elements if `keep` is true and none of them otherwise.
    pub(crate) fn constant(len: usize, keep: bool) -> Self {
        Self::new(vec![if keep { u64::MAX } else { 0 }; len.div_ceil(64)], len)
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if the mask has no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if element `i` is kept.
    ///
    /// # Panics
    ///
    /// Panics if `i` isn't less than [`len`](Self::len).
    pub fn get(&self, i: usize) -> bool {
        assert!(
            i < self.len,
            "keep mask: the index is {i}, but the mask has {} elements",
            self.len
        );
        self.words[i / 64] >> (i % 64) & 1 == 1
    }

    /// Returns the bits of the mask as 64-bit words. Element `i` is represented by bit `i % 64` of
    /// word `i / 64`, where bit 0 is the least significant bit. The bit is 1 if the element is
    /// kept. The bits after the last element are 0.
    pub fn words(&self) -> &[u64] {
        &self.words
    }

    /// Returns an iterator over the elements in row-major order. It yields true for each element
    /// that dropout keeps.
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
    #[should_panic(expected = "keep mask: the index is 3, but the mask has 3 elements")]
    fn reading_beyond_the_end_panics() {
        KeepMask::constant(3, true).get(3);
    }
}
