//! Dot products of rows of 8-bit weights with 8-bit activations: exact in integers, scaled to f32.
//!
//! `y = scale_w sum_b scale_x[b] sum_(i in b) w_i x_i` over blocks b of 64, for one scale a weight row and one a block of activations.
//! Weights are stored with 128 added, as the instruction of AVX-512 VNNI multiplies unsigned by signed bytes; each sum starts at what takes that off again.
//! All three versions add the same numbers in the same order, so they agree bit for bit.

use crate::activations::{ActivationBlock, Activations, BLOCK, Dots, Quad, ROWS};

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
}

/// Where the sum of a block's products begins.
fn start(x: &ActivationBlock) -> i32 {
    -i32::from(OFFSET) * x.sums.iter().sum::<i32>()
}

/// The dot products of R rows of activations with the rows of T panels, without these rows' scales; all have as many blocks.
pub(crate) fn dots<const R: usize, const T: usize>(
    x: [&Activations; R],
    w: [&[Block]; T],
) -> Dots<R, T> {
    debug_assert!(w.iter().all(|w| w.len() == x[0].blocks.len()));
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
    x.map(|x| w.map(|w| dots_plain(x, w)))
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
    use std::mem::transmute_copy;

    use super::{Activations, BLOCK, Block, Dots, OFFSET, start};
    use crate::activations::{blocks, panels, word};
    use crate::prefetch;

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) fn dots_vnni<const R: usize, const T: usize>(
        x: [&Activations; R],
        w: [&[Block]; T],
    ) -> Dots<R, T> {
        let ahead = prefetch::distance_of_panels();
        let mut y = [[_mm512_setzero_ps(); T]; R];
        for b in 0..w[0].len() {
            let (x, w) = (blocks(x, b), panels(w, b));
            let mut dots = [[_mm512_setzero_si512(); T]; R];
            for r in 0..R {
                dots[r] = [_mm512_set1_epi32(start(x[r])); T];
            }
            for q in 0..BLOCK / 4 {
                for t in 0..T {
                    let w = &w[t].0[q];
                    prefetch::stream(w, ahead);
                    // SAFETY: 16 times four bytes.
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
        // SAFETY: R T times 16 floats either way.
        unsafe { transmute_copy(&y) }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn dots_avx2<const R: usize, const T: usize>(
        x: [&Activations; R],
        w: [&[Block]; T],
    ) -> Dots<R, T> {
        let mut y = [[[_mm256_setzero_ps(); 2]; T]; R];
        for b in 0..w[0].len() {
            let (x, w) = (blocks(x, b), panels(w, b));
            let mut dots = [[[_mm256_setzero_si256(); 2]; T]; R];
            for q in 0..BLOCK / 4 {
                for t in 0..T {
                    let w = &w[t].0[q];
                    prefetch::panel::<T, _>(w);
                    // SAFETY: two times eight times four bytes.
                    let w: [_; 2] = unsafe {
                        let w = w.as_ptr().cast::<__m256i>();
                        [_mm256_loadu_si256(w), _mm256_loadu_si256(w.add(1))]
                    };
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
        // SAFETY: R T times 16 floats either way.
        unsafe { transmute_copy(&y) }
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
        #[cfg_attr(not(target_arch = "x86_64"), expect(unused_mut))]
        let mut forms: Vec<Form<Block>> = vec![
            ("a row", |x, w| x.map(|x| w.map(|w| dots([x], [w])[0][0]))),
            ("a row by four panels", |x, w| x.map(|x| dots([x], w)[0])),
            ("four rows", dots),
        ];
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has the instructions.
            forms.push(("AVX2", |x, w| unsafe { x86::dots_avx2(x, w) }));
        }
        let plain: Form<Block> = ("", |x, w| x.map(|x| w.map(|w| dots_plain(x, w))));
        check_forms(plain, &forms, |panel, b| {
            let mut block = Block::ZEROS;
            for row in 0..ROWS {
                let at = |i| panel * 41 + b * 89 + (row * BLOCK + i) * 57;
                let weight = |i| ((at(i) % 255) as i16 - 127) as i8;
                block.set_row(row, &std::array::from_fn(weight));
            }
            block
        });
    }

    #[test]
    fn extreme_bytes_do_not_saturate() {
        let x = Activations::quantise(&[1.0; BLOCK]);
        let expected = 64.0 * 127.0 * 127.0 * (1.0 / 127.0);
        for y in dots([&x], [&[Block([[[255; 4]; ROWS]; BLOCK / 4])]])[0][0] {
            assert!((y - expected).abs() < 1e-2, "{y} not {expected}");
        }
    }
}
