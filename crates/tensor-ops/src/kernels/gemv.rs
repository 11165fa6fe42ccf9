//! The product of a few rows with a matrix, `y = x W^T`, at the speed of memory, for weights in f32 or bf16.
//!
//! Such a product reads every weight once and does two operations with it, so the tiling and packing of a general product only cost.
//! Each thread walks its weight rows as one stream, in 64 lanes, whose order is the same for any number of rows of `x`, threads and instruction sets.

use multiversion::multiversion;
use rayon::prelude::*;

/// Weights a task reads at least, in bytes: below, handing out the task costs more than it saves.
const BYTES_PER_TASK: usize = 64 * 1024;
const LANES: usize = 64;

/// A number that is stored in some format and computed with as f32.
pub(crate) trait Weight: Copy + Send + Sync {
    /// Its value, exactly.
    fn value(self) -> f32;
}

impl Weight for f32 {
    #[inline(always)]
    fn value(self) -> f32 {
        self
    }
}

/// The upper half of an f32.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub(crate) struct Bf16(pub(crate) u16);

impl Weight for Bf16 {
    #[inline(always)]
    fn value(self) -> f32 {
        f32::from_bits(u32::from(self.0) << 16)
    }
}

/// `y[i][r] += dot(x[r], w[i])`: `x` is (rows, n), `w` (outputs, n), `y` (outputs, rows), all row-major.
pub(crate) fn gemv<W: Weight>(x: &[f32], rows: usize, w: &[W], y: &mut [f32]) {
    debug_assert_eq!(x.len() * y.len(), w.len() * rows * rows);
    let Some(n) = x.len().checked_div(rows).filter(|&n| n > 0) else {
        return;
    };
    for_each_task(y, rows, n * size_of::<W>(), |first, y| {
        let w = &w[first * n..][..y.len() / rows * n];
        // Pairs of rows share what they read.
        let mut r = 0;
        while r + 2 <= rows {
            block::<W, 2>(
                [&x[r * n..][..n], &x[(r + 1) * n..][..n]],
                w,
                &mut y[r..],
                rows,
            );
            r += 2;
        }
        if r < rows {
            block::<W, 1>([&x[r * n..][..n]], w, &mut y[r..], rows);
        }
    });
}

/// Splits `y` (outputs, rows) over the threads, `f(first output, part of y)`; each output costs `bytes` of weights.
pub(crate) fn for_each_task(
    y: &mut [f32],
    rows: usize,
    bytes: usize,
    f: impl Fn(usize, &mut [f32]) + Sync,
) {
    // A few tasks a thread even out what else the machine does; the results don't depend on it.
    let even = (y.len() / rows).div_ceil(4 * rayon::current_num_threads());
    let outputs = even.max(BYTES_PER_TASK / bytes.max(1)).max(1);
    if y.len() <= outputs * rows {
        return f(0, y);
    }
    y.par_chunks_mut(outputs * rows)
        .enumerate()
        .for_each(|(task, y)| f(task * outputs, y));
}

/// `y[i * stride + r] += dot(x[r], w[i])` for R rows.
#[multiversion(targets("x86_64+avx512f+avx512bw", "x86_64+avx2"))]
fn block<W: Weight, const R: usize>(x: [&[f32]; R], w: &[W], y: &mut [f32], stride: usize) {
    let n = x[0].len();
    for (w, y) in w.chunks_exact(n).zip(y.chunks_mut(stride)) {
        let (w_chunks, w_rest) = w.as_chunks::<LANES>();
        let mut lanes = [[0.0f32; LANES]; R];
        for (c, w) in w_chunks.iter().enumerate() {
            for r in 0..R {
                let x = &x[r][c * LANES..(c + 1) * LANES];
                for i in 0..LANES {
                    lanes[r][i] += x[i] * w[i].value();
                }
            }
        }
        for r in 0..R {
            let x_rest = &x[r][n - w_rest.len()..];
            for (lane, (x, w)) in lanes[r].iter_mut().zip(x_rest.iter().zip(w_rest)) {
                *lane += x * w.value();
            }
            y[r] += sum(&mut lanes[r]);
        }
    }
}

/// Joins the lanes, halving their number each time.
#[inline(always)]
fn sum(lanes: &mut [f32; LANES]) -> f32 {
    let mut width = LANES / 2;
    while width > 0 {
        for i in 0..width {
            lanes[i] += lanes[i + width];
        }
        width /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
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
    fn bf16_weights_give_the_bits_of_their_f32_values() {
        let (n, m) = (130, 70);
        let x = numbers(n, 13, 31);
        let w: Vec<Bf16> = numbers(n * m, 7, 29)
            .iter()
            .map(|w| Bf16((w.to_bits() >> 16) as u16))
            .collect();
        let exact: Vec<f32> = w.iter().map(|w| w.value()).collect();
        let (mut y, mut expected) = (vec![0.0; m], vec![0.0; m]);
        gemv(&x, 1, &w, &mut y);
        gemv(&x, 1, &exact, &mut expected);
        assert_eq!(y, expected);
    }
}
