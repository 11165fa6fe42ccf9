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

    pub(crate) fn set_row(&mut self, row: usize, weights: &[i8; BLOCK]) {
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

    use super::{Activations, Block, ROWS, start};
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
        let mut out = [0.0; ROWS];
        // SAFETY: 16 floats, and the store asks for no alignment.
        unsafe { _mm512_storeu_ps(out.as_mut_ptr(), y) };
        out
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn dots_avx2(x: &Activations, w: &[Block]) -> [f32; ROWS] {
        let mut y = [_mm256_setzero_ps(); 2];
        for (x, w) in x.blocks.iter().zip(w) {
            // Of each row the sum of two columns' products of each quad and that of the two others': 32 * 255 * 127 < 2^31.
            let mut pairs = [_mm256_setzero_si256(); ROWS / 4];
            for (x_quad, w) in x.quads.iter().zip(&w.0) {
                prefetch::stream(w, DISTANCE);
                let x_quad = _mm256_cvtepi8_epi16(_mm_set1_epi32(word(*x_quad)));
                for (pairs, w) in pairs.iter_mut().zip(w.as_chunks::<4>().0) {
                    // SAFETY: four times four bytes.
                    let w = unsafe { _mm_loadu_si128(w.as_ptr().cast()) };
                    let products = _mm256_madd_epi16(_mm256_cvtepu8_epi16(w), x_quad);
                    *pairs = _mm256_add_epi32(*pairs, products);
                }
            }
            for (y, [low, high]) in y.iter_mut().zip(pairs.as_chunks::<2>().0) {
                // The sums of pairs, with the middle quarters swapped.
                let dots = _mm256_hadd_epi32(*low, *high);
                let dots = _mm256_permute4x64_epi64::<0b11_01_10_00>(dots);
                let dots = _mm256_add_epi32(dots, _mm256_set1_epi32(start(x)));
                let scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(dots), _mm256_set1_ps(x.scale));
                *y = _mm256_add_ps(*y, scaled);
            }
        }
        let mut out = [0.0; ROWS];
        for (out, y) in out.as_chunks_mut::<8>().0.iter_mut().zip(y) {
            // SAFETY: 8 floats, and the store asks for no alignment.
            unsafe { _mm256_storeu_ps(out.as_mut_ptr(), y) };
        }
        out
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
                let weight = |i| ((b * 89 + (row * BLOCK + i) * 57) % 255) as u8 as i8;
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
