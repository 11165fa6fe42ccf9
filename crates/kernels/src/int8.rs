//! Dot products of rows of 8-bit weights with 8-bit activations: exact in integers, scaled to f32.
//!
//! `y = scale_w sum_b scale_x[b] sum_(i in b) w_i x_i` over blocks b of 64, for one scale a weight row and one a block of activations.
//! Weights are stored with 128 added, as the instruction of AVX-512 VNNI multiplies unsigned by signed bytes; each sum starts at what takes that off again.
//! All three versions add the same numbers in the same order, so they agree bit for bit.

use crate::activations::{ActivationBlock, Activations, BLOCK, Quad, ROWS};

/// What is added to stored weights: a stored 128 is a weight of 0.
const OFFSET: u8 = 128;

/// 64 columns of 16 rows, four columns of each row after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C, align(64))]
pub(crate) struct Block([[Quad<u8>; ROWS]; BLOCK / 4]);

impl Block {
    pub(crate) const ZEROS: Self = Self([[[OFFSET; 4]; ROWS]; BLOCK / 4]);

    /// Weights of -128 are not allowed: they have no magnitude in 8 bits.
    pub(crate) fn set_row(&mut self, row: usize, weights: &[i8; BLOCK]) {
        debug_assert!(!weights.contains(&i8::MIN));
        for (rows, quad) in self.0.iter_mut().zip(weights.as_chunks().0) {
            rows[row] = quad.map(|w: i8| w.cast_unsigned().wrapping_add(OFFSET));
        }
    }

    pub(crate) fn row(&self, row: usize) -> [i8; BLOCK] {
        let mut weights = [0; BLOCK];
        for (quad, rows) in weights.as_chunks_mut().0.iter_mut().zip(&self.0) {
            *quad = rows[row].map(|stored| stored.wrapping_sub(OFFSET).cast_signed());
        }
        weights
    }
}

/// Where the sum of a block's products begins.
fn start(x: &ActivationBlock) -> i32 {
    -i32::from(OFFSET) * x.sums.iter().sum::<i32>()
}

/// The dot products of 16 rows, without the rows' scales; `w` has as many blocks as `x`.
pub(crate) fn dots(x: &Activations, w: &[Block]) -> [f32; ROWS] {
    debug_assert_eq!(x.blocks.len(), w.len());
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni") {
            // SAFETY: the CPU has the instructions.
            return unsafe { x86::dots_vnni(x, w) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has the instructions.
            return unsafe { x86::dots_avx2(x, w) };
        }
    }
    dots_plain(x, w)
}

/// What the other versions are tested against.
fn dots_plain(x: &Activations, w: &[Block]) -> [f32; ROWS] {
    let mut y = [0.0; ROWS];
    for (x, w) in x.blocks.iter().zip(w) {
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
mod x86 {
    use std::arch::x86_64::*;
    use std::mem::transmute;

    use super::{Activations, Block, OFFSET, ROWS, start};
    use crate::activations::word;
    use crate::prefetch::{self, DISTANCE};

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) fn dots_vnni(x: &Activations, w: &[Block]) -> [f32; ROWS] {
        let ahead = prefetch::distance();
        let mut y = _mm512_setzero_ps();
        for (x, w) in x.blocks.iter().zip(w) {
            let mut dots = _mm512_set1_epi32(start(x));
            for (x_quad, w) in x.quads.iter().zip(&w.0) {
                prefetch::stream(w, ahead);
                let x_quad = _mm512_set1_epi32(word(*x_quad));
                // SAFETY: 16 times four bytes.
                let w = unsafe { _mm512_loadu_si512(w.as_ptr().cast()) };
                dots = _mm512_dpbusd_epi32(dots, w, x_quad);
            }
            let scaled = _mm512_mul_ps(_mm512_cvtepi32_ps(dots), _mm512_set1_ps(x.scale));
            y = _mm512_add_ps(y, scaled);
        }
        // SAFETY: 16 floats either way.
        unsafe { transmute::<__m512, [f32; ROWS]>(y) }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn dots_avx2(x: &Activations, w: &[Block]) -> [f32; ROWS] {
        let offset = _mm256_set1_epi8(OFFSET.cast_signed());
        let mut y = [_mm256_setzero_ps(); 2];
        for (x, w) in x.blocks.iter().zip(w) {
            let mut dots = [_mm256_setzero_si256(); 2];
            for (x_quad, w) in x.quads.iter().zip(&w.0) {
                prefetch::stream(w, DISTANCE);
                let x_quad = _mm256_set1_epi32(word(*x_quad));
                let magnitudes = _mm256_abs_epi8(x_quad);
                for (dots, w) in dots.iter_mut().zip(w.as_chunks::<8>().0) {
                    // SAFETY: eight times four bytes.
                    let w = unsafe { _mm256_loadu_si256(w.as_ptr().cast()) };
                    // The instruction wants one factor unsigned, so the weight takes over the sign; the sum of two products is 2 * 127 * 127 < 2^15 at most.
                    let w = _mm256_sign_epi8(_mm256_xor_si256(w, offset), x_quad);
                    let pairs = _mm256_maddubs_epi16(magnitudes, w);
                    let quads = _mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
                    *dots = _mm256_add_epi32(*dots, quads);
                }
            }
            for (y, dots) in y.iter_mut().zip(dots) {
                let scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(dots), _mm256_set1_ps(x.scale));
                *y = _mm256_add_ps(*y, scaled);
            }
        }
        // SAFETY: 16 floats either way.
        unsafe { transmute::<[__m256; 2], [f32; ROWS]>(y) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activations::tests::{Form, check_forms};

    #[test]
    fn every_instruction_set_gives_the_bits_of_the_plain_loop() {
        let mut forms: Vec<Form<Block>> = vec![("the best of this machine", dots)];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has the instructions.
            forms.push(("AVX2", |x, w| unsafe { x86::dots_avx2(x, w) }));
        }
        check_forms(dots_plain, &forms, |b| {
            let mut block = Block::ZEROS;
            for row in 0..ROWS {
                let weight = |i| (((b * 89 + (row * BLOCK + i) * 57) % 255) as i16 - 127) as i8;
                block.set_row(row, &std::array::from_fn(weight));
            }
            block
        });
    }

    #[test]
    fn extreme_bytes_do_not_saturate() {
        let x = Activations::quantise(&[1.0; BLOCK]);
        let expected = 64.0 * 127.0 * 127.0 * (1.0 / 127.0);
        for y in dots(&x, &[Block([[[255; 4]; ROWS]; BLOCK / 4])]) {
            assert!((y - expected).abs() < 1e-2, "{y} not {expected}");
        }
    }
}
