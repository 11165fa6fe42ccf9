//! The transpose of a matrix, in squares that fit the registers.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use ndarray::ArrayRef2;

const SIDE: usize = 8;

/// Writes the transpose of `x` (rows, columns), whose rows are contiguous, to `out` (columns, rows).
pub(crate) fn transpose(x: &ArrayRef2<f32>, out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has the instructions.
        return unsafe { by_avx2(x, out) };
    }
    plainly(x, out);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn by_avx2(x: &ArrayRef2<f32>, out: &mut [f32]) {
    // SAFETY: both are whole squares.
    in_squares(x, out, |square| unsafe { avx2_square(square) });
}

fn plainly(x: &ArrayRef2<f32>, out: &mut [f32]) {
    // SAFETY: both are whole squares.
    in_squares(x, out, |square| unsafe { plain_square(square) });
}

/// Where a square is, and where its transpose is to be.
struct Square {
    from: *const f32,
    /// From row to row of `from`
    stride: isize,
    to: *mut f32,
    /// From row to row of `to`
    rows: usize,
}

impl Square {
    fn row(&self, r: usize) -> *const f32 {
        self.from.wrapping_offset(r as isize * self.stride)
    }

    /// Where a column is to be.
    fn column(&self, c: usize) -> *mut f32 {
        self.to.wrapping_add(c * self.rows)
    }
}

/// Column after column of squares, so that the lines of `out` are written as a whole; what is left at the edges number by number.
#[inline(always)]
fn in_squares(x: &ArrayRef2<f32>, out: &mut [f32], transpose: impl Fn(Square)) {
    let ((rows, columns), stride) = (x.dim(), x.strides()[0]);
    assert!(
        x.is_empty() || columns == 1 || x.strides()[1] == 1,
        "rows are contiguous"
    );
    assert!(out.len() == rows * columns, "as many elements");
    for j in (0..columns).step_by(SIDE) {
        for i in (0..rows).step_by(SIDE) {
            if i + SIDE <= rows && j + SIDE <= columns {
                // SAFETY: row `i` and column `j` are inside of both.
                let (from, to) = unsafe {
                    let row = x.as_ptr().offset(i as isize * stride);
                    (row.add(j), out.as_mut_ptr().add(j * rows + i))
                };
                transpose(Square {
                    from,
                    stride,
                    to,
                    rows,
                });
                continue;
            }
            for i in i..rows.min(i + SIDE) {
                for j in j..columns.min(j + SIDE) {
                    out[j * rows + i] = x[[i, j]];
                }
            }
        }
    }
}

/// # Safety
/// The square must be inside of two matrices.
unsafe fn plain_square(square: Square) {
    for c in 0..SIDE {
        for r in 0..SIDE {
            // SAFETY: the caller's promise.
            unsafe { *square.column(c).add(r) = *square.row(r).add(c) };
        }
    }
}

/// The halves of rows that are four apart side by side, then pairs of rows, then fours.
///
/// # Safety
/// As [`plain_square`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn avx2_square(square: Square) {
    for half in [0, SIDE / 2] {
        // SAFETY: the caller's promise.
        let four = |r| unsafe { _mm_loadu_ps(square.row(r).add(half)) };
        let both = |r| _mm256_set_m128(four(r + 4), four(r));
        let (a, b, c, d) = (both(0), both(1), both(2), both(3));
        let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
        let (ab_high, cd_high) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
        let columns = [
            _mm256_shuffle_ps::<0b01_00_01_00>(ab, cd),
            _mm256_shuffle_ps::<0b11_10_11_10>(ab, cd),
            _mm256_shuffle_ps::<0b01_00_01_00>(ab_high, cd_high),
            _mm256_shuffle_ps::<0b11_10_11_10>(ab_high, cd_high),
        ];
        for (c, column) in columns.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { _mm256_storeu_ps(square.column(half + c), column) };
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
            plainly(&x, &mut out);
            assert_eq!(out, expected, "{rows} x {columns}, plain");
        }
    }
}
