//! Test inputs that are the same in every run and on every machine: a 64-bit linear congruential
//! generator, `state = state * a + c`, of which the high bits are used.
//! NOT for anything but tests: the numbers of the model come from `torch-rng`.

use ndarray::{Array, ArrayRef, Dimension, ShapeBuilder};

/// The input scales at which every backward pass is checked: the flat part of an activation, the
/// bend, and the saturated ends.
pub const INPUT_SCALES: [f32; 3] = [0.1, 1.0, 3.0];

/// A linear congruential generator (Knuth's MMIX constants).
struct Lcg {
    state: u64,
}

impl Lcg {
    /// A generator; different seeds give unrelated numbers.
    fn new(seed: u64) -> Self {
        // Nearby seeds differ in the low bits only, which reach the high bits after some steps.
        let mut lcg = Self {
            state: seed ^ 0x9e37_79b9_7f4a_7c15,
        };
        for _ in 0..4 {
            lcg.next_u32();
        }
        lcg
    }

    /// The next 32 bits.
    fn next_u32(&mut self) -> u32 {
        self.state = self
            .state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 32) as u32
    }

    /// The next number, uniform in `-scale..scale` and never exactly 0.
    fn uniform(&mut self, scale: f32) -> f32 {
        // An odd multiple of 2^-24: exact in f32, symmetric, neither 0 nor +-1.
        let odd = i64::from(self.next_u32() >> 8) * 2 + 1 - (1 << 24);
        odd as f32 / (1 << 24) as f32 * scale
    }
}

/// An array of numbers uniform in `-scale..scale`, none exactly 0; the same for the same shape and
/// seed.
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

/// [`test_array`] with every number at least `margin` from 0, for functions with a kink there
/// (ReLU).
///
/// # Panics
///
/// If `margin` is not less than `scale`.
pub fn away_from_zero<Sh: ShapeBuilder>(
    shape: Sh,
    scale: f32,
    margin: f32,
    seed: u64,
) -> Array<f32, Sh::Dim> {
    assert!(
        margin < scale,
        "away_from_zero: margin {margin}, scale {scale}"
    );
    let spread = scale - margin;
    test_array(shape, spread, seed).mapv(|x| x + margin.copysign(x))
}

/// Weights in -1..1 for [`project`], which are also the `d_out` to hand to the backward pass.
pub fn projection_weights<Sh: ShapeBuilder>(shape: Sh, seed: u64) -> Array<f32, Sh::Dim> {
    test_array(shape, 1.0, seed ^ 0x70726f6a)
}

/// `sum(out * weights)` in f64: the scalar objective of a gradient check.
///
/// # Panics
///
/// If the shapes differ.
#[track_caller]
pub fn project<D: Dimension>(out: &ArrayRef<f32, D>, weights: &ArrayRef<f32, D>) -> f64 {
    assert!(
        out.shape() == weights.shape(),
        "project: output of shape {:?}, weights of shape {:?}",
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
