//! Rounding of activations (the inputs of a layer) to int8, for products with int8 and int4
//! weights.
//!
//! Each row of activations is divided into blocks of 64 values. All values of a block share a
//! scale, which is the largest magnitude in the block divided by 127. Each value is approximated by
//! `scale * byte`, where `byte` is an integer from -127 to 127.

use multiversion::multiversion;

use crate::elementwise::math::ROUND;

/// Number of neighboring activations that share a scale. Rows of int8 and int4 weights are padded
/// to a multiple of this number, so that they can be divided into blocks of the same size.
pub(crate) const BLOCK: usize = 64;
/// Number of neighboring activations in a group. Each element of [`ActivationBlock::sums`] is the
/// sum of the bytes of one group. Int4 weights have one scale for each group.
pub(crate) const GROUP: usize = 32;
/// Threshold below which the largest magnitude of a block is treated as 0. For smaller magnitudes,
/// the factor by which the activations are multiplied, `127 / magnitude`, could overflow.
const TINY: f32 = 1e-30;

/// Four neighboring values of a row. Weights and activations are stored in groups of four because
/// instructions such as `vpdpbusd` multiply four weights by four activations and add up the
/// products.
pub(crate) type Quad<T> = [T; 4];

/// A block of 64 neighboring activations of a row, rounded to int8.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ActivationBlock {
    pub(crate) quads: [Quad<i8>; BLOCK / 4],
    /// Scale that all 64 activations of the block share. Each activation is approximated by its
    /// int8 value multiplied by this scale.
    pub(crate) scale: f32,
    /// Sum of the bytes in each group of 32 columns. Weights are stored with a constant offset,
    /// which changes a dot product by the offset multiplied by the sum of the activations. The
    /// kernels use these sums to cancel this change.
    pub(crate) sums: [i32; BLOCK / GROUP],
}

/// Rounds a row of activations `x` to int8 and returns it as blocks of 64 values. If the length of
/// `x` isn't a multiple of 64, the last block is padded with zeros.
pub(crate) fn blocks(x: &[f32]) -> Vec<ActivationBlock> {
    let of_block = |x: &[f32]| {
        let mut bytes = [0; BLOCK];
        let scale = quantise(x, &mut bytes);
        let sum = |group: &[i8; GROUP]| group.iter().map(|&x| i32::from(x)).sum();
        let (quads, _) = bytes.as_chunks();
        let (groups, _) = bytes.as_chunks();
        ActivationBlock {
            quads: std::array::from_fn(|q| quads[q]),
            scale,
            sums: std::array::from_fn(|g| sum(&groups[g])),
        }
    };
    x.chunks(BLOCK).map(of_block).collect()
}

/// Rounds the values in `x` to int8, writes the resulting bytes to the beginning of `out`, and
/// returns the scale of the bytes, which is the largest magnitude in `x` divided by 127.
///
/// If all magnitudes in `x` are less than [`TINY`], the scale and all bytes in `out` are set to 0.
/// If `x` contains NaN or an infinity, the returned scale isn't finite.
#[multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
pub(crate) fn quantise(x: &[f32], out: &mut [i8]) -> f32 {
    // This loop finds the largest magnitude by comparing the bits of the magnitudes as integers.
    // The integers have the same order as the magnitudes, except that NaN is above infinity. The
    // maximum starts at 0 so that the compiler vectorizes the loop. With `Iterator::max`, it would
    // process the first value separately.
    let magnitudes = x.iter().map(|x| x.abs().to_bits());
    let largest = f32::from_bits(magnitudes.fold(0, u32::max));
    // If the activations in `x` contain NaN, `largest` is NaN, and this comparison is false. The
    // scale that is returned is then also NaN, so the NaN isn't lost.
    if largest < TINY {
        out.fill(0);
        return 0.0;
    }
    let inverse = 127.0 / largest;
    for (out, x) in out.iter_mut().zip(x) {
        // Adding the constant `ROUND` rounds the scaled activation to the nearest integer. The
        // lowest 8 bits of the sum are the int8 value.
        *out = (x * inverse + ROUND).to_bits() as i8;
    }
    largest / 127.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantised_numbers_are_within_half_a_step() {
        let x: Vec<f32> = (0..BLOCK).map(|i| (i as f32 - 20.3) * 0.37).collect();
        let mut bytes = [0; BLOCK];
        let scale = quantise(&x, &mut bytes);
        for (x, byte) in x.iter().zip(bytes) {
            assert!(
                (x - scale * f32::from(byte)).abs() <= scale * 0.500_01,
                "{x}"
            );
        }
        assert_eq!(quantise(&[0.0; 4], &mut bytes), 0.0);
        assert_eq!(quantise(&[1e-40; 4], &mut bytes), 0.0);
        assert!(!quantise(&[1.0, f32::NAN], &mut bytes).is_finite());
    }
}
