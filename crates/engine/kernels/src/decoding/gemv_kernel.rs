//! The dot products of a few rows with rows of weights: the loop that a product of a few rows
//! spends its time in.
//!
//! It adds in 32 lanes, whose order is the same for any number of rows of `x`, threads and
//! instruction sets.

use multiversion::{multiversion, target::target_cfg_f};

use crate::elementwise::math::add_product;
use crate::elementwise::reduce::sum_of_lanes;
use crate::weight::Weight;
#[cfg(target_arch = "x86_64")]
use crate::{prefetch, weight::has_avx2};

#[cfg(target_arch = "x86_64")]
mod x86;

const LANES: usize = 32;

/// `y[i * stride + r] += dot(x[r], w[i])` for R rows, on this thread.
pub(crate) fn block<W: Weight, const R: usize>(
    x: [&[f32]; R],
    w: &[W],
    y: &mut [f32],
    stride: usize,
) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx512f") {
        // SAFETY: the CPU has the instructions.
        return unsafe { x86::by_avx512(x, w, y, stride, prefetch::side_by_side()) };
    }
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the CPU has the instructions.
        return unsafe { x86::by_avx2(x, w, y, stride, prefetch::side_by_side()) };
    }
    block_plain(x, w, y, stride);
}

/// The plain version, which those by hand are tested against, and which runs without their
/// instructions.
#[multiversion(targets("x86_64+avx2+fma"))]
fn block_plain<W: Weight, const R: usize>(x: [&[f32]; R], w: &[W], y: &mut [f32], stride: usize) {
    let fused = cfg!(target_arch = "aarch64") || target_cfg_f!(target_feature = "fma");
    let n = x[0].len();
    let whole = n - n % LANES;
    for (w, y) in w.chunks_exact(n).zip(y.chunks_mut(stride)) {
        let mut lanes = [[0.0f32; LANES]; R];
        for (c, w) in w.as_chunks::<LANES>().0.iter().enumerate() {
            for r in 0..R {
                let x = &x[r][c * LANES..(c + 1) * LANES];
                for i in 0..LANES {
                    lanes[r][i] = add_product(lanes[r][i], x[i], w[i].value(), fused);
                }
            }
        }
        for r in 0..R {
            y[r] += sum_of_lanes(lanes[r]) + rest(&x[r][whole..], &w[whole..]);
        }
    }
}

/// The elements after the last whole chunk, in order.
#[inline(always)]
fn rest<W: Weight>(x: &[f32], w: &[W]) -> f32 {
    x.iter().zip(w).fold(0.0, |sum, (x, w)| sum + x * w.value())
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn numbers(count: usize, step: usize, modulus: usize) -> Vec<f32> {
        (0..count)
            .map(|i| (i * step % modulus) as f32 / modulus as f32 - 0.5)
            .collect()
    }

    #[test]
    fn every_instruction_set_gives_the_bits_of_the_plain_loop() {
        fn check_all<W: Weight>() {
            for (n, m) in [(1, 1), (63, 3), (64, 2), (200, 40), (768, 9), (1000, 13)] {
                let (x, w) = (numbers(3 * n, 13, 31), numbers(n * m, 7, 29));
                let w: Vec<W> = w.into_iter().map(W::nearest).collect();
                let rows = [&x[..n], &x[n..2 * n], &x[2 * n..]];
                let (mut y, mut expected) = (vec![0.5; 3 * m], vec![0.5; 3 * m]);
                block(rows, &w, &mut y, 3);
                block_plain(rows, &w, &mut expected, 3);
                assert_eq!(y, expected, "{n} x {m}");
                #[cfg(target_arch = "x86_64")]
                for side_by_side in [false, true] {
                    let case = format!("{n} x {m}, {side_by_side}");
                    if has_avx2() {
                        let mut y = vec![0.5; 3 * m];
                        // SAFETY: the CPU has the instructions.
                        unsafe { x86::by_avx2(rows, &w, &mut y, 3, side_by_side) };
                        assert_eq!(y, expected, "AVX2, {case}");
                    }
                    if is_x86_feature_detected!("avx512f") {
                        let mut y = vec![0.5; 3 * m];
                        // SAFETY: as above.
                        unsafe { x86::by_avx512(rows, &w, &mut y, 3, side_by_side) };
                        assert_eq!(y, expected, "AVX-512, {case}");
                    }
                }
            }
        }
        check_all::<f32>();
        check_all::<half::bf16>();
        check_all::<half::f16>();
    }
}
