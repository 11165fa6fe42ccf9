//! Dot products of int4 weights and int8 activations. The products of weights and activations are
//! summed exactly, as integers. Each sum is then converted to `f32` and multiplied by the scales of
//! the weights and activations.
//!
//! An output is the scaled dot product of a row of weights `w` and a row of activations `x`,
//! `y = sum_g scale_w[g] scale_x[b] sum_(i in g) w_i x_i`. Here, `g` is a group of 32 columns, in
//! which the weights have the scale `scale_w[g]`. Two consecutive groups form a block `b` of 64
//! columns, in which the activations have the scale `scale_x[b]`.
//!
//! Each weight is stored as a nibble (four bits) after an offset of 8 has been added to it. The
//! offset increases the sum of a group by `8 * sum_i x_i`. To compensate, the sum starts at
//! `-8 * sum_i x_i` instead of 0. The versions for VNNI, AVX2 and other CPUs perform the
//! floating-point operations in the same order, so their results have the same bits.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
#[cfg(target_arch = "x86_64")]
use std::mem::transmute_copy;

use half::f16;
use multiversion::multiversion;

use crate::decoding::activations::{ActivationBlock, BLOCK, GROUP, Quad};
use crate::decoding::packed_matrix::{PackedMatrix, ROWS};
#[cfg(target_arch = "x86_64")]
use crate::decoding::panels::{Dots, halves, of_each, word};
use crate::decoding::panels::{Panels, WeightBlock};
use crate::elementwise::math::ROUND;
use crate::elementwise::reduce::{LANES, sum_of_lanes};
#[cfg(target_arch = "x86_64")]
use crate::prefetch;
use crate::weight::Weight;

/// A matrix of int4 weights, in which 32 neighboring weights of a row share an f16 scale. A weight
/// takes 4.5 bits on average, so the matrix needs about a seventh as much memory as a matrix of
/// `f32` weights.
///
/// The format corresponds to llama.cpp's `q4_0`, except that each scale is chosen from several
/// candidates to minimize the squared rounding error of the weights. As with
/// [`Int8Matrix`](crate::Int8Matrix), products round the activations to int8.
pub type Int4Matrix = PackedMatrix<Panels<Block>>;

/// Offset that is added to each int4 weight before it is stored. The weights from -8 to 7 are thus
/// stored as numbers from 0 to 15. For example, the weight 0 is stored as 8.
const OFFSET: u8 = 8;
/// Number of quads (four neighboring weights of a row) in half of a group of 32 weights. The group
/// is stored in 16 bytes. The low four bits of these bytes contain the first half of the group, and
/// the high four bits contain the second half.
const QUADS: usize = GROUP / 8;

/// The weights of a block of 16 rows and 64 columns, together with their scales. A block occupies
/// nine cache lines of 64 bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
pub struct Block {
    /// Nibbles of the weights, in groups of 32 columns. Each byte contains two weights of the same
    /// row. The low nibble is a weight from the first 16 columns of the group, and the high nibble
    /// is a weight from the last 16 columns. Four bytes of row 0 are followed by four bytes of row
    /// 1, and so on.
    nibbles: [[[Quad<u8>; ROWS]; QUADS]; BLOCK / GROUP],
    /// Scales by which the stored int4 weights are multiplied. There is one scale for each group of
    /// 32 columns of each row.
    scales: [[f16; ROWS]; BLOCK / GROUP],
}

impl Block {
    /// Rounds up to 64 weights to int4 and stores them, together with their scales, at the
    /// beginning of the given row of this block. If `weights` has fewer elements, the remaining
    /// weights of the row aren't changed.
    fn set_weights(&mut self, row: usize, weights: &[f32]) {
        for (g, weights) in weights.chunks(GROUP).enumerate() {
            let scale = best_scale(weights);
            self.scales[g][row] = scale;
            for (i, &w) in weights.iter().enumerate() {
                let nibble = nearest(w, inverse(scale)) as i8 + OFFSET as i8;
                let (q, shift) = (i / 4 % QUADS, i / (4 * QUADS) * 4);
                let byte = &mut self.nibbles[g][q][row][i % 4];
                *byte &= !(15 << shift);
                *byte |= nibble.cast_unsigned() << shift;
            }
        }
    }
}

impl WeightBlock for Block {
    const ZEROS: Self = Self {
        nibbles: [[[[OFFSET | OFFSET << 4; 4]; ROWS]; QUADS]; BLOCK / GROUP],
        scales: [[f16::ZERO; ROWS]; BLOCK / GROUP],
    };

    fn set_row(blocks: &mut [Self], row: usize, weights: &[f32]) -> f32 {
        for (block, weights) in blocks.iter_mut().zip(weights.chunks(BLOCK)) {
            block.set_weights(row, weights);
        }
        1.0 // Each group has its own scale.
    }

    fn weight(&self, row: usize, column: usize) -> f32 {
        let (g, i) = (column / GROUP, column % GROUP);
        let byte = self.nibbles[g][i / 4 % QUADS][row][i % 4];
        let nibble = byte >> (i / (4 * QUADS) * 4) & 15;
        self.scales[g][row].value() * (f32::from(nibble) - f32::from(OFFSET))
    }

    fn dots_plain(x: &[ActivationBlock], w: &[Self]) -> [f32; ROWS] {
        let mut y = [0.0; ROWS];
        for (x, w) in x.iter().zip(w) {
            let groups = x.quads.as_chunks::<{ 2 * QUADS }>().0;
            for (g, (x_quads, nibbles)) in groups.iter().zip(&w.nibbles).enumerate() {
                let mut sums = [start(x, g); ROWS];
                for (q, nibbles) in nibbles.iter().enumerate() {
                    for (sum, nibbles) in sums.iter_mut().zip(nibbles) {
                        for (i, nibbles) in nibbles.iter().enumerate() {
                            *sum += i32::from(nibbles & 15) * i32::from(x_quads[q][i]);
                            *sum += i32::from(nibbles >> 4) * i32::from(x_quads[QUADS + q][i]);
                        }
                    }
                }
                for ((y, sum), scale) in y.iter_mut().zip(sums).zip(w.scales[g]) {
                    *y += sum as f32 * (scale.value() * x.scale);
                }
            }
        }
        y
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512vnni")]
    unsafe fn dots_vnni<const R: usize, const T: usize>(
        x: [&[ActivationBlock]; R],
        w: [&[Self]; T],
    ) -> Dots<R, T> {
        let ahead = prefetch::distance_of_panels();
        let nibble = _mm512_set1_epi32(0x0f0f_0f0f);
        let mut y = [[_mm512_setzero_ps(); T]; R];
        for b in 0..w[0].len() {
            let (x, w) = (of_each(x, b), of_each(w, b));
            for w in w {
                prefetch::stream(&w.scales, ahead);
            }
            for g in 0..BLOCK / GROUP {
                let mut dots = [[_mm512_setzero_si512(); T]; R];
                for r in 0..R {
                    dots[r] = [_mm512_set1_epi32(start(x[r], g)); T];
                }
                for q in 0..QUADS {
                    for t in 0..T {
                        let nibbles = &w[t].nibbles[g][q];
                        prefetch::stream(nibbles, ahead);
                        // SAFETY: `nibbles` is a reference to 16 groups of four bytes, so 64 bytes
                        // are readable.
                        let both = unsafe { _mm512_loadu_si512(nibbles.as_ptr().cast()) };
                        let low = _mm512_and_si512(both, nibble);
                        let high = _mm512_and_si512(_mm512_srli_epi32::<4>(both), nibble);
                        for (w, q) in [(low, q), (high, QUADS + q)] {
                            for r in 0..R {
                                let x = word(x[r].quads[2 * QUADS * g + q]);
                                let x = _mm512_set1_epi32(x);
                                dots[r][t] = _mm512_dpbusd_epi32(dots[r][t], w, x);
                            }
                        }
                    }
                }
                for t in 0..T {
                    // SAFETY: The load reads 32 bytes. All of them are readable, because
                    // `scales[g]` contains the 16 scales of a group of columns, and each scale is
                    // an `f16` of two bytes.
                    let scales = unsafe { _mm256_loadu_si256(w[t].scales[g].as_ptr().cast()) };
                    let scales = _mm512_cvtph_ps(scales);
                    for r in 0..R {
                        let scales = _mm512_mul_ps(scales, _mm512_set1_ps(x[r].scale));
                        let scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(dots[r][t]), scales);
                        y[r][t] = _mm512_add_ps(y[r][t], scaled);
                    }
                }
            }
        }
        // SAFETY: The return type [`Dots`] is an array of `R * T * 16` values of type `f32`. The
        // array `y` consists of `R * T` vector registers with 16 such values each, so it has the
        // same size and layout.
        unsafe { transmute_copy(&y) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,f16c")]
    unsafe fn dots_avx2<const R: usize, const T: usize>(
        x: [&[ActivationBlock]; R],
        w: [&[Self]; T],
    ) -> Dots<R, T> {
        let nibble = _mm256_set1_epi8(15);
        let mut y = [[[_mm256_setzero_ps(); 2]; T]; R];
        for b in 0..w[0].len() {
            let (x, w) = (of_each(x, b), of_each(w, b));
            for w in w {
                prefetch::panel::<T, _>(&w.scales);
            }
            for g in 0..BLOCK / GROUP {
                // Each row of weights has two lanes of 16 bits. One lane sums the products of
                // columns 0 and 1 of every quad in the group, and the other lane sums the products
                // of columns 2 and 3. A lane sums only 16 products, so it can't overflow, because
                // `16 * 15 * 127` is less than 2^15.
                let mut pairs = [[[_mm256_setzero_si256(); 2]; T]; R];
                for q in 0..QUADS {
                    for t in 0..T {
                        let nibbles = &w[t].nibbles[g][q];
                        prefetch::panel::<T, _>(nibbles);
                        let [first, last] = halves(nibbles);
                        let low = [
                            _mm256_and_si256(first, nibble),
                            _mm256_and_si256(last, nibble),
                        ];
                        let high = [
                            _mm256_and_si256(_mm256_srli_epi16::<4>(first), nibble),
                            _mm256_and_si256(_mm256_srli_epi16::<4>(last), nibble),
                        ];
                        for (w, q) in [(low, q), (high, QUADS + q)] {
                            for r in 0..R {
                                let x = word(x[r].quads[2 * QUADS * g + q]);
                                let x = _mm256_set1_epi32(x);
                                for (pairs, w) in pairs[r][t].iter_mut().zip(w) {
                                    *pairs = _mm256_add_epi16(*pairs, _mm256_maddubs_epi16(w, x));
                                }
                            }
                        }
                    }
                }
                for t in 0..T {
                    // SAFETY: The two loads read 32 bytes. All of them are readable, because
                    // `scales[g]` contains the 16 scales of a group of columns, and each scale is
                    // an `f16` of two bytes.
                    let scales = unsafe {
                        let scales = w[t].scales[g].as_ptr().cast::<__m128i>();
                        [_mm_loadu_si128(scales), _mm_loadu_si128(scales.add(1))]
                    };
                    let scales = [_mm256_cvtph_ps(scales[0]), _mm256_cvtph_ps(scales[1])];
                    for r in 0..R {
                        let start = _mm256_set1_epi32(start(x[r], g));
                        let y = y[r][t].iter_mut().zip(pairs[r][t]);
                        for ((y, pairs), scales) in y.zip(scales) {
                            let dots = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
                            let dots = _mm256_cvtepi32_ps(_mm256_add_epi32(dots, start));
                            let scales = _mm256_mul_ps(scales, _mm256_set1_ps(x[r].scale));
                            *y = _mm256_add_ps(*y, _mm256_mul_ps(dots, scales));
                        }
                    }
                }
            }
        }
        // SAFETY: The return type [`Dots`] is an array of `R * T * 16` values of type `f32`. The
        // array `y` consists of `R * T * 2` vector registers with eight such values each, so it has
        // the same size and layout.
        unsafe { transmute_copy(&y) }
    }
}

/// Tries several scales for a group of weights and returns the scale that minimizes the squared
/// rounding error of the weights.
///
/// The first candidate maps the weight with the largest magnitude to -8, because the range from -8
/// to 7 extends further on the negative side. The other candidates map this weight to -7.5, -7,
/// -8.5, 7 and 7.5, which are then rounded to integers in this range.
fn best_scale(weights: &[f32]) -> f16 {
    let largest = weights.iter().copied().fold(0.0f32, |largest, w| {
        if w.abs() > largest.abs() || w.is_nan() {
            w
        } else {
            largest
        }
    });
    let mut best = (f32::INFINITY, f16::nearest(largest / -8.0));
    for eighths in [-8.0, -7.5, -7.0, -8.5, 7.0, 7.5] {
        let scale = f16::nearest(largest / eighths);
        let error = squared_error(weights, scale.value(), inverse(scale));
        if error < best.0 {
            best = (error, scale);
        }
    }
    best.1
}

#[multiversion(targets("x86_64+avx512f", "x86_64+avx2"))]
fn squared_error(weights: &[f32], scale: f32, inverse: f32) -> f32 {
    let mut lanes = [0.0f32; LANES];
    for weights in weights.chunks(LANES) {
        for (lane, &w) in lanes.iter_mut().zip(weights) {
            let error = w - scale * nearest(w, inverse);
            *lane += error * error;
        }
    }
    sum_of_lanes(lanes)
}

/// Returns `1 / scale`, or 0 if the scale is 0.
fn inverse(scale: f16) -> f32 {
    if scale.value() == 0.0 {
        0.0
    } else {
        1.0 / scale.value()
    }
}

/// Returns the integer from -8 to 7 that is nearest to `w / scale`, where `inverse` is `1 / scale`.
/// For NaN, it returns -8.
#[inline(always)]
fn nearest(w: f32, inverse: f32) -> f32 {
    let scaled = w * inverse;
    // If a weight is NaN, `scaled` is NaN, and this comparison is false. The weight is therefore
    // rounded to -8.
    let low = if scaled > -8.0 { scaled } else { -8.0 };
    let both = if low < 7.0 { low } else { 7.0 };
    (both + ROUND) - ROUND
}

/// Returns the value at which the integer dot product of group `g` of the activations `x` and a
/// group of int4 weights starts. Each stored weight is too large by [`OFFSET`], which increases the
/// dot product by `OFFSET` times the sum of the activations. The dot product therefore starts at
/// minus this amount instead of 0.
fn start(x: &ActivationBlock, g: usize) -> i32 {
    -i32::from(OFFSET) * x.sums[g]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoding::activations;
    use crate::decoding::panels::dots;
    use crate::decoding::panels::tests::check_forms;

    /// Returns the weights of a row of the block.
    fn row(block: &Block, row: usize) -> [f32; BLOCK] {
        std::array::from_fn(|i| block.weight(row, i))
    }

    #[test]
    fn every_instruction_set_gives_the_bits_of_the_plain_loop() {
        check_forms(|panel, b| {
            let mut block = Block::ZEROS;
            for row in 0..ROWS {
                let at = |i| panel * 41 + b * 89 + row * 31 + i * 57;
                let weight = |i| (at(i) % 97) as f32 / 48.0 - 1.0;
                block.set_weights(row, &std::array::from_fn::<_, BLOCK, _>(weight));
            }
            block
        });
    }

    #[test]
    fn extreme_numbers_do_not_saturate() {
        let x = activations::blocks(&[1.0; BLOCK]);
        let mut w = Block::ZEROS;
        w.nibbles = [[[[255; 4]; ROWS]; QUADS]; BLOCK / GROUP];
        w.scales = [[f16::ONE; ROWS]; BLOCK / GROUP];
        for y in dots([&x], [&[w]])[0][0] {
            assert!((y - 64.0 * 7.0).abs() < 1e-3, "{y}");
        }
    }

    #[test]
    fn weights_are_within_half_a_step_or_at_the_end_of_the_range() {
        let weights: Vec<f32> = (0..50)
            .map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0)
            .collect();
        let mut block = Block::ZEROS;
        block.set_weights(3, &weights);
        for (i, &w) in weights.iter().enumerate() {
            let step = block.scales[i / GROUP][3].value().abs();
            let got = row(&block, 3)[i];
            assert!((got - w).abs() < 0.6 * step, "{w}: {got}");
        }
        assert!(row(&block, 3)[50..].iter().all(|&w| w == 0.0));
        block.set_weights(1, &[0.0; BLOCK]);
        assert_eq!(row(&block, 1), [0.0; BLOCK]);
        assert_eq!(row(&block, 2), [0.0; BLOCK]);
        block.set_weights(2, &[1.0, f32::NAN]);
        assert!(row(&block, 2)[0].is_nan());
    }

    #[test]
    fn a_group_of_few_values_is_exact() {
        let weights: [f32; GROUP] = std::array::from_fn(|i| (i % 16) as f32 - 8.0);
        let mut block = Block::ZEROS;
        block.set_weights(15, &weights);
        assert_eq!(row(&block, 15)[..GROUP], weights);
    }
}
