//! Rounding of operands to pairs of bf16 values.
//!
//! AVX512-BF16 and AMX multiply pairs of bf16 values that are neighbors along the inner dimension.
//! A pair is stored in a lane of 32 bits, the size of an `f32`. A matrix of pairs therefore looks
//! like an `f32` matrix with half the inner dimension, so the same code packs and traverses it.

use std::arch::x86_64::*;

use ndarray::{ArrayView2, ShapeBuilder};

use crate::product::kernel::ROW_STRIDE;
use crate::weight::Weight;

/// Returns how much memory [`pair_up`] needs to convert a matrix with the given number of rows to
/// pairs of bf16 values. The unit is a 32-bit lane, which contains one pair.
pub(crate) fn room_for_pairs(rows: usize) -> usize {
    rows * ROW_STRIDE
}

/// Rounds a matrix of the shape (rows, inner) to bf16 and returns the pairs of neighboring values
/// as a matrix of the shape (rows, inner / 2). If `inner` is odd, the second dimension is rounded
/// up, and the last pair of each row is padded with 0.
///
/// The pairs are stored row by row if the rows of `matrix` are contiguous, and otherwise column by
/// column.
///
/// # Safety
///
/// The CPU must support AVX512-BF16 and AVX512-BW.
pub(crate) unsafe fn pair_up<'p, T: Weight>(
    matrix: &ArrayView2<T>,
    pairs: &'p mut [f32],
) -> ArrayView2<'p, f32> {
    let (rows, inner) = matrix.dim();
    let length = inner.div_ceil(2);
    if matrix.strides()[1] == 1 {
        for (row, pairs) in matrix.rows().into_iter().zip(pairs.chunks_mut(ROW_STRIDE)) {
            let row = row.to_slice().expect("a contiguous row");
            // SAFETY: The caller guarantees that the CPU supports the instruction set.
            unsafe { round_row(row, &mut pairs[..length]) };
        }
        let shape = (rows, length).strides((ROW_STRIDE, 1));
        return ArrayView2::from_shape(shape, pairs).expect("as many pairs");
    }
    // Copies a column, or returns zeros for the column that is missing if `inner` is odd.
    let copy = |at: usize| -> Vec<f32> {
        match at < inner {
            true => matrix.column(at).iter().map(|x| x.value()).collect(),
            false => vec![0.0; rows],
        }
    };
    for (pair, pairs) in (0..length).zip(pairs.chunks_exact_mut(rows)) {
        let places = [2 * pair, 2 * pair + 1];
        let columns = places.map(|at| (at < inner).then(|| matrix.column(at).to_slice())?);
        // SAFETY: The caller guarantees that the CPU supports the instruction set.
        unsafe {
            match columns {
                [Some(first), Some(second)] => interleave(first, second, pairs),
                _ => interleave(&copy(places[0]), &copy(places[1]), pairs),
            }
        }
    }
    let shape = (rows, length).strides((1, rows));
    ArrayView2::from_shape(shape, &*pairs).expect("as many pairs")
}

/// Rounds a row to bf16 and writes its values as pairs. If the length of the row is odd, the last
/// pair is padded with 0.
///
/// # Safety
///
/// The CPU must support AVX-512F, AVX512-BW and AVX512-BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
pub(crate) unsafe fn round_row<T: Weight>(row: &[T], pairs: &mut [f32]) {
    const LANES: usize = 32;
    let (blocks, rest) = row.as_chunks::<LANES>();
    let (pairs_of_blocks, pairs_of_rest) = pairs.split_at_mut(blocks.len() * LANES / 2);
    for (block, pairs) in blocks
        .iter()
        .zip(pairs_of_blocks.chunks_exact_mut(LANES / 2))
    {
        // SAFETY: The block contains 32 values, so 16 values can be loaded from index 0 and from
        // index 16.
        let [low, high] = unsafe { [0, 16].map(|at| T::load16(block.as_ptr().add(at))) };
        store_first(round(low, high), pairs);
    }
    if !rest.is_empty() {
        let [low, high] = [0, 16].map(|at| load_first(&rest[at.min(rest.len())..]));
        store_first(round(low, high), pairs_of_rest);
    }
}

/// Rounds 32 values to bf16. In the result, the values of `low` come before those of `high`.
#[target_feature(enable = "avx512f,avx512bf16")]
fn round(low: __m512, high: __m512) -> __m512 {
    // SAFETY: Both types have 512 bits.
    unsafe { std::mem::transmute::<__m512bh, __m512>(_mm512_cvtne2ps_pbh(high, low)) }
}

/// Rounds two neighboring columns of a matrix, `first` and `second`, to bf16 and writes one pair to
/// `pairs` for each row. A pair consists of the row's value in `first` and its value in `second`.
///
/// # Safety
///
/// The CPU must support AVX-512F, AVX512-BW and AVX512-BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512bf16")]
unsafe fn interleave<T: Weight>(first: &[T], second: &[T], pairs: &mut [f32]) {
    const LANES: usize = 16;
    let order = std::array::from_fn::<u16, 32, _>(|at| (at / 2 + at % 2 * LANES) as u16);
    // SAFETY: `order` contains 32 values of 16 bits.
    let order = unsafe { _mm512_loadu_si512(order.as_ptr().cast()) };
    let both = first.chunks(LANES).zip(second.chunks(LANES));
    for ((first, second), pairs) in both.zip(pairs.chunks_mut(LANES)) {
        let rounded = _mm512_castps_si512(round(load_first(first), load_first(second)));
        let paired = _mm512_permutexvar_epi16(order, rounded);
        store_first(_mm512_castsi512_ps(paired), pairs);
    }
}

/// Loads the first 16 values of `numbers` into a vector register, after converting them to `f32`.
/// If there are fewer values, the remaining lanes of the register are set to 0.
#[target_feature(enable = "avx512f")]
fn load_first<T: Weight>(numbers: &[T]) -> __m512 {
    const LANES: usize = 16;
    if numbers.len() >= LANES {
        // SAFETY: 16 values are readable.
        return unsafe { T::load16(numbers.as_ptr()) };
    }
    let mut block = [0.0; LANES];
    T::widen(numbers, &mut block[..numbers.len()]);
    // SAFETY: `block` contains 16 values.
    unsafe { _mm512_loadu_ps(block.as_ptr()) }
}

/// Stores as many lanes as `to` has elements, at most 16.
#[target_feature(enable = "avx512f")]
fn store_first(lanes: __m512, to: &mut [f32]) {
    let mask = u16::MAX >> (16 - to.len());
    // SAFETY: The mask excludes all lanes beyond the end of `to`.
    unsafe { _mm512_mask_storeu_ps(to.as_mut_ptr(), mask, lanes) }
}
