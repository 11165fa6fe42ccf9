//! Operands of a product in bf16: two neighbours along the inner dimension share the 32 bits of one
//! f32, as AVX512-BF16 multiplies them.
//!
//! A matrix of pairs has the shape of one of f32 with half the inner dimension, and is packed and
//! walked through in the same way.

use std::arch::x86_64::*;

use ndarray::{ArrayView2, ShapeBuilder};

use crate::product::kernel::ROW_STRIDE;
use crate::weight::Weight;

/// Numbers that [`pair_up`] needs for so many rows.
pub(crate) fn room_for_pairs(rows: usize) -> usize {
    rows * ROW_STRIDE
}

/// Rounds a matrix (rows, inner) to pairs (rows, inner / 2, rounded up), by rows if they are
/// contiguous, otherwise by columns; a missing last neighbour is 0.
///
/// # Safety
/// The CPU must have AVX512-BF16 and AVX512-BW.
pub(crate) unsafe fn pair_up<'p, T: Weight>(
    matrix: &ArrayView2<T>,
    pairs: &'p mut [f32],
) -> ArrayView2<'p, f32> {
    let (rows, inner) = matrix.dim();
    let length = inner.div_ceil(2);
    if matrix.strides()[1] == 1 {
        for (row, pairs) in matrix.rows().into_iter().zip(pairs.chunks_mut(ROW_STRIDE)) {
            let row = row.to_slice().expect("a contiguous row");
            // SAFETY: the caller's promise.
            unsafe { round_row(row, &mut pairs[..length]) };
        }
        let shape = (rows, length).strides((ROW_STRIDE, 1));
        return ArrayView2::from_shape(shape, pairs).expect("as many pairs");
    }
    let mut numbers = [vec![0.0; rows], vec![0.0; rows]];
    for (pair, pairs) in (0..length).zip(pairs.chunks_exact_mut(rows)) {
        for (at, numbers) in numbers.iter_mut().enumerate() {
            match 2 * pair + at {
                place if place < inner => {
                    let column = matrix.column(place);
                    match column.as_slice() {
                        Some(column) => T::widen(column, numbers),
                        None => {
                            (numbers.iter_mut().zip(column)).for_each(|(to, x)| *to = x.value())
                        }
                    }
                }
                _ => numbers.fill(0.0),
            }
        }
        // SAFETY: the caller's promise; all have `rows` numbers.
        unsafe { interleave(&numbers[0], &numbers[1], pairs) };
    }
    let shape = (rows, length).strides((1, rows));
    ArrayView2::from_shape(shape, &*pairs).expect("as many pairs")
}

/// Neighbours of a row become pairs.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(crate) unsafe fn round_row<T: Weight>(row: &[T], pairs: &mut [f32]) {
    const LANES: usize = 32;
    for (row, pairs) in row.chunks(LANES).zip(pairs.chunks_mut(LANES / 2)) {
        let mut numbers = [0.0f32; LANES];
        T::widen(row, &mut numbers[..row.len()]);
        // SAFETY: 32 numbers.
        let rounded = unsafe {
            let [low, high] = [0, 16].map(|at| _mm512_loadu_ps(numbers.as_ptr().add(at)));
            std::mem::transmute::<__m512bh, __m512>(_mm512_cvtne2ps_pbh(high, low))
        };
        store_first(rounded, pairs);
    }
}

/// Numbers of two columns at the same place become pairs.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn interleave(first: &[f32], second: &[f32], pairs: &mut [f32]) {
    const LANES: usize = 16;
    let order = std::array::from_fn::<u16, 32, _>(|at| (at / 2 + at % 2 * LANES) as u16);
    // SAFETY: 32 numbers of 16 bits.
    let order = unsafe { _mm512_loadu_si512(order.as_ptr().cast()) };
    let both = first.chunks(LANES).zip(second.chunks(LANES));
    for ((first, second), pairs) in both.zip(pairs.chunks_mut(LANES)) {
        let [low, high] = [first, second].map(|part| load_first(part));
        // SAFETY: both are 32 numbers of 16 bits.
        let rounded =
            unsafe { std::mem::transmute::<__m512bh, __m512i>(_mm512_cvtne2ps_pbh(high, low)) };
        let paired = _mm512_permutexvar_epi16(order, rounded);
        store_first(_mm512_castsi512_ps(paired), pairs);
    }
}

/// At most 16 numbers; the other lanes are 0.
#[target_feature(enable = "avx512f")]
fn load_first(numbers: &[f32]) -> __m512 {
    let mask = u16::MAX >> (16 - numbers.len());
    // SAFETY: only as many are read.
    unsafe { _mm512_maskz_loadu_ps(mask, numbers.as_ptr()) }
}

/// Writes as many lanes as there is room for.
#[target_feature(enable = "avx512f")]
fn store_first(lanes: __m512, to: &mut [f32]) {
    let mask = u16::MAX >> (16 - to.len());
    // SAFETY: only as many are written.
    unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), mask, lanes) }
}
