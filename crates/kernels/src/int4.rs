//! Dot products of rows of 4-bit weights with 8-bit activations: exact in integers, scaled to f32.
//!
//! `y = sum_g scale_w[g] scale_x[b] sum_(i in g) w_i x_i` over groups g of 32 weights, two of which share a block b of activations.
//! A weight is a nibble minus 8; 128 of them are one [`Block`] of 64 bytes, so that one load and a mask give the 64 bytes that an instruction multiplies.
//! Both versions add the same numbers in the same order, so they agree to the bit.

use half::f16;
use multiversion::multiversion;

use crate::gemv::Weight;
use crate::int8::{Activations, LANES};
use crate::reduce::sum_of_lanes;

/// Weights that share a scale.
pub(crate) const GROUP: usize = 32;
/// Weights of a block; rows are padded to a multiple of it.
pub(crate) const BLOCK: usize = 128;
/// What is added to stored weights: a stored 8 is a weight of 0.
pub(crate) const OFFSET: u8 = 8;

/// 128 weights: the low nibbles are the first 64, the high nibbles the others.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub(crate) struct Block {
    nibbles: [u8; BLOCK / 2],
    /// One a group.
    scales: [f16; BLOCK / GROUP],
}

impl Block {
    /// Rounds up to 128 weights, those that are missing being 0.
    pub(crate) fn quantise(weights: &[f32]) -> Self {
        let mut block = Self {
            nibbles: [OFFSET | OFFSET << 4; BLOCK / 2],
            scales: [f16::ZERO; BLOCK / GROUP],
        };
        for (g, weights) in weights.chunks(GROUP).enumerate() {
            let scale = best_scale(weights);
            block.scales[g] = scale;
            for (i, &w) in weights.iter().enumerate() {
                let at = g * GROUP + i;
                let (byte, shift) = (at % (BLOCK / 2), 4 * (at / (BLOCK / 2)));
                let nibble = nearest(w, inverse(scale)) as i8 + OFFSET as i8;
                block.nibbles[byte] &= !(15 << shift);
                block.nibbles[byte] |= nibble.cast_unsigned() << shift;
            }
        }
        block
    }

    /// The weight at `i`.
    pub(crate) fn weight(&self, i: usize) -> f32 {
        let (byte, shift) = (i % (BLOCK / 2), 4 * (i / (BLOCK / 2)));
        let nibble = self.nibbles[byte] >> shift & 15;
        self.scales[i / GROUP].value() * (f32::from(nibble) - f32::from(OFFSET))
    }
}

/// The scale among some whose rounding of the weights has the smallest squared error.
///
/// The largest magnitude becomes -8, the end of the range that has one value more, or a bit less or more than that.
fn best_scale(weights: &[f32]) -> f16 {
    let largest = weights.iter().copied().fold(0.0f32, |largest, w| {
        if w.abs() > largest.abs() || w.is_nan() {
            w
        } else {
            largest
        }
    });
    let mut best = (f32::INFINITY, f16::from_f32(largest / -8.0));
    for eighths in [-8.0, -7.5, -7.0, -8.5, 7.0, 7.5] {
        let scale = f16::from_f32(largest / eighths);
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

/// `1 / scale`, 0 for 0.
fn inverse(scale: f16) -> f32 {
    if scale.value() == 0.0 {
        0.0
    } else {
        1.0 / scale.value()
    }
}

/// The nearest multiple of the scale that a nibble has.
#[inline(always)]
fn nearest(w: f32, inverse: f32) -> f32 {
    /// 1.5 * 2^23: adding and subtracting it rounds to the nearest integer.
    const ROUND: f32 = 12_582_912.0;
    let scaled = w * inverse;
    // Written so that NaN becomes a number of the range.
    let low = if scaled > -8.0 { scaled } else { -8.0 };
    let both = if low < 7.0 { low } else { 7.0 };
    (both + ROUND) - ROUND
}

/// `y[i * stride] += dot(w[i], x)`; `w` is (rows, blocks of 128) row-major, `x` has two blocks of 64 for each.
pub(crate) fn dots(x: &Activations, w: &[Block], y: &mut [f32], stride: usize) {
    debug_assert!(x.values.len().is_multiple_of(2));
    if x.values.is_empty() {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni") {
        // SAFETY: the CPU has the instructions.
        return unsafe { x86::dots_vnni(x, w, y, stride) };
    }
    dots_plain(x, w, y, stride);
}

/// What the other version is tested against.
#[multiversion(targets("x86_64+avx2"))]
fn dots_plain(x: &Activations, w: &[Block], y: &mut [f32], stride: usize) {
    for (w, y) in w.chunks_exact(x.values.len() / 2).zip(y.chunks_mut(stride)) {
        let mut lanes = [[0.0f32; LANES]; 2];
        for (b, w) in w.iter().enumerate() {
            for (half, lanes) in lanes.iter_mut().enumerate() {
                let b = 2 * b + half;
                let mut sums = x.starts[b].map(|start| start >> 4); // of 128 to 8
                for (l, sum) in sums.iter_mut().enumerate() {
                    for i in 4 * l..4 * l + 4 {
                        let nibble = w.nibbles[i] >> (4 * half) & 15;
                        *sum += i32::from(nibble) * i32::from(x.values[b][i]);
                    }
                }
                for (l, lane) in lanes.iter_mut().enumerate() {
                    let scale = w.scales[2 * half + l / (LANES / 2)].value() * x.scales[b];
                    *lane += sums[l] as f32 * scale;
                }
            }
        }
        let [low, high] = lanes;
        y[0] += sum_of_lanes::<LANES>(std::array::from_fn(|l| low[l] + high[l]));
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Activations, Block, LANES};
    use crate::prefetch;
    use crate::reduce::sum_of_lanes;

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) fn dots_vnni(x: &Activations, w: &[Block], y: &mut [f32], stride: usize) {
        let ahead = prefetch::distance();
        let nibble = _mm512_set1_epi32(0x0f0f_0f0f);
        // Which of a block's four scales each lane takes, of the low and of the high nibbles.
        let groups = [
            _mm512_set_epi32(1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0),
            _mm512_set_epi32(3, 3, 3, 3, 3, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2),
        ];
        for (w, y) in w.chunks_exact(x.values.len() / 2).zip(y.chunks_mut(stride)) {
            let mut sums = [_mm512_setzero_ps(); 2];
            for (b, w) in w.iter().enumerate() {
                prefetch::line(w, ahead);
                // SAFETY: 64 bytes and four f16; the loads ask for no alignment.
                let (bytes, scales) = unsafe {
                    (
                        _mm512_loadu_si512(w.nibbles.as_ptr().cast()),
                        _mm_loadl_epi64(w.scales.as_ptr().cast()),
                    )
                };
                let scales = _mm512_cvtph_ps(_mm256_zextsi128_si256(scales));
                let halves = [bytes, _mm512_srli_epi32::<4>(bytes)];
                for (half, sums) in sums.iter_mut().enumerate() {
                    let at = 2 * b + half;
                    // SAFETY: 64 bytes and 16 integers; the loads ask for no alignment.
                    let (values, start) = unsafe {
                        (
                            _mm512_loadu_si512(x.values[at].as_ptr().cast()),
                            _mm512_loadu_si512(x.starts[at].as_ptr().cast()),
                        )
                    };
                    let start = _mm512_srai_epi32::<4>(start);
                    let w = _mm512_and_si512(halves[half], nibble);
                    let dots = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(start, w, values));
                    let scales = _mm512_permutexvar_ps(groups[half], scales);
                    let scales = _mm512_mul_ps(scales, _mm512_set1_ps(x.scales[at]));
                    *sums = _mm512_add_ps(*sums, _mm512_mul_ps(dots, scales));
                }
            }
            let mut lanes = [0.0; LANES];
            // SAFETY: 16 floats, and the store asks for no alignment.
            unsafe { _mm512_storeu_ps(lanes.as_mut_ptr(), _mm512_add_ps(sums[0], sums[1])) };
            y[0] += sum_of_lanes(lanes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_instruction_gives_the_bits_of_the_plain_loop() {
        for (rows, blocks) in [(1, 1), (3, 2), (7, 6), (5, 24)] {
            let x: Vec<f32> = (0..blocks * BLOCK)
                .map(|i| ((i * 37 % 101) as f32 - 50.0) * (1.0 + i as f32 / 90.0))
                .collect();
            let x = Activations::quantise(&x);
            let w: Vec<Block> = (0..rows * blocks)
                .map(|b| Block {
                    nibbles: std::array::from_fn(|i| (b * 89 + i * 57) as u8),
                    scales: std::array::from_fn(|g| f16::from_f32((b + g) as f32 / 300.0 - 0.01)),
                })
                .collect();
            let (mut got, mut expected) = (vec![0.25; rows], vec![0.25; rows]);
            dots(&x, &w, &mut got, 1);
            dots_plain(&x, &w, &mut expected, 1);
            assert_eq!(got, expected, "{rows} x {blocks} blocks");
        }
    }

    #[test]
    fn weights_are_within_half_a_step_or_at_the_end_of_the_range() {
        let weights: Vec<f32> = (0..100)
            .map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0)
            .collect();
        let block = Block::quantise(&weights);
        for (i, &w) in weights.iter().enumerate() {
            let step = block.scales[i / GROUP].value().abs();
            assert!(
                (block.weight(i) - w).abs() < 0.6 * step,
                "{w}: {}",
                block.weight(i)
            );
        }
        assert!((100..BLOCK).all(|i| block.weight(i) == 0.0));
        let zeros = Block::quantise(&[0.0; BLOCK]);
        assert!((0..BLOCK).all(|i| zeros.weight(i) == 0.0));
        assert!(Block::quantise(&[1.0, f32::NAN]).weight(0).is_nan());
    }

    #[test]
    fn a_group_of_few_values_is_exact() {
        let weights: [f32; GROUP] = std::array::from_fn(|i| (i % 16) as f32 - 8.0);
        let block = Block::quantise(&weights);
        assert!((0..GROUP).all(|i| block.weight(i) == weights[i]));
    }
}
