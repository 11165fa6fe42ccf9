//! The product of a few rows with a matrix, `y = x W^T`, at the speed of memory, for weights in
//! f32, bf16 or f16.
//!
//! Such a product reads every weight once and does two operations with it, so the tiling and
//! packing of a general product only cost.
//! Each thread walks its weight rows as one stream, or as four side by side; a row's bits are the
//! same for any number of rows of `x`, threads and instruction sets.

use std::ops::Range;

use ndarray::{Array2, ArrayViewMut2, Axis};

use crate::decoding::gemv_kernel::block;
use crate::prefetch::STREAMS;
use crate::threads::for_each;
use crate::weight::Weight;

/// Weights a task reads at least, in bytes: below, handing out the task costs more than it saves.
const BYTES_PER_TASK: usize = 32 * 1024;
/// Weights that meet all rows before the next ones do, in bytes, where there are more rows than
/// share a reading: half of the first cache.
const CHUNK: usize = 24 * 1024;

/// Up to so many rows of `x` are faster here than in a general product, which packs the matrix.
pub const FEW_ROWS: usize = 10;

/// Outputs whose sums exist transposed at a time: 2.5 MB at most, however large the vocabulary is.
const TRANSPOSED: usize = 1 << 16;

/// `c += x W^T`: `x` is (rows, n), `w` (outputs, n), both row-major, and `c` (rows, outputs), of at
/// least one row.
pub fn accumulate(x: &[f32], w: &[f32], c: ArrayViewMut2<f32>) {
    widening_accumulate(x, w, c);
}

/// [`accumulate`] for weights in any format.
pub(crate) fn widening_accumulate<W: Weight>(x: &[f32], w: &[W], mut c: ArrayViewMut2<f32>) {
    let rows = c.nrows();
    if let (1, Some(y)) = (rows, c.as_slice_mut()) {
        return gemv(x, 1, w, y);
    }
    let parts = w.chunks(TRANSPOSED * (x.len() / rows).max(1));
    for (mut c, w) in c.axis_chunks_iter_mut(Axis(1), TRANSPOSED).zip(parts) {
        let mut y = Array2::zeros((c.ncols(), rows));
        gemv(x, rows, w, y.as_slice_mut().expect("row-major"));
        c += &y.t();
    }
}

/// `y[i][r] += dot(x[r], w[i])`: `x` is (rows, n), `w` (outputs, n), `y` (outputs, rows), all
/// row-major.
fn gemv<W: Weight>(x: &[f32], rows: usize, w: &[W], y: &mut [f32]) {
    debug_assert_eq!(x.len() * y.len(), w.len() * rows * rows);
    let Some(n) = x.len().checked_div(rows).filter(|&n| n > 0) else {
        return;
    };
    let bytes = n * size_of::<W>();
    let mut left = y;
    let tasks = cut(left.len() / rows, STREAMS, STREAMS * bytes).into_iter();
    let tasks = tasks.map(|outputs| {
        let part = left.split_off_mut(..outputs.len() * rows);
        let w = &w[outputs.start * n..outputs.end * n];
        (w, part.expect("as many"))
    });
    for_each(tasks.collect(), |(w, y)| {
        let outputs = match rows {
            1..=4 => y.len() / rows,
            _ => (CHUNK / bytes).max(1),
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

/// Cuts so many outputs into tasks of whole groups, each of which costs `bytes` of weights: a part
/// for each thread, whose first task is two thirds of it and each later one smaller, so that no
/// thread waits long for another's last.
///
/// The results don't depend on it.
pub(crate) fn cut(outputs: usize, group: usize, bytes: usize) -> Vec<Range<usize>> {
    let groups = outputs.div_ceil(group);
    let least = (BYTES_PER_TASK / bytes.max(1)).max(1);
    let parts = ((groups + least / 2) / least).clamp(1, rayon::current_num_threads());
    let mut tasks = Vec::new();
    for part in 0..parts {
        let (mut start, end) = (groups * part / parts, groups * (part + 1) / parts);
        while start < end {
            let left = end - start;
            let task = match left <= least + least / 2 {
                true => left,
                false => (2 * left / 3).max(least),
            };
            tasks.push(start * group..outputs.min((start + task) * group));
            start += task;
        }
    }
    tasks
}

#[cfg(test)]
mod tests {
    use half::bf16;

    use super::*;
    use crate::decoding::gemv_kernel::tests::numbers;

    #[test]
    fn tasks_are_all_outputs_in_order_and_whole_groups_but_the_last() {
        for (outputs, group) in [(0, 4), (1, 1), (3, 4), (60, 1), (1000, 16), (50_257, 4)] {
            for bytes in [0, 1, 4096, BYTES_PER_TASK, 1 << 20] {
                let tasks = cut(outputs, group, bytes);
                assert!(tasks.iter().all(|task| task.start % group == 0));
                let all: Vec<usize> = tasks.into_iter().flatten().collect();
                let expected: Vec<usize> = (0..outputs).collect();
                assert_eq!(all, expected, "{group} of {bytes}");
            }
        }
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
        let w: Vec<bf16> = numbers(n * m, 7, 29)
            .iter()
            .map(|w| bf16::from_bits((w.to_bits() >> 16) as u16))
            .collect();
        let exact: Vec<f32> = w.iter().map(|w| w.value()).collect();
        let (mut y, mut expected) = (vec![0.0; m], vec![0.0; m]);
        gemv(&x, 1, &w, &mut y);
        gemv(&x, 1, &exact, &mut expected);
        assert_eq!(y, expected);
    }
}
