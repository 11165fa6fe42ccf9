//! Activations in 8 bits, for products with weights of 8 or 4 bits, and how such weights lie in memory.
//!
//! 16 rows of weights are interleaved, four columns of each row after the other, as AVX-512 VNNI's `vpdpbusd` multiplies 16 times four bytes and adds each four products to a lane: a lane is a row, and nothing is left to be summed across lanes.

use multiversion::multiversion;
use ndarray::{ArrayRef2, ArrayView1};

use crate::gemv::for_each_task;

/// Columns that share a scale of activations; rows of weights are padded to a multiple of it.
pub(crate) const BLOCK: usize = 64;
/// Columns whose activations' sum is known.
pub(crate) const GROUP: usize = 32;
/// Rows of weights that are interleaved; the last ones may be missing, and are zeros then.
pub(crate) const ROWS: usize = 16;
/// 1.5 * 2^23: adding and subtracting it rounds to the nearest integer.
pub(crate) const ROUND: f32 = 12_582_912.0;
/// Below this a block's largest number counts as 0: its inverse would overflow.
const TINY: f32 = 1e-30;

/// Four columns, as they are multiplied at once.
pub(crate) type Quad<T> = [T; 4];

/// Four activations as a vector instruction takes them; spelled out, as an array's `map` remained a call in the loops of some programs.
#[cfg(target_arch = "x86_64")]
#[inline]
pub(crate) fn word([a, b, c, d]: Quad<i8>) -> i32 {
    i32::from_ne_bytes([a as u8, b as u8, c as u8, d as u8])
}

/// One row of activations, in blocks of 64 columns, with zeros behind its end.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Activations {
    pub(crate) blocks: Vec<ActivationBlock>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ActivationBlock {
    pub(crate) quads: [Quad<i8>; BLOCK / 4],
    /// value = scale * byte
    pub(crate) scale: f32,
    /// Of each group's bytes: what takes off again the number that is added to each stored weight.
    pub(crate) sums: [i32; BLOCK / GROUP],
}

/// `y += W x^T` (outputs, rows) for `x` (rows, inputs) of one row at least, by `dots(panel, row of x, blocks of each panel)` for T panels of 16 rows of W, the first of them being `panel`; `w` has a panel's blocks side by side.
pub(crate) fn add_dots<B: Sync, const T: usize>(
    x: &ArrayRef2<f32>,
    w: &[B],
    y: &mut [f32],
    dots: impl Fn(usize, &Activations, [&[B]; T]) -> [[f32; ROWS]; T] + Sync,
) {
    let n = x.ncols().div_ceil(BLOCK);
    let of_row = |row: ArrayView1<f32>| Activations::quantise(&row.to_vec());
    let x: Vec<_> = x.rows().into_iter().map(of_row).collect();
    let unit = T * ROWS * x.len();
    for_each_task(y, unit, T * n * size_of::<B>(), |first, y| {
        let units = w[first * T * n..].chunks(T * n).enumerate();
        for ((i, w), y) in units.zip(y.chunks_mut(unit)) {
            // The last unit may have fewer; there the last panel is multiplied again, and not added.
            let last = w.len() / n - 1;
            let panels = std::array::from_fn(|t| &w[t.min(last) * n..][..n]);
            for (r, x_row) in x.iter().enumerate() {
                let dots = dots((first + i) * T, x_row, panels);
                let y = y[r..].iter_mut().step_by(x.len());
                y.zip(dots.as_flattened()).for_each(|(y, dot)| *y += dot);
            }
        }
    });
}

impl Activations {
    /// Rounds each block to multiples of its largest magnitude / 127.
    pub(crate) fn quantise(x: &[f32]) -> Self {
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
        let blocks = x.chunks(BLOCK).map(of_block).collect();
        Self { blocks }
    }
}

/// Writes `x / scale` to the first bytes of `out` and returns `scale = max |x| / 127`; NaN or an infinity in `x` gives a scale that is not finite.
#[multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
pub(crate) fn quantise(x: &[f32], out: &mut [i8]) -> f32 {
    // As bits, whose order is that of the magnitudes, with NaN above all: such a maximum vectorises.
    let magnitudes = x.iter().map(|x| x.abs().to_bits());
    let largest = f32::from_bits(magnitudes.max().unwrap_or(0));
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
pub(crate) mod tests {
    use super::*;

    /// A name, and the dot products of 16 rows.
    pub(crate) type Form<B> = (&'static str, fn(&Activations, &[B]) -> [f32; ROWS]);

    /// That all forms give the bits of the plain one, for some numbers of blocks, `block(b)` being the one at `b`.
    pub(crate) fn check_forms<B>(
        plain: fn(&Activations, &[B]) -> [f32; ROWS],
        forms: &[Form<B>],
        block: impl Fn(usize) -> B,
    ) {
        for blocks in [1, 2, 12, 48] {
            let x: Vec<f32> = (0..blocks * BLOCK)
                .map(|i| ((i * 37 % 101) as f32 - 50.0) * (1.0 + i as f32 / 90.0))
                .collect();
            let x = Activations::quantise(&x);
            let w: Vec<B> = (0..blocks).map(&block).collect();
            let expected = plain(&x, &w);
            for (name, form) in forms {
                assert_eq!(form(&x, &w), expected, "{name}, {blocks} blocks");
            }
        }
    }

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
