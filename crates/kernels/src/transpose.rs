//! The transpose of a matrix, in squares whose rows are whole cache lines.

use ndarray::ArrayRef2;

/// f32 in a cache line
const SIDE: usize = 16;

/// Writes the transpose of `x` (rows, columns), whose rows are contiguous, to `out` (columns, rows).
pub(crate) fn transpose(x: &ArrayRef2<f32>, out: &mut [f32]) {
    let (rows, columns) = x.dim();
    for i in (0..rows).step_by(SIDE) {
        for j in (0..columns).step_by(SIDE) {
            if i + SIDE <= rows && j + SIDE <= columns {
                square(x, i, j, out);
            } else {
                for i in i..rows.min(i + SIDE) {
                    for j in j..columns.min(j + SIDE) {
                        out[j * rows + i] = x[[i, j]];
                    }
                }
            }
        }
    }
}

/// The square from (i, j) on.
fn square(x: &ArrayRef2<f32>, i: usize, j: usize, out: &mut [f32]) {
    let lines: [&[f32; SIDE]; SIDE] = std::array::from_fn(|r| {
        let row = x.row(i + r).to_slice().expect("rows are contiguous");
        row[j..].first_chunk().expect("a whole square is left")
    });
    for c in 0..SIDE {
        let out = &mut out[(j + c) * x.nrows() + i..][..SIDE];
        for r in 0..SIDE {
            out[r] = lines[r][c];
        }
    }
}

#[cfg(test)]
mod tests {
    use ndarray::Array2;

    use super::*;

    #[test]
    fn every_element_changes_places() {
        for (rows, columns) in [(0, 3), (1, 1), (16, 16), (17, 5), (33, 50), (48, 32)] {
            let x = Array2::from_shape_fn((rows, columns), |(i, j)| (i * 100 + j) as f32);
            let mut out = vec![0.0; x.len()];
            transpose(&x, &mut out);
            let expected: Vec<f32> = x.t().iter().copied().collect();
            assert_eq!(out, expected, "{rows} x {columns}");
        }
    }
}
