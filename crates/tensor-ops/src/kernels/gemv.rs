//! The product of one row with a matrix, `y = x w^T`, at the speed of memory.
//!
//! A matrix product of one row reads every weight once and does two operations with it, so the tiling and packing of a general product only cost; here each weight row is read in order, four rows at a time, split over the threads.

use multiversion::multiversion;
use rayon::prelude::*;

/// Weight rows a task handles: enough work to pay for a task, few enough to balance two threads.
const ROWS_PER_TASK: usize = 256;
const LANES: usize = 16;

/// `y[i] += dot(x, w[i])`; `w` is (y.len(), x.len()) row-major.
pub(crate) fn gemv(x: &[f32], w: &[f32], y: &mut [f32]) {
    debug_assert_eq!(w.len(), x.len() * y.len());
    if x.is_empty() {
        return;
    }
    if y.len() <= ROWS_PER_TASK {
        return gemv_block(x, w, y);
    }
    y.par_chunks_mut(ROWS_PER_TASK)
        .zip(w.par_chunks(ROWS_PER_TASK * x.len()))
        .for_each(|(y, w)| gemv_block(x, w, y));
}

#[multiversion(targets("x86_64+avx512f", "x86_64+avx2+fma"))]
fn gemv_block(x: &[f32], w: &[f32], y: &mut [f32]) {
    let n = x.len();
    let (x_chunks, x_rest) = x.as_chunks::<LANES>();
    let whole = x_chunks.len() * LANES;
    let mut groups = y.chunks_exact_mut(4);
    let mut row = 0;
    for group in &mut groups {
        let rows: [&[f32]; 4] = std::array::from_fn(|r| &w[(row + r) * n..(row + r + 1) * n]);
        let mut lanes = [[0.0f32; LANES]; 4];
        for (chunk, x) in x_chunks.iter().enumerate() {
            for (lanes, row) in lanes.iter_mut().zip(rows) {
                let row = &row[chunk * LANES..(chunk + 1) * LANES];
                for i in 0..LANES {
                    lanes[i] += x[i] * row[i];
                }
            }
        }
        for ((y, lanes), row) in group.iter_mut().zip(&mut lanes).zip(rows) {
            *y += finish(lanes, x_rest, &row[whole..]);
        }
        row += 4;
    }
    for y in groups.into_remainder() {
        let w = &w[row * n..(row + 1) * n];
        let mut lanes = [0.0f32; LANES];
        for (x, row) in x_chunks.iter().zip(w.as_chunks::<LANES>().0) {
            for i in 0..LANES {
                lanes[i] += x[i] * row[i];
            }
        }
        *y += finish(&mut lanes, x_rest, &w[whole..]);
        row += 1;
    }
}

/// Adds the elements after the last whole chunk, then joins the lanes pairwise.
#[inline(always)]
fn finish(lanes: &mut [f32; LANES], x_rest: &[f32], w_rest: &[f32]) -> f32 {
    for (lane, (x, w)) in lanes.iter_mut().zip(x_rest.iter().zip(w_rest)) {
        *lane += x * w;
    }
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

    #[test]
    fn gemv_agrees_with_f64_dots_at_awkward_sizes() {
        for (n, m) in [(1, 1), (3, 5), (16, 4), (17, 9), (100, 300), (768, 1030)] {
            let x: Vec<f32> = (0..n)
                .map(|i| ((i * 13 % 31) as f32 - 15.0) / 31.0)
                .collect();
            let w: Vec<f32> = (0..n * m)
                .map(|i| ((i * 7 % 29) as f32 - 14.0) / 29.0)
                .collect();
            let mut y = vec![0.5; m];
            gemv(&x, &w, &mut y);
            for (i, &got) in y.iter().enumerate() {
                let dot: f64 = x
                    .iter()
                    .zip(&w[i * n..])
                    .map(|(&a, &b)| f64::from(a) * f64::from(b))
                    .sum();
                let expected = 0.5 + dot;
                assert!(
                    (f64::from(got) - expected).abs() < 1e-4,
                    "row {i} of {n} x {m}: {got} not {expected}"
                );
            }
        }
    }
}
