//! The product of a few rows with a matrix, `y = x W^T`, at the speed of memory, for weights in f32, bf16 or f16.
//!
//! Such a product reads every weight once and does two operations with it, so the tiling and packing of a general product only cost.
//! Each thread walks its weight rows as one stream, or as four side by side, in 32 lanes, whose order is the same for any number of rows of `x`, threads and instruction sets.

use multiversion::{multiversion, target::target_cfg_f};
use rayon::prelude::*;

use crate::reduce::sum_of_lanes;
use crate::weight::Weight;
#[cfg(target_arch = "x86_64")]
use crate::weight::has_avx2;

/// Weights a task reads at least, in bytes: below, handing out the task costs more than it saves.
const BYTES_PER_TASK: usize = 64 * 1024;
/// Weights that meet all rows before the next ones do, in bytes, where there are more rows than share a reading: half of the first cache.
const CHUNK: usize = 24 * 1024;
const LANES: usize = 32;

/// Up to so many rows of `x` are faster here than in a general product, which packs the matrix.
pub const FEW_ROWS: usize = 10;

/// `y[i][r] += dot(x[r], w[i])`: `x` is (rows, n), `w` (outputs, n), `y` (outputs, rows), all row-major.
pub fn gemv(x: &[f32], rows: usize, w: &[f32], y: &mut [f32]) {
    widening_gemv(x, rows, w, y);
}

/// As [`gemv`], for weights in any format.
pub(crate) fn widening_gemv<W: Weight>(x: &[f32], rows: usize, w: &[W], y: &mut [f32]) {
    debug_assert_eq!(x.len() * y.len(), w.len() * rows * rows);
    let Some(n) = x.len().checked_div(rows).filter(|&n| n > 0) else {
        return;
    };
    for_each_task(y, rows, n * size_of::<W>(), |first, y| {
        let w = &w[first * n..][..y.len() / rows * n];
        let outputs = match rows {
            1..=4 => y.len() / rows,
            _ => (CHUNK / (n * size_of::<W>())).max(1),
        };
        for (w, y) in w.chunks(outputs * n).zip(y.chunks_mut(outputs * rows)) {
            // Fours and pairs of rows share what they read.
            let mut r = 0;
            while r + 4 <= rows {
                let x = std::array::from_fn(|i| &x[(r + i) * n..][..n]);
                block::<W, 4>(x, w, &mut y[r..], rows);
                r += 4;
            }
            while r + 2 <= rows {
                let x = std::array::from_fn(|i| &x[(r + i) * n..][..n]);
                block::<W, 2>(x, w, &mut y[r..], rows);
                r += 2;
            }
            if r < rows {
                block::<W, 1>([&x[r * n..][..n]], w, &mut y[r..], rows);
            }
        }
    });
}

/// Splits `y` over the threads in whole units, `f(first unit, part of y)`; each unit of `y` costs `bytes` of weights, and the last may be shorter.
pub(crate) fn for_each_task(
    y: &mut [f32],
    unit: usize,
    bytes: usize,
    f: impl Fn(usize, &mut [f32]) + Sync,
) {
    if y.is_empty() {
        return;
    }
    let units = units_per_task(y.len().div_ceil(unit), bytes);
    let tasks = y.chunks_mut(units * unit).enumerate().collect();
    for_each(tasks, |(task, y)| f(task * units, y));
}

/// How many units, each of which costs `bytes` of weights, make a task.
///
/// A few tasks a thread even out what else the machine does; the results don't depend on it.
pub(crate) fn units_per_task(units: usize, bytes: usize) -> usize {
    let even = units.div_ceil(8 * rayon::current_num_threads());
    even.max(BYTES_PER_TASK / bytes.max(1)).max(1)
}

/// Runs `f` on each task, one by one on whatever thread is free; a single one where it stands.
pub(crate) fn for_each<T: Send>(tasks: Vec<T>, f: impl Fn(T) + Sync + Send) {
    if tasks.len() == 1 {
        return tasks.into_iter().for_each(f);
    }
    tasks.into_par_iter().with_max_len(1).for_each(f);
}

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
        return unsafe { avx512::block(x, w, y, stride) };
    }
    #[cfg(target_arch = "x86_64")]
    if has_avx2() {
        // SAFETY: the CPU has the instructions.
        return unsafe { avx2::block(x, w, y, stride) };
    }
    block_plain(x, w, y, stride);
}

/// What the versions by hand are tested against, and what runs without their instructions.
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
                    lanes[r][i] = if fused {
                        x[i].mul_add(w[i].value(), lanes[r][i])
                    } else {
                        x[i] * w[i].value() + lanes[r][i]
                    };
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

/// By hand, as the compiler does not keep all lanes in registers from one end of a row to the other.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    use super::{LANES, Weight, rest};
    use crate::prefetch;

    #[target_feature(enable = "avx512f")]
    pub(super) fn block<W: Weight, const R: usize>(
        x: [&[f32]; R],
        w: &[W],
        y: &mut [f32],
        stride: usize,
    ) {
        let n = x[0].len();
        let whole = n - n % LANES;
        let ahead = prefetch::distance();
        for (w, y) in w.chunks_exact(n).zip(y.chunks_mut(stride)) {
            let mut lanes = [[_mm512_setzero_ps(); R]; LANES / 16];
            for at in (0..whole).step_by(LANES) {
                for line in (0..LANES).step_by(64 / size_of::<W>()) {
                    prefetch::stream(w.as_ptr().wrapping_add(at + line), ahead);
                }
                for (part, lanes) in lanes.iter_mut().enumerate() {
                    let at = at + 16 * part;
                    // SAFETY: `at + 16 <= whole <= n`, the length of `w` and of each row of `x`,
                    // and the CPU has the instructions, or this function could not have been called.
                    let w = unsafe { W::load16(w.as_ptr().add(at)) };
                    for (lane, x) in lanes.iter_mut().zip(x) {
                        // SAFETY: as above.
                        let x = unsafe { _mm512_loadu_ps(x.as_ptr().add(at)) };
                        *lane = _mm512_fmadd_ps(x, w, *lane);
                    }
                }
            }
            for r in 0..R {
                y[r] += sum(lanes[0][r], lanes[1][r]) + rest(&x[r][whole..], &w[whole..]);
            }
        }
    }

    /// Joins the lanes in the order of the plain version.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn sum(a: __m512, b: __m512) -> f32 {
        let sixteen = _mm512_add_ps(a, b);
        let high = _mm256_castpd_ps(_mm512_extractf64x4_pd::<1>(_mm512_castps_pd(sixteen)));
        let eight = _mm256_add_ps(_mm512_castps512_ps256(sixteen), high);
        super::avx2::sum_of_eight(eight)
    }
}

/// As with AVX-512, but for a row of `x` after the other: there are not registers enough for several, and the first cache keeps the rows of weights that all meet.
#[cfg(target_arch = "x86_64")]
mod avx2 {
    use std::arch::x86_64::*;

    use super::{LANES, Weight, rest};
    use crate::prefetch::{self, STREAMS};

    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn block<W: Weight, const R: usize>(
        x: [&[f32]; R],
        w: &[W],
        y: &mut [f32],
        stride: usize,
    ) {
        let mut done = 0;
        if prefetch::side_by_side() {
            done = side_by_side::<W, R, STREAMS>(x, w, y, stride, prefetch::NEAR);
        }
        let rest = &w[done * x[0].len()..];
        if !rest.is_empty() {
            let y = &mut y[done * stride..];
            side_by_side::<W, R, 1>(x, rest, y, stride, prefetch::distance());
        }
    }

    /// As [`block`], for S rows of weights at a time, each from another part of `w`, but for the last rows if they are no multiple of S; how many were done.
    #[target_feature(enable = "avx2,fma,f16c")]
    pub(super) fn side_by_side<W: Weight, const R: usize, const S: usize>(
        x: [&[f32]; R],
        w: &[W],
        y: &mut [f32],
        stride: usize,
        ahead: usize,
    ) -> usize {
        let n = x[0].len();
        let part = w.len() / n / S;
        for i in 0..part {
            let mut rows = [w; S];
            for (s, row) in rows.iter_mut().enumerate() {
                *row = &w[(s * part + i) * n..][..n];
            }
            for (r, x) in x.iter().enumerate() {
                let dots = dots(x, rows, if r == 0 { ahead } else { 0 });
                for (s, dot) in dots.into_iter().enumerate() {
                    y[(s * part + i) * stride + r] += dot;
                }
            }
        }
        S * part
    }

    /// The dot products of a row of `x` with S rows of weights, which share what is read of `x`.
    #[inline]
    #[target_feature(enable = "avx2,fma,f16c")]
    fn dots<W: Weight, const S: usize>(x: &[f32], w: [&[W]; S], ahead: usize) -> [f32; S] {
        let n = x.len();
        let whole = n - n % LANES;
        let mut lanes = [[_mm256_setzero_ps(); LANES / 8]; S];
        for at in (0..whole).step_by(LANES) {
            for w in if ahead > 0 { &w[..] } else { &[] } {
                for line in (0..LANES).step_by(64 / size_of::<W>()) {
                    let w = w.as_ptr().wrapping_add(at + line);
                    match S {
                        1 => prefetch::stream(w, ahead),
                        _ => prefetch::line(w, ahead),
                    }
                }
            }
            for part in 0..LANES / 8 {
                let at = at + 8 * part;
                // SAFETY: `at + 8 <= whole <= n`, the length of `x` and of each row of weights,
                // and the CPU has the instructions, or this function could not have been called.
                let x = unsafe { _mm256_loadu_ps(x.as_ptr().add(at)) };
                for (lanes, w) in lanes.iter_mut().zip(w) {
                    // SAFETY: as above.
                    let w = unsafe { W::load8(w.as_ptr().add(at)) };
                    lanes[part] = _mm256_fmadd_ps(x, w, lanes[part]);
                }
            }
        }
        let mut dots = [0.0; S];
        for s in 0..S {
            dots[s] = sum(lanes[s]) + rest(&x[whole..], &w[s][whole..]);
        }
        dots
    }

    /// Joins the lanes in the order of the plain version.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn sum(lanes: [__m256; LANES / 8]) -> f32 {
        let [a, b, c, d] = lanes;
        sum_of_eight(_mm256_add_ps(_mm256_add_ps(a, c), _mm256_add_ps(b, d)))
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn sum_of_eight(eight: __m256) -> f32 {
        let low = _mm256_castps256_ps128(eight);
        let four = _mm_add_ps(low, _mm256_extractf128_ps::<1>(eight));
        let two = _mm_add_ps(four, _mm_movehl_ps(four, four));
        _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
    }
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;

    fn numbers(count: usize, step: usize, modulus: usize) -> Vec<f32> {
        (0..count)
            .map(|i| (i * step % modulus) as f32 / modulus as f32 - 0.5)
            .collect()
    }

    #[test]
    fn gemv_agrees_with_f64_dots_at_awkward_sizes() {
        for (rows, n, m) in [
            (1, 1, 1),
            (2, 3, 5),
            (3, 63, 4),
            (1, 65, 9),
            (5, 100, 300),
            (1, 768, 1030),
        ] {
            let (x, w) = (numbers(rows * n, 13, 31), numbers(n * m, 7, 29));
            let mut y = vec![0.5; m * rows];
            gemv(&x, rows, &w, &mut y);
            for (at, &got) in y.iter().enumerate() {
                let (i, r) = (at / rows, at % rows);
                let dot: f64 = (x[r * n..(r + 1) * n].iter().zip(&w[i * n..]))
                    .map(|(&a, &b)| f64::from(a) * f64::from(b))
                    .sum();
                assert!(
                    (f64::from(got) - 0.5 - dot).abs() < 1e-4,
                    "output {i}, row {r} of {rows} x {n} x {m}: {got} not {}",
                    0.5 + dot
                );
            }
        }
    }

    #[test]
    fn a_row_has_the_same_bits_alone_and_among_others() {
        let (rows, n, m) = (5, 200, 40);
        let (x, w) = (numbers(rows * n, 13, 31), numbers(n * m, 7, 29));
        let mut together = vec![0.0; m * rows];
        gemv(&x, rows, &w, &mut together);
        for (r, x) in x.chunks(n).enumerate() {
            let mut alone = vec![0.0; m];
            gemv(x, 1, &w, &mut alone);
            for i in 0..m {
                assert_eq!(
                    alone[i].to_bits(),
                    together[i * rows + r].to_bits(),
                    "output {i}, row {r}"
                );
            }
        }
    }

    #[test]
    fn every_instruction_set_gives_the_bits_of_the_plain_loop() {
        for (n, m) in [(1, 1), (63, 3), (64, 2), (200, 40), (768, 9)] {
            let (x, w) = (numbers(2 * n, 13, 31), numbers(n * m, 7, 29));
            let rows = [&x[..n], &x[n..]];
            let (mut y, mut expected) = (vec![0.5; 2 * m], vec![0.5; 2 * m]);
            block(rows, &w, &mut y, 2);
            block_plain(rows, &w, &mut expected, 2);
            assert_eq!(y, expected, "{n} x {m}");
            #[cfg(target_arch = "x86_64")]
            if has_avx2() {
                y.fill(0.5);
                // SAFETY: the CPU has the instructions.
                unsafe { avx2::block(rows, &w, &mut y, 2) };
                assert_eq!(y, expected, "AVX2, {n} x {m}");
                y.fill(0.5);
                // SAFETY: as above.
                let done = unsafe { avx2::side_by_side::<_, 2, 4>(rows, &w, &mut y, 2, 512) };
                assert_eq!(done, m / 4 * 4);
                let (y, untouched) = y.split_at(2 * done);
                assert_eq!(y, &expected[..2 * done], "side by side, {n} x {m}");
                assert!(untouched.iter().all(|&y| y == 0.5), "{n} x {m}");
            }
        }
    }

    #[test]
    fn bf16_weights_give_the_bits_of_their_f32_values() {
        let (n, m) = (130, 70);
        let x = numbers(n, 13, 31);
        let w: Vec<bf16> = numbers(n * m, 7, 29)
            .iter()
            .map(|w| bf16::from_bits((w.to_bits() >> 16) as u16))
            .collect();
        let exact: Vec<f32> = w.iter().map(|w| w.value()).collect();
        let (mut y, mut expected) = (vec![0.0; m], vec![0.0; m]);
        widening_gemv(&x, 1, &w, &mut y);
        gemv(&x, 1, &exact, &mut expected);
        assert_eq!(y, expected);
    }
}
