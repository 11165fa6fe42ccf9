//! Rounding of activations (the inputs of a layer) to int8, for products with int8 and int4
//! weights.
//!
//! Each row of activations is divided into blocks of 64 values. A block has a single scale, which
//! is its largest magnitude divided by 127. Each value is approximated by `scale * byte`, where
//! `byte` is an integer from -127 to 127.

use multiversion::multiversion;

use crate::elementwise::math::ROUND;

/// Number of neighboring activations that share a scale. Rows of weights are padded to a multiple
/// of this number.
pub(crate) const BLOCK: usize = 64;
/// Number of neighboring activations whose bytes are summed in one element of
/// [`ActivationBlock::sums`]. It is also the number of int4 weights that share a scale.
pub(crate) const GROUP: usize = 32;
/// Threshold for the largest magnitude of a block. If the magnitude is smaller, all values of the
/// block are rounded to 0, because dividing 127 by a number close to 0 could overflow.
const TINY: f32 = 1e-30;

/// The values of four neighboring columns. The instruction `vpdpbusd`, for example, multiplies four
/// weights by four activations and adds up the products.
pub(crate) type Quad<T> = [T; 4];

/// The activations of a row in 64 columns, rounded to int8.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ActivationBlock {
    pub(crate) quads: [Quad<i8>; BLOCK / 4],
    /// Scale of the block. An activation is approximately its byte multiplied by this scale.
    pub(crate) scale: f32,
    /// Sums of the bytes in each group of 32 columns. Weights are stored with a constant offset,
    /// and the kernels use these sums to subtract the contribution of the offset from a dot
    /// product.
    pub(crate) sums: [i32; BLOCK / GROUP],
}

/// Rounds the activations `x` of a row to int8 and returns them in blocks of 64 values. If the
/// length of `x` isn't a multiple of 64, the last block is padded with zeros.
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

/// Rounds `x` to int8, writes the bytes to the beginning of `out`, and returns their scale, which
/// is the largest magnitude divided by 127.
///
/// If all magnitudes are less than [`TINY`], the bytes and the returned scale are 0. If `x`
/// contains NaN or an infinity, the returned scale isn't finite.
#[multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
pub(crate) fn quantise(x: &[f32], out: &mut [i8]) -> f32 {
    // This loop finds the largest magnitude by comparing the bits of the magnitudes as integers,
    // which gives the same order, with NaN above infinity. The maximum starts at 0 so that the
    // compiler vectorizes the loop. An iterator's `max` would treat the first value separately.
    let magnitudes = x.iter().map(|x| x.abs().to_bits());
    let largest = f32::from_bits(magnitudes.fold(0, u32::max));
    // If `largest` is NaN, this comparison is false, so an input that contains NaN isn't rounded to
    // 0.
    if largest < TINY {
        out.fill(0);
        return 0.0;
    }
    let inverse = 127.0 / largest;
    for (out, x) in out.iter_mut().zip(x) {
        // The lowest bits of the sum are the rounded integer.
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
