//! Dot products of int8 weights and int8 activations. The products of weights and activations are
//! summed exactly, as integers. Each sum is then converted to `f32` and multiplied by the scale of
//! the activations.
//!
//! An output is the scaled dot product of a row of weights `w` and a row of activations `x`,
//! `y = scale_w sum_b scale_x[b] sum_(i in b) w_i x_i`. Here, `b` is a block of 64 columns, in
//! which the activations have the scale `scale_x[b]`, and `scale_w` is the scale of the whole row
//! of weights.
//!
//! The VNNI instruction `vpdpbusd` multiplies unsigned bytes by signed bytes, so an offset of 128
//! is added to each weight before it is stored. The offset would increase the sum of a block by
//! `128 * sum_i x_i`. To compensate, the sum starts at `-128 * sum_i x_i` instead of 0, except in
//! the AVX2 version, which removes the offset from the weights. The versions for VNNI, AVX2 and
//! other CPUs perform the floating-point operations in the same order, so their results have the
//! same bits.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
#[cfg(target_arch = "x86_64")]
use std::mem::transmute_copy;

use crate::decoding::activations::{self, ActivationBlock, BLOCK, Quad};
use crate::decoding::packed_matrix::{PackedMatrix, ROWS};
#[cfg(target_arch = "x86_64")]
use crate::decoding::panels::{Dots, halves, of_each, word};
use crate::decoding::panels::{Panels, WeightBlock};
#[cfg(target_arch = "x86_64")]
use crate::prefetch;

/// A matrix of int8 weights, in which each row has an `f32` scale. It needs about a quarter as much
/// memory as a matrix of `f32` weights.
///
/// The scale of a row is the largest magnitude of its weights divided by 127. Each weight is
/// approximated by the scale multiplied by an integer from -127 to 127. Products also round the
/// activations to int8, with one scale for each block of 64 columns.
pub type Int8Matrix = PackedMatrix<Panels<Block>>;

/// Offset that is added to each int8 weight before it is stored. The weights from -127 to 127 are
/// thus stored as unsigned bytes from 1 to 255. For example, the weight 0 is stored as 128.
const OFFSET: u8 = 128;

/// The weights of a block of 16 rows and 64 columns, stored in groups of four columns. In each
/// group, the four weights of row 0 are followed by the four weights of row 1, and so on.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
pub struct Block([[Quad<u8>; ROWS]; BLOCK / 4]);

impl Block {
    /// Stores the int8 weights of a row in this block. None of them may be -128, because the AVX2
    /// version negates weights and 128 doesn't fit in an `i8`.
    fn set_bytes(&mut self, row: usize, weights: &[i8; BLOCK]) {
        debug_assert!(!weights.contains(&i8::MIN));
        for (rows, quad) in self.0.iter_mut().zip(weights.as_chunks().0) {
            rows[row] = quad.map(|w: i8| w.cast_unsigned().wrapping_add(OFFSET));
        }
    }
}

impl WeightBlock for Block {
    const ZEROS: Self = Self([[[OFFSET; 4]; ROWS]; BLOCK / 4]);

    fn set_row(blocks: &mut [Self], row: usize, weights: &[f32]) -> f32 {
        // The padding at the end of the row consists of zeros.
        let mut bytes = vec![0; blocks.len() * BLOCK];
        let scale = activations::quantise(weights, &mut bytes);
        for (block, bytes) in blocks.iter_mut().zip(bytes.as_chunks().0) {
            block.set_bytes(row, bytes);
        }
        scale
    }

    fn weight(&self, row: usize, column: usize) -> f32 {
        f32::from(self.0[column / 4][row][column % 4]) - f32::from(OFFSET)
    }

    fn dots_plain(x: &[ActivationBlock], w: &[Self]) -> [f32; ROWS] {
        let mut y = [0.0; ROWS];
        for (x, w) in x.iter().zip(w) {
            let mut sums = [start(x); ROWS];
            for (x, w) in x.quads.iter().zip(&w.0) {
                for (sum, w) in sums.iter_mut().zip(w) {
                    for (&x, &w) in x.iter().zip(w) {
                        *sum += i32::from(w) * i32::from(x);
                    }
                }
            }
            for (y, sum) in y.iter_mut().zip(sums) {
                *y += sum as f32 * x.scale;
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
        let mut y = [[_mm512_setzero_ps(); T]; R];
        for b in 0..w[0].len() {
            let (x, w) = (of_each(x, b), of_each(w, b));
            let mut dots = [[_mm512_setzero_si512(); T]; R];
            for r in 0..R {
                dots[r] = [_mm512_set1_epi32(start(x[r])); T];
            }
            for q in 0..BLOCK / 4 {
                for t in 0..T {
                    let w = &w[t].0[q];
                    prefetch::stream(w, ahead);
                    // SAFETY: `w` is a reference to 16 groups of four bytes, so 64 bytes are
                    // readable.
                    let w = unsafe { _mm512_loadu_si512(w.as_ptr().cast()) };
                    for r in 0..R {
                        let x = _mm512_set1_epi32(word(x[r].quads[q]));
                        dots[r][t] = _mm512_dpbusd_epi32(dots[r][t], w, x);
                    }
                }
            }
            for r in 0..R {
                let scale = _mm512_set1_ps(x[r].scale);
                for t in 0..T {
                    let scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(dots[r][t]), scale);
                    y[r][t] = _mm512_add_ps(y[r][t], scaled);
                }
            }
        }
        // SAFETY: The return type [`Dots`] is an array of `R * T * 16` values of type `f32`. The
        // array `y` consists of `R * T` vector registers with 16 such values each, so it has the
        // same size and layout.
        unsafe { transmute_copy(&y) }
    }

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    unsafe fn dots_avx2<const R: usize, const T: usize>(
        x: [&[ActivationBlock]; R],
        w: [&[Self]; T],
    ) -> Dots<R, T> {
        let mut y = [[[_mm256_setzero_ps(); 2]; T]; R];
        for b in 0..w[0].len() {
            let (x, w) = (of_each(x, b), of_each(w, b));
            let mut dots = [[[_mm256_setzero_si256(); 2]; T]; R];
            for q in 0..BLOCK / 4 {
                for t in 0..T {
                    let w = &w[t].0[q];
                    prefetch::panel::<T, _>(w);
                    let w = halves(w);
                    for r in 0..R {
                        let x = _mm256_set1_epi32(word(x[r].quads[q]));
                        for (dots, w) in dots[r][t].iter_mut().zip(w) {
                            *dots = _mm256_add_epi32(*dots, quads(x, w));
                        }
                    }
                }
            }
            for r in 0..R {
                let scale = _mm256_set1_ps(x[r].scale);
                let y = y[r].as_flattened_mut().iter_mut();
                for (y, dots) in y.zip(dots[r].as_flattened()) {
                    let scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(*dots), scale);
                    *y = _mm256_add_ps(*y, scaled);
                }
            }
        }
        // SAFETY: The return type [`Dots`] is an array of `R * T * 16` values of type `f32`. The
        // array `y` consists of `R * T * 2` vector registers with eight such values each, so it has
        // the same size and layout.
        unsafe { transmute_copy(&y) }
    }
}

/// Returns the value at which the integer dot product of a block of activations `x` and a block of
/// int8 weights starts. Each stored weight is too large by [`OFFSET`], which increases the dot
/// product by `OFFSET` times the sum of the activations. The dot product therefore starts at minus
/// this amount instead of 0.
fn start(x: &ActivationBlock) -> i32 {
    -i32::from(OFFSET) * x.sums.iter().sum::<i32>()
}

/// Returns the sum of the four products of each quad (four neighboring columns) of the activations
/// `x` and the weights. `stored` contains the weights with their offset.
///
/// The AVX2 instruction `vpmaddubsw` multiplies unsigned bytes by signed bytes. The function
/// therefore passes the magnitudes of the activations to it and negates each weight whose
/// activation is negative. The instruction adds neighboring products in pairs and returns the sums
/// as 16-bit integers. The sums can't overflow, because `2 * 127 * 127` is less than 2^15.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx2")]
fn quads(x: __m256i, stored: __m256i) -> __m256i {
    let w = _mm256_xor_si256(stored, _mm256_set1_epi8(OFFSET.cast_signed()));
    let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(w, x));
    _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoding::panels::dots;
    use crate::decoding::panels::tests::check_forms;

    #[test]
    fn every_instruction_set_gives_the_bits_of_the_plain_loop() {
        check_forms(|panel, b| {
            let mut block = Block::ZEROS;
            for row in 0..ROWS {
                let at = |i| panel * 41 + b * 89 + (row * BLOCK + i) * 57;
                let weight = |i| ((at(i) % 255) as i16 - 127) as i8;
                block.set_bytes(row, &std::array::from_fn(weight));
            }
            block
        });
    }

    #[test]
    fn extreme_bytes_do_not_saturate() {
        let x = activations::blocks(&[1.0; BLOCK]);
        let expected = 64.0 * 127.0 * 127.0 * (1.0 / 127.0);
        for y in dots([&x], [&[Block([[[255; 4]; ROWS]; BLOCK / 4])]])[0][0] {
            assert!((y - expected).abs() < 1e-2, "{y} not {expected}");
        }
    }
}
