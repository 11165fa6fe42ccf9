//! The transpose of a matrix, in squares that fit the registers.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

use ndarray::ArrayRef2;

use crate::prefetch;

const SIDE: usize = 8;

/// Writes the transpose of `x` (rows, columns), whose rows are contiguous, to `out` (columns, rows).
pub(crate) fn transpose(x: &ArrayRef2<f32>, out: &mut [f32]) {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the CPU has the instructions.
        let square = |x: [&[f32; SIDE]; SIDE], out: &mut [f32], stride| unsafe {
            avx2_square(x, out, stride)
        };
        return in_squares(x, out, square);
    }
    in_squares(x, out, plain_square);
}

#[inline(always)]
fn in_squares(
    x: &ArrayRef2<f32>,
    out: &mut [f32],
    square: impl Fn([&[f32; SIDE]; SIDE], &mut [f32], usize),
) {
    let (rows, columns) = x.dim();
    let stride = x.strides()[0];
    for i in (0..rows).step_by(SIDE) {
        if i + SIDE > rows {
            for (i, row) in x.rows().into_iter().enumerate().skip(i) {
                row.iter()
                    .enumerate()
                    .for_each(|(j, x)| out[j * rows + i] = *x);
            }
            return;
        }
        let lines: [&[f32]; SIDE] =
            std::array::from_fn(|r| x.row(i + r).to_slice().expect("rows are contiguous"));
        let whole = columns - columns % SIDE;
        for j in (0..whole).step_by(SIDE) {
            let lines = lines.map(|line| line[j..].first_chunk().expect("a whole square is left"));
            if j % 16 == 0 {
                // The next squares' rows, whose pages no processor fetches by itself.
                for line in lines {
                    prefetch::line(line.as_ptr().wrapping_offset(SIDE as isize * stride), 0);
                }
            }
            square(lines, &mut out[j * rows + i..], rows);
        }
        for j in whole..columns {
            lines
                .iter()
                .enumerate()
                .for_each(|(r, line)| out[j * rows + i + r] = line[j]);
        }
    }
}

/// Column `c` of the lines becomes `out[c * stride..]`.
fn plain_square(lines: [&[f32; SIDE]; SIDE], out: &mut [f32], stride: usize) {
    for c in 0..SIDE {
        out[c * stride..][..SIDE].copy_from_slice(&lines.map(|line| line[c]));
    }
}

/// As [`plain_square`]: pairs of lines, then fours, then the halves.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2_square(lines: [&[f32; SIDE]; SIDE], out: &mut [f32], stride: usize) {
    // SAFETY: eight numbers each.
    let [a, b, c, d, e, f, g, h] = lines.map(|line| unsafe { _mm256_loadu_ps(line.as_ptr()) });
    let fours = |a, b, c, d| {
        let (ab, cd) = (_mm256_unpacklo_ps(a, b), _mm256_unpacklo_ps(c, d));
        let (ab_high, cd_high) = (_mm256_unpackhi_ps(a, b), _mm256_unpackhi_ps(c, d));
        [
            _mm256_shuffle_ps::<0b01_00_01_00>(ab, cd),
            _mm256_shuffle_ps::<0b11_10_11_10>(ab, cd),
            _mm256_shuffle_ps::<0b01_00_01_00>(ab_high, cd_high),
            _mm256_shuffle_ps::<0b11_10_11_10>(ab_high, cd_high),
        ]
    };
    let (low, high) = (fours(a, b, c, d), fours(e, f, g, h));
    for i in 0..SIDE / 2 {
        let first = _mm256_permute2f128_ps::<0x20>(low[i], high[i]);
        let second = _mm256_permute2f128_ps::<0x31>(low[i], high[i]);
        for (column, at) in [(first, i), (second, i + SIDE / 2)] {
            let out = &mut out[at * stride..][..SIDE];
            // SAFETY: eight numbers.
            unsafe { _mm256_storeu_ps(out.as_mut_ptr(), column) };
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
            in_squares(&x, &mut out, plain_square);
            assert_eq!(out, expected, "{rows} x {columns}, plain");
        }
    }
}
