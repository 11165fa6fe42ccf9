//! Random inputs for tests. They are the same in every run and on every machine.
//!
//! The random numbers in this module are the high bits of a 64-bit linear congruential generator,
//! which is random enough for test inputs. To initialize the weights of models, use the generator
//! of the crate `torch-rng` instead.

use ndarray::{Array, ArrayRef, Dimension, ShapeBuilder};

/// Scales of the random inputs with which backward passes are tested. For an activation function,
/// they cover the nearly linear part around 0, the curved part, and the saturated ends.
pub const INPUT_SCALES: [f32; 3] = [0.1, 1.0, 3.0];

/// A linear congruential generator with the constants of Knuth's MMIX.
struct Lcg {
    state: u64,
}

impl Lcg {
    /// Creates a generator. Even similar seeds lead to unrelated sequences.
    fn new(seed: u64) -> Self {
        // Generators with similar seeds start in states that differ only in their low bits, but the
        // random numbers are the high bits of the states. Advance the generator a few steps, so
        // that the high bits differ as well.
        let mut lcg = Self {
            state: seed ^ 0x9e37_79b9_7f4a_7c15,
        };
        for _ in 0..4 {
            lcg.next_u32();
        }
        lcg
    }

    /// Returns the next 32 bits.
    fn next_u32(&mut self) -> u32 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 32) as u32
    }

    /// Returns the next random number. It is uniformly distributed between `-scale` and `scale`,
    /// and never 0.
    fn uniform(&mut self, scale: f32) -> f32 {
        // We choose an odd multiple of 2^-24 between -1 and 1, which `f32` represents exactly. Odd
        // multiples are distributed symmetrically around 0, but never include 0, 1 or -1.
        let odd = i64::from(self.next_u32() >> 8) * 2 + 1 - (1 << 24);
        odd as f32 / (1 << 24) as f32 * scale
    }
}

/// Returns an array of random numbers that are uniformly distributed between `-scale` and `scale`,
/// and never 0. The same shape and seed always produce the same array.
///
/// ```
/// let x = test_support::test_array((2, 3), 0.5, 1); // (batch, emb_dim)
/// assert_eq!(x.dim(), (2, 3));
/// assert!(x.iter().all(|x| x.abs() <= 0.5));
/// ```
pub fn test_array<Sh: ShapeBuilder>(shape: Sh, scale: f32, seed: u64) -> Array<f32, Sh::Dim> {
    let mut lcg = Lcg::new(seed);
    Array::from_shape_simple_fn(shape, || lcg.uniform(scale))
}

/// Returns an array like [`test_array`], except that the absolute value of each number is at least
/// `margin`. Such inputs are suitable for functions with a kink at 0, such as ReLU.
///
/// # Panics
///
/// Panics if `margin` isn't less than `scale`.
pub fn away_from_zero<Sh: ShapeBuilder>(
    shape: Sh,
    scale: f32,
    margin: f32,
    seed: u64,
) -> Array<f32, Sh::Dim> {
    assert!(
        margin < scale,
        "away_from_zero: the margin is {margin}, but it must be less than the scale {scale}"
    );
    let spread = scale - margin;
    test_array(shape, spread, seed).mapv(|x| x + margin.copysign(x))
}

/// Returns random weights between -1 and 1 for [`project`]. In a gradient check, pass the same
/// weights as `d_out` to the backward pass under test.
pub fn projection_weights<Sh: ShapeBuilder>(shape: Sh, seed: u64) -> Array<f32, Sh::Dim> {
    test_array(shape, 1.0, seed ^ 0x70726f6a)
}

/// Returns `sum(out * weights)`, computed in `f64`. A gradient check uses this sum as its
/// objective.
///
/// # Panics
///
/// Panics if the shapes differ.
#[track_caller]
pub fn project<D: Dimension>(out: &ArrayRef<f32, D>, weights: &ArrayRef<f32, D>) -> f64 {
    assert!(
        out.shape() == weights.shape(),
        "project: the output has shape {:?}, but the weights have shape {:?}",
        out.shape(),
        weights.shape(),
    );
    out.iter()
        .zip(weights)
        .map(|(&out, &weight)| f64::from(out) * f64::from(weight))
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_array_and_another_seed_another() {
        assert_eq!(test_array((3, 4), 1.0, 7), test_array((3, 4), 1.0, 7));
        assert_ne!(test_array((3, 4), 1.0, 7), test_array((3, 4), 1.0, 8));
        assert_ne!(test_array((3, 4), 1.0, 7), projection_weights((3, 4), 7));
    }

    #[test]
    fn numbers_fill_their_range_evenly() {
        for seed in 0..8 {
            let x = test_array(10_000, 3.0, seed);
            let mean = x.mean().expect("not empty");
            assert!(x.iter().all(|&x| x != 0.0 && x.abs() < 3.0));
            assert!(mean.abs() < 0.1, "seed {seed}: mean {mean}");
            assert!(
                (x.var(0.0) - 3.0).abs() < 0.15,
                "seed {seed}: variance {}",
                x.var(0.0)
            );
        }
    }

    #[test]
    fn away_from_zero_keeps_its_margin_on_both_sides() {
        let x = away_from_zero(1000, 1.0, 0.25, 3);
        assert!(x.iter().all(|x| (0.25..=1.0).contains(&x.abs())));
        assert!(x.iter().any(|&x| x < 0.0) && x.iter().any(|&x| x > 0.0));
    }
}
