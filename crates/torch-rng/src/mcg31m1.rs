//! MCG31m1, a multiplicative congruential generator of Intel's Math Kernel Library (MKL):
//!
//! ```text
//! x[i + 1] = 1132489760 * x[i] mod (2^31 - 1)
//! ```
//!
//! Since `x[i + n] = 1132489760^n * x[i] mod (2^31 - 1)`, any element of the sequence can be
//! computed without computing the elements before it. Several threads can therefore fill different
//! parts of a tensor in parallel.

pub(crate) const MODULUS: u64 = (1 << 31) - 1;
const MULTIPLIER: u64 = 1_132_489_760;

/// An MCG31m1 generator. Its state is the next element of the sequence, which is always between 1
/// and `MODULUS - 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mcg31m1(u64);

impl Mcg31m1 {
    pub(crate) fn new(seed: u32) -> Self {
        Self((u64::from(seed) % MODULUS).max(1))
    }

    /// Returns this generator advanced by `n` elements.
    pub(crate) fn skipped(self, n: u64) -> Self {
        Self(multiply_mod(self.0, multiplier_power(n)))
    }

    /// Returns the next element of the sequence. The first element is the seed modulo [`MODULUS`],
    /// or 1 if this remainder is 0.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        let current = self.0;
        self.0 = multiply_mod(current, MULTIPLIER);
        current
    }

    /// Compares the next 64 elements of the sequence with `bound`. Bit `i` of the result is 1 if
    /// the element with the index `i` (from 0 to 63) is less than `bound`.
    #[inline]
    pub(crate) fn next_64_below(&mut self, bound: u64) -> u64 {
        // Each element is computed from the preceding one, so the multiplications of a single
        // sequence would have to wait for each other. This code splits the sequence into eight
        // interleaved sequences, whose multiplications the CPU can overlap.
        const LANES: usize = 8;
        const STRIDE: u64 = multiplier_power(LANES as u64);
        let mut lanes = [0; LANES];
        for lane in &mut lanes {
            *lane = self.next();
        }
        let mut word = 0;
        for step in 0..64 / LANES {
            for (i, lane) in lanes.iter_mut().enumerate() {
                word |= u64::from(*lane < bound) << (step * LANES + i);
                *lane = multiply_mod(*lane, STRIDE);
            }
        }
        self.0 = lanes[0];
        word
    }
}

/// Converts an element of the sequence to a number in (0, 1] by dividing it by the modulus. The
/// result is rounded to `f32`, as in MKL.
#[inline]
pub(crate) fn unit_f32(x: u64) -> f32 {
    (x as f64 / MODULUS as f64) as f32
}

/// Returns `MULTIPLIER^n mod MODULUS`.
const fn multiplier_power(mut n: u64) -> u64 {
    let (mut base, mut result) = (MULTIPLIER, 1);
    while n > 0 {
        if n & 1 == 1 {
            result = multiply_mod(result, base);
        }
        base = multiply_mod(base, base);
        n >>= 1;
    }
    result
}

/// Returns `a * b mod MODULUS` for `a` and `b` below `MODULUS`.
#[inline(always)]
const fn multiply_mod(a: u64, b: u64) -> u64 {
    // The modulus is 2^31 - 1, so 2^31 is congruent to 1. The product can therefore be reduced by
    // adding its bits from bit 31 upward to its lower 31 bits.
    let product = a * b;
    let folded = (product & MODULUS) + (product >> 31);
    if folded >= MODULUS {
        folded - MODULUS
    } else {
        folded
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_seed_that_is_a_multiple_of_the_modulus_becomes_one() {
        for seed in [0, MODULUS as u32, 2 * MODULUS as u32] {
            assert_eq!(Mcg31m1::new(seed).next(), 1);
        }
        assert_eq!(Mcg31m1::new(u32::MAX), Mcg31m1::new(1));
    }

    proptest! {
        #[test]
        fn the_product_is_that_of_wide_arithmetic(a in 1..MODULUS, b in 1..MODULUS) {
            prop_assert_eq!(multiply_mod(a, b), (u128::from(a) * u128::from(b) % u128::from(MODULUS)) as u64);
        }

        #[test]
        fn skipping_ahead_equals_stepping(seed: u32, n in 0u64..2_000) {
            let mut stepped = Mcg31m1::new(seed);
            for _ in 0..n {
                stepped.next();
            }
            prop_assert_eq!(stepped, Mcg31m1::new(seed).skipped(n));
        }

        #[test]
        fn skips_add_up(seed: u32, a in 0..u64::MAX / 2, b in 0..u64::MAX / 2) {
            let start = Mcg31m1::new(seed);
            prop_assert_eq!(start.skipped(a).skipped(b), start.skipped(a + b));
        }

        #[test]
        fn sixty_four_at_once_equal_one_by_one(seed: u32, bound in 0..=MODULUS) {
            let mut together = Mcg31m1::new(seed);
            let mut single = together;
            let word = together.next_64_below(bound);
            for i in 0..64 {
                prop_assert_eq!(word >> i & 1 == 1, single.next() < bound, "element {}", i);
            }
            prop_assert_eq!(together, single);
        }
    }
}
