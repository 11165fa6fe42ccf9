//! Dot products of rows of 8-bit weights with 8-bit activations, exact in integers, scaled to f32.
//!
//! `y = scale_w sum_b scale_x[b] sum_(i in b) w_i x_i` over blocks b of 64, for one scale a weight row and one a block of activations.
//! Weights are stored with 128 added, as the instruction for AVX-512 VNNI multiplies unsigned by signed bytes; each sum starts at what takes that off again.
//! All three versions add the same numbers in the same order, so they agree bit for bit.

use multiversion::multiversion;
use ndarray::{ArrayRef2, ArrayView1};

use crate::reduce::sum_of_lanes;

/// Elements that share a scale of activations; rows of weights are padded to a multiple of it.
pub(crate) const BLOCK: usize = 64;
pub(crate) const LANES: usize = 16;
/// What is added to stored weights: a stored 128 is a weight of 0.
pub(crate) const OFFSET: u8 = 128;
/// 1.5 * 2^23: adding and subtracting it rounds to the nearest integer.
const ROUND: f32 = 12_582_912.0;
/// Below this a block's largest number counts as 0: its inverse would overflow.
const TINY: f32 = 1e-30;

/// One row of activations, in blocks of 64 bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Activations {
    pub(crate) values: Vec<[i8; BLOCK]>,
    /// One a block: value = scale * byte.
    pub(crate) scales: Vec<f32>,
    /// `-128 (x_4l + .. + x_(4l+3))` for each lane l of each block: where the sums begin.
    pub(crate) starts: Vec<[i32; LANES]>,
}

impl Activations {
    /// Those of each row, with zeros behind it up to a multiple of `block`.
    pub(crate) fn of_rows(x: &ArrayRef2<f32>, block: usize) -> Vec<Self> {
        let mut padded = vec![0.0; x.ncols().next_multiple_of(block)];
        let of_row = |row: ArrayView1<f32>| {
            padded.iter_mut().zip(row).for_each(|(to, x)| *to = *x);
            Self::quantise(&padded)
        };
        x.rows().into_iter().map(of_row).collect()
    }

    /// Rounds each block to multiples of its largest magnitude / 127.
    pub(crate) fn quantise(x: &[f32]) -> Self {
        let blocks = x.len().div_ceil(BLOCK);
        let mut out = Self {
            values: vec![[0; BLOCK]; blocks],
            scales: vec![0.0; blocks],
            starts: vec![[0; LANES]; blocks],
        };
        for (b, x) in x.chunks(BLOCK).enumerate() {
            out.scales[b] = quantise(x, &mut out.values[b]);
            for (start, x) in out.starts[b]
                .iter_mut()
                .zip(out.values[b].as_chunks::<4>().0)
            {
                *start = -i32::from(OFFSET) * x.iter().map(|&x| i32::from(x)).sum::<i32>();
            }
        }
        out
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

/// `y[i * stride] += scales[i] * dot(w[i], x)`; `w` is (scales.len(), blocks of x) row-major, stored with [`OFFSET`].
pub(crate) fn dots(
    x: &Activations,
    w: &[[u8; BLOCK]],
    scales: &[f32],
    y: &mut [f32],
    stride: usize,
) {
    debug_assert_eq!(w.len(), x.values.len() * scales.len());
    if x.values.is_empty() {
        return;
    }
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("avx512vnni") {
            // SAFETY: the CPU has the instructions.
            return unsafe { x86::dots_vnni(x, w, scales, y, stride) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the CPU has the instructions.
            return unsafe { x86::dots_avx2(x, w, scales, y, stride) };
        }
    }
    dots_plain(x, w, scales, y, stride);
}

/// What the other versions are tested against.
fn dots_plain(x: &Activations, w: &[[u8; BLOCK]], scales: &[f32], y: &mut [f32], stride: usize) {
    for ((w, scale), y) in w
        .chunks_exact(x.values.len())
        .zip(scales)
        .zip(y.chunks_mut(stride))
    {
        let mut lanes = [0.0f32; LANES];
        for (b, w) in w.iter().enumerate() {
            for (l, lane) in lanes.iter_mut().enumerate() {
                let mut sum = x.starts[b][l];
                let four = 4 * l..4 * l + 4;
                for (&w, &x) in w[four.clone()].iter().zip(&x.values[b][four]) {
                    sum += i32::from(w) * i32::from(x);
                }
                *lane += sum as f32 * x.scales[b];
            }
        }
        y[0] += scale * sum_of_lanes(lanes);
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use super::{Activations, BLOCK, LANES};
    use crate::prefetch;
    use crate::reduce::sum_of_lanes;

    #[target_feature(enable = "avx512f,avx512vnni")]
    pub(super) fn dots_vnni(
        x: &Activations,
        w: &[[u8; BLOCK]],
        scales: &[f32],
        y: &mut [f32],
        stride: usize,
    ) {
        let ahead = prefetch::distance();
        for ((w, scale), y) in w
            .chunks_exact(x.values.len())
            .zip(scales)
            .zip(y.chunks_mut(stride))
        {
            let mut sums = _mm512_setzero_ps();
            for (((w, x_values), start), &x_scale) in
                w.iter().zip(&x.values).zip(&x.starts).zip(&x.scales)
            {
                prefetch::line(w.as_ptr(), ahead);
                // SAFETY: each is an array of 64 bytes, and the loads ask for no alignment.
                let (w, x_values, start) = unsafe {
                    (
                        _mm512_loadu_si512(w.as_ptr().cast()),
                        _mm512_loadu_si512(x_values.as_ptr().cast()),
                        _mm512_loadu_si512(start.as_ptr().cast()),
                    )
                };
                let dots = _mm512_cvtepi32_ps(_mm512_dpbusd_epi32(start, w, x_values));
                sums = _mm512_add_ps(sums, _mm512_mul_ps(dots, _mm512_set1_ps(x_scale)));
            }
            let mut lanes = [0.0; LANES];
            // SAFETY: 16 floats, and the store asks for no alignment.
            unsafe { _mm512_storeu_ps(lanes.as_mut_ptr(), sums) };
            y[0] += scale * sum_of_lanes(lanes);
        }
    }

    #[target_feature(enable = "avx2")]
    pub(super) fn dots_avx2(
        x: &Activations,
        w: &[[u8; BLOCK]],
        scales: &[f32],
        y: &mut [f32],
        stride: usize,
    ) {
        for ((w, scale), y) in w
            .chunks_exact(x.values.len())
            .zip(scales)
            .zip(y.chunks_mut(stride))
        {
            let mut sums = [_mm256_setzero_ps(); 2];
            for (((w, x_values), start), &x_scale) in
                w.iter().zip(&x.values).zip(&x.starts).zip(&x.scales)
            {
                for (half, sums) in sums.iter_mut().enumerate() {
                    // SAFETY: half a block is two times 16 bytes of `w` and of `x`, and 8 integers
                    // of `start`; the loads ask for no alignment.
                    let (w0, w1, x0, x1, start) = unsafe {
                        let w = w.as_ptr().add(32 * half).cast::<__m128i>();
                        let x = x_values.as_ptr().add(32 * half).cast::<__m128i>();
                        (
                            _mm_loadu_si128(w),
                            _mm_loadu_si128(w.add(1)),
                            _mm_loadu_si128(x),
                            _mm_loadu_si128(x.add(1)),
                            _mm256_loadu_si256(start.as_ptr().add(8 * half).cast()),
                        )
                    };
                    // Sums of two products fit: 2 * 255 * 127 < 2^31. Then of four, with the middle quarters swapped.
                    let pairs =
                        |w, x| _mm256_madd_epi16(_mm256_cvtepu8_epi16(w), _mm256_cvtepi8_epi16(x));
                    let fours = _mm256_hadd_epi32(pairs(w0, x0), pairs(w1, x1));
                    let fours = _mm256_permute4x64_epi64::<0b11_01_10_00>(fours);
                    let dots = _mm256_cvtepi32_ps(_mm256_add_epi32(start, fours));
                    *sums = _mm256_add_ps(*sums, _mm256_mul_ps(dots, _mm256_set1_ps(x_scale)));
                }
            }
            let mut lanes = [0.0; LANES];
            // SAFETY: twice 8 floats into 16, and the stores ask for no alignment.
            unsafe {
                _mm256_storeu_ps(lanes.as_mut_ptr(), sums[0]);
                _mm256_storeu_ps(lanes.as_mut_ptr().add(8), sums[1]);
            }
            y[0] += scale * sum_of_lanes(lanes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn example(rows: usize, blocks: usize) -> (Activations, Vec<[u8; BLOCK]>, Vec<f32>) {
        let x: Vec<f32> = (0..blocks * BLOCK)
            .map(|i| ((i * 37 % 101) as f32 - 50.0) * (1.0 + i as f32 / 90.0))
            .collect();
        let w = (0..rows * blocks)
            .map(|b| std::array::from_fn(|i| ((b * 89 + i * 57) % 255 + 1) as u8))
            .collect();
        let scales = (0..rows).map(|r| 0.01 + r as f32 / 300.0).collect();
        (Activations::quantise(&x), w, scales)
    }

    #[test]
    fn every_instruction_set_gives_the_bits_of_the_plain_loop() {
        for (rows, blocks) in [(1, 1), (3, 2), (7, 12), (5, 48)] {
            let (x, w, scales) = example(rows, blocks);
            let mut expected = vec![0.25; rows];
            dots_plain(&x, &w, &scales, &mut expected, 1);
            let mut got = vec![0.25; rows];
            dots(&x, &w, &scales, &mut got, 1);
            assert_eq!(
                got, expected,
                "the best of this machine, {rows} x {blocks} blocks"
            );
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                let mut got = vec![0.25; rows];
                // SAFETY: the CPU has the instructions.
                unsafe { x86::dots_avx2(&x, &w, &scales, &mut got, 1) };
                assert_eq!(got, expected, "AVX2, {rows} x {blocks} blocks");
            }
        }
    }

    #[test]
    fn extreme_bytes_do_not_saturate() {
        let x = Activations::quantise(&[1.0; BLOCK]);
        let mut y = [0.0];
        dots(&x, &[[255; BLOCK]], &[1.0], &mut y, 1);
        let expected = 64.0 * 127.0 * 127.0 * (1.0 / 127.0);
        assert!((y[0] - expected).abs() < 1e-2, "{} not {expected}", y[0]);
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
