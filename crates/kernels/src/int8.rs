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

/// The dot products of T times 16 rows, without the rows' scales; each of `w` has as many blocks as `x`.
pub(crate) fn dots<const T: usize>(x: &Activations, w: [&[Block]; T]) -> [[f32; ROWS]; T] {
    debug_assert!(w.iter().all(|w| w.len() == x.blocks.len()));
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni") {
            // SAFETY: the CPU has the instructions.
            return w.map(|w| unsafe { x86::dots_vnni(x, w) });
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has the instructions.
            return unsafe { x86::dots_avx2(x, w) };
        }
    }
    w.map(|w| dots_plain(x, w))
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
    pub(super) fn dots_avx2<const T: usize>(x: &Activations, w: [&[Block]; T]) -> [[f32; ROWS]; T] {
        let ahead = if T == 1 { DISTANCE } else { 0 };
        let mut y = [[_mm256_setzero_ps(); 2]; T];
        for (b, x) in x.blocks.iter().enumerate() {
            let mut dots = [[_mm256_setzero_si256(); 2]; T];
            for (q, x_quad) in x.quads.iter().enumerate() {
                let x_quad = _mm256_set1_epi32(word(*x_quad));
                for (dots, w) in dots.iter_mut().zip(w) {
                    let w = &w[b].0[q];
                    prefetch::stream(w, ahead);
                    for (dots, w) in dots.iter_mut().zip(w.as_chunks::<8>().0) {
                        // SAFETY: eight times four bytes.
                        let w = unsafe { _mm256_loadu_si256(w.as_ptr().cast()) };
                        *dots = _mm256_add_epi32(*dots, quads(x_quad, w));
                    }
                }
            }
            for (y, dots) in y.as_flattened_mut().iter_mut().zip(dots.as_flattened()) {
                let scaled = _mm256_mul_ps(_mm256_cvtepi32_ps(*dots), _mm256_set1_ps(x.scale));
                *y = _mm256_add_ps(*y, scaled);
            }
        }
        // SAFETY: 16 floats either way.
        y.map(|y| unsafe { transmute::<[__m256; 2], [f32; ROWS]>(y) })
    }

    /// The sums of each four products.
    ///
    /// The instruction wants one factor unsigned, so the weight takes over the sign; the sum of two products is 2 * 127 * 127 < 2^15 at most.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn quads(x: __m256i, stored: __m256i) -> __m256i {
        let w = _mm256_xor_si256(stored, _mm256_set1_epi8(OFFSET.cast_signed()));
        let pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(w, x));
        _mm256_madd_epi16(pairs, _mm256_set1_epi16(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::activations::tests::{Form, check_forms};

    #[test]
    fn every_instruction_set_gives_the_bits_of_the_plain_loop() {
        let mut forms: Vec<Form<Block>> =
            vec![("the best of this machine", |x, w| dots(x, [w])[0])];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has the instructions.
            forms.push(("AVX2", |x, w| unsafe { x86::dots_avx2(x, [w])[0] }));
            // SAFETY: as above.
            forms.push(("AVX2, four at once", |x, w| unsafe {
                let others = vec![Block::ZEROS; w.len()];
                x86::dots_avx2(x, [&others, &others, w, &others])[2]
            }));
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
        for y in dots(&x, [&[Block([[[255; 4]; ROWS]; BLOCK / 4])]])[0] {
            assert!((y - expected).abs() < 1e-2, "{y} not {expected}");
        }
    }
}
