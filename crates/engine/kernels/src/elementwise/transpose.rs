//! Transposition of matrices, in square blocks that fit in the vector registers.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use ndarray::{ArrayRef2, ArrayViewMut2, Ix2, RawArrayViewMut};

#[cfg(target_arch = "x86_64")]
use crate::prefetch;
#[cfg(target_arch = "x86_64")]
use crate::register::Register;

/// Writes the transpose of `x` to `out`. If `x` has the shape (rows, columns), `out` must have the
/// shape (columns, rows).
///
/// # Panics
///
/// Panics if `out` doesn't have the shape of the transpose, or if the rows of `x` or `out` aren't
/// contiguous.
pub fn transpose_into(x: &ArrayRef2<f32>, mut out: ArrayViewMut2<'_, f32>) {
    // SAFETY: `out` is borrowed mutably, so it is writable and doesn't overlap `x`.
    unsafe { transpose(x, out.raw_view_mut()) };
}

/// Writes the transpose of `x` to `out`, whose elements may be uninitialized. If `x` has the shape
/// (rows, columns), `out` must have the shape (columns, rows).
///
/// # Panics
///
/// Panics if `out` doesn't have the shape of the transpose, or if the rows of `x` or `out` aren't
/// contiguous.
///
/// # Safety
///
/// `out` must be writable and must not overlap `x`.
pub(crate) unsafe fn transpose(x: &ArrayRef2<f32>, out: RawArrayViewMut<f32, Ix2>) {
    // SAFETY: The caller guarantees that `out` is writable and doesn't overlap `x`. The vector
    // versions are called only if the CPU supports their instruction set.
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
        portable(x, out);
    }
}

/// Computes [`transpose`] with AVX-512.
///
/// # Safety
///
/// `out` must be writable and must not overlap `x`, and the CPU must have AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn by_avx512(x: &ArrayRef2<f32>, out: RawArrayViewMut<f32, Ix2>) {
    // SAFETY: The caller guarantees that `out` is writable and doesn't overlap `x`. `in_squares`
    // calls the closure only with blocks that are within `x`.
    unsafe {
        in_squares::<16>(x, out, |square| match square.columns {
            16 => avx512_square(square),
            _ => element_by_element(square),
        });
    }
}

/// Computes [`transpose`] with AVX2.
///
/// # Safety
///
/// `out` must be writable and must not overlap `x`, and the CPU must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn by_avx2(x: &ArrayRef2<f32>, out: RawArrayViewMut<f32, Ix2>) {
    // SAFETY: The caller guarantees that `out` is writable and doesn't overlap `x`. `in_squares`
    // calls the closure only with blocks that are within `x`.
    unsafe {
        in_squares::<8>(x, out, |square| match (square.rows, square.columns) {
            (8, 8) => avx2_square(square),
            _ => element_by_element(square),
        });
    }
}

/// Computes [`transpose`] without instructions that only some CPUs support.
///
/// # Safety
///
/// `out` must be writable and must not overlap `x`.
unsafe fn portable(x: &ArrayRef2<f32>, out: RawArrayViewMut<f32, Ix2>) {
    // SAFETY: The caller guarantees that `out` is writable and doesn't overlap `x`. `in_squares`
    // calls the closure only with blocks that are within `x`.
    unsafe { in_squares::<8>(x, out, |square| element_by_element(square)) };
}

/// A square block of a matrix, and the address to which the transpose of the block is written. A
/// block at the edge of the matrix may have fewer rows or columns.
struct Square {
    rows: usize,
    columns: usize,
    from: *const f32,
    /// Distance between rows of the matrix, in values.
    stride: isize,
    to: *mut f32,
    /// Distance between rows of the transpose, in values.
    stride_of_to: isize,
}

impl Square {
    fn row(&self, r: usize) -> *const f32 {
        self.from.wrapping_offset(r as isize * self.stride)
    }

    /// Returns the address to which the transpose of column `c` of the block is written. In the
    /// transposed matrix, this column is part of a row, so its values are contiguous.
    fn column(&self, c: usize) -> *mut f32 {
        self.to.wrapping_offset(c as isize * self.stride_of_to)
    }
}

/// Divides `x` into blocks and calls `transpose` for each of them. All blocks in the same columns
/// of `x` are transposed one after the other, so each row of `out` is written from its beginning to
/// its end.
///
/// # Panics
///
/// Panics if `out` doesn't have the shape of the transpose, or if the rows of `x` or `out` aren't
/// contiguous.
///
/// # Safety
///
/// `out` must be writable and must not overlap `x`.
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
            // SAFETY: `i` is the index of a row of `x`, and `j` is the index of a column. In the
            // transpose `out`, whose shape has been checked, `j` is therefore the index of a row
            // and `i` the index of a column, so both addresses are within the matrices.
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

/// Transposes a block of any size, one element at a time.
///
/// # Safety
///
/// The block `square` must be completely within its matrix, and the memory to which its transpose
/// is written must be writable.
#[inline(always)]
unsafe fn element_by_element(square: Square) {
    for c in 0..square.columns {
        for r in 0..square.rows {
            // SAFETY: The caller guarantees that the block is within its matrix and that its
            // transpose is writable.
            unsafe { *square.column(c).add(r) = *square.row(r).add(c) };
        }
    }
}

/// Transposes a block with 16 columns, four columns at a time. If the block has fewer than 16 rows,
/// its last row is loaded again in place of each missing row, because this is faster than a branch.
/// The results for the missing rows aren't stored.
///
/// # Safety
///
/// The block must have 16 columns and be within its matrix, and its transpose must be writable. The
/// CPU must have AVX-512F.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
#[inline]
unsafe fn avx512_square(square: Square) {
    /// Prefetch distance within each row of the matrix, in bytes. The rows of a block may be on
    /// different memory pages, so the hardware prefetcher doesn't help.
    const PREFETCH_DISTANCE: usize = 256;
    for r in 0..16 {
        prefetch::line(square.row(r.min(square.rows - 1)), PREFETCH_DISTANCE);
    }
    for quad in (0..16).step_by(4) {
        // SAFETY: The caller guarantees that the block is within its matrix and that its transpose
        // is writable.
        unsafe {
            let row = |r: usize| square.row(r.min(square.rows - 1)).add(quad);
            for (c, column) in four_columns_of_16(row).into_iter().enumerate() {
                column.store_first(square.column(quad + c), square.rows);
            }
        }
    }
}

/// Loads four neighboring columns of a block with 16 rows, and returns each column in a vector
/// register. To transpose the block, this function is called once for every four columns. `row(r)`
/// must return the address of the first of the four values in row `r`.
///
/// First, each of four registers is filled with the values of four of the 16 rows. Register `r`
/// contains the rows `r`, `r + 4`, `r + 8` and `r + 12`. The columns are then produced by
/// interleaving first single values and then pairs of values of these registers.
///
/// # Safety
///
/// The CPU must have AVX-512F, and four values must be readable at each address that `row` returns.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn four_columns_of_16(row: impl Fn(usize) -> *const f32) -> [__m512; 4] {
    // SAFETY: The caller guarantees that the CPU has AVX-512F and that four values are readable at
    // each address.
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

/// Transposes a block of 8 x 8 values.
///
/// # Safety
///
/// The block must have 8 rows and 8 columns and be within its matrix, and its transpose must be
/// writable. The CPU must have AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
#[inline]
unsafe fn avx2_square(square: Square) {
    for half in [0, 4] {
        // SAFETY: The caller guarantees that the block is within its matrix and that its transpose
        // is writable.
        unsafe {
            let columns = four_columns_of_8(|r| square.row(r).add(half));
            for (c, column) in columns.into_iter().enumerate() {
                _mm256_storeu_ps(square.column(half + c), column);
            }
        }
    }
}

/// Loads four neighboring columns of a block with 8 rows, and returns each column in a vector
/// register. To transpose the block, this function is called once for every four columns. `row(r)`
/// must return the address of the first of the four values in row `r`.
///
/// First, each of four registers is filled with the values of two of the 8 rows. Register `r`
/// contains the rows `r` and `r + 4`. The columns are then produced by interleaving first single
/// values and then pairs of values of these registers.
///
/// # Safety
///
/// The CPU must have AVX, and four values must be readable at each address that `row` returns.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(crate) unsafe fn four_columns_of_8(row: impl Fn(usize) -> *const f32) -> [__m256; 4] {
    // SAFETY: The caller guarantees that the CPU has AVX and that four values are readable at each
    // address.
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
            let mut forms: Vec<Form> = vec![transpose, portable];
            #[cfg(target_arch = "x86_64")]
            if is_x86_feature_detected!("avx2") {
                forms.push(by_avx2);
            }
            for form in forms {
                // The output is a part of a matrix with longer rows.
                let mut out = Array2::zeros((columns, rows + 3));
                let (mut part, rest) = out.multi_slice_mut((s![.., ..rows], s![.., rows..]));
                // SAFETY: `part` is a mutable borrow of another array.
                unsafe { form(&x, part.raw_view_mut()) };
                assert_eq!(part, x.t(), "{rows} x {columns}");
                assert!(rest.iter().all(|&x| x == 0.0), "{rows} x {columns}");
            }
        }
    }
}
