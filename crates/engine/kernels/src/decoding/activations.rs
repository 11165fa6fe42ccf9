//! Activations in 8 bits, for products with weights of 8 or 4 bits.

use multiversion::multiversion;

use crate::elementwise::math::ROUND;

/// Columns that share a scale of activations; rows of weights are padded to a multiple of it.
pub(crate) const BLOCK: usize = 64;
/// Columns whose activations' sum is known.
pub(crate) const GROUP: usize = 32;
/// Below this a block's largest number counts as 0: its inverse would overflow.
const TINY: f32 = 1e-30;

/// Four columns, which one instruction multiplies.
pub(crate) type Quad<T> = [T; 4];

/// 64 columns of a row of activations.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ActivationBlock {
    pub(crate) quads: [Quad<i8>; BLOCK / 4],
    /// value = scale * byte
    pub(crate) scale: f32,
    /// The sum of each group's bytes, which takes off again the number that is added to each stored
    /// weight.
    pub(crate) sums: [i32; BLOCK / GROUP],
}

/// The blocks of a row, with zeros behind its end, each rounded to multiples of its largest
/// magnitude / 127.
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

/// Writes `x / scale` to the first bytes of `out` and returns `scale = max |x| / 127`; NaN or an
/// infinity in `x` gives a scale that is not finite.
#[multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
pub(crate) fn quantise(x: &[f32], out: &mut [i8]) -> f32 {
    // Compares bits, whose order is the order of magnitudes with NaN above all: this maximum
    // vectorises. It starts from 0, because `max` would treat the first number separately.
    let magnitudes = x.iter().map(|x| x.abs().to_bits());
    let largest = f32::from_bits(magnitudes.fold(0, u32::max));
    // Written so that NaN is not taken for tiny.
    if largest < TINY {
        out.fill(0);
        return 0.0;
    }
    let inverse = 127.0 / largest;
    for (out, x) in out.iter_mut().zip(x) {
        *out = (x * inverse + ROUND).to_bits() as i8; // the lowest bits of such a sum
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
