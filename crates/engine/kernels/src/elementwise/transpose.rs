//! The transpose of a matrix, in squares that fit the registers.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use ndarray::{ArrayRef2, ArrayViewMut2, Ix2, RawArrayViewMut};

#[cfg(target_arch = "x86_64")]
use crate::prefetch;
#[cfg(target_arch = "x86_64")]
use crate::register::Register;

/// Writes the transpose of `x` (rows, columns) to `out` (columns, rows).
///
/// # Panics
/// If the shapes don't fit, or the rows of one are not contiguous.
pub fn transpose_into(x: &ArrayRef2<f32>, mut out: ArrayViewMut2<'_, f32>) {
    // SAFETY: `out` is borrowed for writing.
    unsafe { transpose(x, out.raw_view_mut()) };
}

/// Writes the transpose of `x` (rows, columns) to `out` (columns, rows); the rows of both are
/// contiguous.
///
/// # Safety
/// `out` can be written, and doesn't overlap `x`.
pub(crate) unsafe fn transpose(x: &ArrayRef2<f32>, out: RawArrayViewMut<f32, Ix2>) {
    // SAFETY: the caller's promise, and the CPU has the instructions.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        {
            if is_x86_feature_detected!("avx512f") {
                return by_avx512(x, out);
            }
            if is_x86_feature_detected!("avx2") {
                return by_avx2(x, out);
            }
        }
        plainly(x, out);
    }
}

/// # Safety
/// As [`transpose`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn by_avx512(x: &ArrayRef2<f32>, out: RawArrayViewMut<f32, Ix2>) {
    // SAFETY: the caller's promise.
    unsafe {
        in_squares::<16>(x, out, |square| match square.columns {
            16 => avx512_square(square),
            _ => number_by_number(square),
        });
    }
}

/// # Safety
/// As [`transpose`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn by_avx2(x: &ArrayRef2<f32>, out: RawArrayViewMut<f32, Ix2>) {
    // SAFETY: the caller's promise.
    unsafe {
        in_squares::<8>(x, out, |square| match (square.rows, square.columns) {
            (8, 8) => avx2_square(square),
            _ => number_by_number(square),
        });
    }
}

/// # Safety
/// As [`transpose`].
unsafe fn plainly(x: &ArrayRef2<f32>, out: RawArrayViewMut<f32, Ix2>) {
    // SAFETY: the caller's promise.
    unsafe { in_squares::<8>(x, out, |square| number_by_number(square)) };
}

/// A square, or the part of one at the edges, and the place of its transpose.
struct Square {
    rows: usize,
    columns: usize,
    from: *const f32,
    /// From row to row of `from`
    stride: isize,
    to: *mut f32,
    /// From row to row of `to`
    stride_of_to: isize,
}

impl Square {
    fn row(&self, r: usize) -> *const f32 {
        self.from.wrapping_offset(r as isize * self.stride)
    }

    /// The place of a column.
    fn column(&self, c: usize) -> *mut f32 {
        self.to.wrapping_offset(c as isize * self.stride_of_to)
    }
}

/// Column after column of squares, so that the lines of `out` are written as a whole.
///
/// # Safety
/// As [`transpose`].
#[inline(always)]
unsafe fn in_squares<const SIDE: usize>(
    x: &ArrayRef2<f32>,
    mut out: RawArrayViewMut<f32, Ix2>,
    transpose: impl Fn(Square),
) {
    let (rows, columns) = x.dim();
    assert!(
        x.is_empty() || columns == 1 || x.strides()[1] == 1,
        "rows are contiguous"
    );
    assert!(
        x.is_empty() || rows == 1 || out.strides()[1] == 1,
        "rows are contiguous"
    );
    assert!(out.dim() == (columns, rows), "as many elements");
    let (stride, stride_of_to) = (x.strides()[0], out.strides()[0]);
    for j in (0..columns).step_by(SIDE) {
        for i in (0..rows).step_by(SIDE) {
            // SAFETY: row `i` and column `j` are inside of both.
            transpose(unsafe {
                Square {
                    rows: SIDE.min(rows - i),
                    columns: SIDE.min(columns - j),
                    from: x.as_ptr().offset(i as isize * stride).add(j),
                    stride,
                    to: out.as_mut_ptr().offset(j as isize * stride_of_to).add(i),
                    stride_of_to,
                }
            });
        }
    }
}

/// # Safety
/// The square must be inside of two matrices.
#[inline(always)]
unsafe fn number_by_number(square: Square) {
    for c in 0..square.columns {
        for r in 0..square.rows {
            // SAFETY: the caller's promise.
            unsafe { *square.column(c).add(r) = *square.row(r).add(c) };
        }
    }
}

/// Four columns at a time. In place of rows that are missing the last one is read, which is faster
/// than a branch, and not written.
///
/// # Safety
/// The square must be inside of two matrices, and have all columns.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn avx512_square(square: Square) {
    /// Rows may be on different pages, where processors don't prefetch.
    const AHEAD: usize = 256;
    for r in 0..16 {
        prefetch::line(square.row(r.min(square.rows - 1)), AHEAD);
    }
    for quad in (0..16).step_by(4) {
        // SAFETY: the caller's promise.
        unsafe {
            let row = |r: usize| square.row(r.min(square.rows - 1)).add(quad);
            for (c, column) in four_columns_of_16(row).into_iter().enumerate() {
                column.store_first(square.column(quad + c), square.rows);
            }
        }
    }
}

/// Four columns of 16 rows: four numbers of every fourth row side by side, then pairs of rows, then
/// fours.
///
/// # Safety
/// The CPU must have AVX-512 F, and four numbers can be read at each row.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn four_columns_of_16(row: impl Fn(usize) -> *const f32) -> [__m512; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut rows = [_mm512_setzero_ps(); 4];
        for r in 0..16 {
            let place = 0b1111 << (r / 4 * 4);
            let four = _mm_loadu_ps(row(r));
            rows[r % 4] = _mm512_mask_broadcast_f32x4(rows[r % 4], place, four);
        }
        let [a, b, c, d] = rows;
        let low_ab = _mm512_castps_pd(_mm512_unpacklo_ps(a, b));
        let low_cd = _mm512_castps_pd(_mm512_unpacklo_ps(c, d));
        let high_ab = _mm512_castps_pd(_mm512_unpackhi_ps(a, b));
        let high_cd = _mm512_castps_pd(_mm512_unpackhi_ps(c, d));
        [
            _mm512_castpd_ps(_mm512_unpacklo_pd(low_ab, low_cd)),
            _mm512_castpd_ps(_mm512_unpackhi_pd(low_ab, low_cd)),
            _mm512_castpd_ps(_mm512_unpacklo_pd(high_ab, high_cd)),
            _mm512_castpd_ps(_mm512_unpackhi_pd(high_ab, high_cd)),
        ]
    }
}

/// # Safety
/// The square must be inside of two matrices.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn avx2_square(square: Square) {
    for half in [0, 4] {
        // SAFETY: the caller's promise.
        unsafe {
            let columns = four_columns_of_8(|r| square.row(r).add(half));
            for (c, column) in columns.into_iter().enumerate() {
                _mm256_storeu_ps(square.column(half + c), column);
            }
        }
    }
}

/// Four columns of 8 rows: the halves of rows that are four apart side by side, then pairs of rows,
/// then fours.
///
/// # Safety
/// The CPU must have AVX, and four numbers can be read at each row.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn four_columns_of_8(row: impl Fn(usize) -> *const f32) -> [__m256; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        let mut rows = [_mm256_setzero_ps(); 4];
        for (r, both) in rows.iter_mut().enumerate() {
            *both = _mm256_set_m128(_mm_loadu_ps(row(r + 4)), _mm_loadu_ps(row(r)));
        }
        let [a, b, c, d] = rows;
        let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
        let (ab_high, cd_high) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
        [
            _mm256_shuffle_ps::<0b01_00_01_00>(ab, cd),
            _mm256_shuffle_ps::<0b11_10_11_10>(ab, cd),
            _mm256_shuffle_ps::<0b01_00_01_00>(ab_high, cd_high),
            _mm256_shuffle_ps::<0b11_10_11_10>(ab_high, cd_high),
        ]
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array2, s};

    use super::*;

    type Form = unsafe fn(&ArrayRef2<f32>, RawArrayViewMut<f32, Ix2>);

    #[test]
    fn every_element_changes_places() {
        for (rows, columns) in [(0, 3), (1, 1), (16, 16), (17, 5), (33, 50), (48, 32)] {
            let x = Array2::from_shape_fn((rows, columns), |(i, j)| (i * 100 + j) as f32);
            let mut forms: Vec<Form> = vec![transpose, plainly];
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                forms.push(by_avx2);
            }
            for form in forms {
                // A part of wider rows.
                let mut out = Array2::zeros((columns, rows + 3));
                let (mut part, rest) = out.multi_slice_mut((s![.., ..rows], s![.., rows..]));
                // SAFETY: it is another array.
                unsafe { form(&x, part.raw_view_mut()) };
                assert_eq!(part, x.t(), "{rows} x {columns}");
                assert!(rest.iter().all(|&x| x == 0.0), "{rows} x {columns}");
            }
        }
    }
}
