//! MCG31m1, the multiplicative congruential generator of Intel's MKL:
//! `x' = 1132489760 x mod (2^31 - 1)`.
//!
//! Each element of the sequence can be reached directly, so a tensor can be filled in parallel.

pub(crate) const MODULUS: u64 = (1 << 31) - 1;
const MULTIPLIER: u64 = 1_132_489_760;

/// The state is the next element of the sequence, between 1 and MODULUS - 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mcg31m1(u64);

impl Mcg31m1 {
    pub(crate) fn new(seed: u32) -> Self {
        Self((u64::from(seed) % MODULUS).max(1))
    }

    /// The generator `n` steps further on.
    pub(crate) fn skipped(self, n: u64) -> Self {
        Self(times(self.0, power(n)))
    }

    /// The seed itself comes first.
    #[inline]
    pub(crate) fn next(&mut self) -> u64 {
        let current = self.0;
        self.0 = times(current, MULTIPLIER);
        current
    }

    /// The next 64 elements as bits, element i at bit i: is it below `bound`?
    #[inline]
    pub(crate) fn next_64_below(&mut self, bound: u64) -> u64 {
        // Eight interleaved sequences, because one alone would wait for each multiplication.
        const LANES: usize = 8;
        const STRIDE: u64 = power(LANES as u64);
        let mut lanes = [0; LANES];
        for lane in &mut lanes {
            *lane = self.next();
        }
        let mut word = 0;
        for step in 0..64 / LANES {
            for (i, lane) in lanes.iter_mut().enumerate() {
                word |= u64::from(*lane < bound) << (step * LANES + i);
                *lane = times(*lane, STRIDE);
            }
        }
        self.0 = lanes[0];
        word
    }
}

/// An element as a number in (0, 1], in the single precision in which MKL's generators work.
#[inline]
pub(crate) fn unit_f32(x: u64) -> f32 {
    (x as f64 / MODULUS as f64) as f32
}

/// MULTIPLIER^n mod MODULUS.
const fn power(mut n: u64) -> u64 {
    let (mut base, mut result) = (MULTIPLIER, 1);
    while n > 0 {
        if n & 1 == 1 {
            result = times(result, base);
        }
        base = times(base, base);
        n >>= 1;
    }
    result
}

/// a b mod MODULUS, for a and b below it.
#[inline(always)]
const fn times(a: u64, b: u64) -> u64 {
    // 2^31 = 1 modulo 2^31 - 1, so the high part of the product is added to the low one.
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
            prop_assert_eq!(times(a, b), (u128::from(a) * u128::from(b) % u128::from(MODULUS)) as u64);
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
