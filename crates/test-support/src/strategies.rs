//! proptest strategies for small arrays with finite numbers in `-scale..=scale`; sizes are `usize` ranges.
//! They do NOT make NaN or infinities: tests of those write them down.

use std::ops::Range;

use ndarray::{Array1, Array2, Array3, Array4, ArrayD, Ix1, Ix2, Ix3, Ix4};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// For tests in a `tests/` folder: `cases` cases, and failing ones kept in a `.txt` beside the test, to be committed.
pub fn proptest_config(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases: std::env::var("PROPTEST_CASES")
            .ok()
            .and_then(|asked| asked.parse().ok())
            .unwrap_or(cases),
        failure_persistence: Some(Box::new(FileFailurePersistence::WithSource("regressions"))),
        ..ProptestConfig::default()
    }
}

/// Arrays of exactly this shape.
pub fn array_of_shape(shape: &[usize], scale: f32) -> BoxedStrategy<ArrayD<f32>> {
    let shape = shape.to_vec();
    vec(-scale..=scale, shape.iter().product::<usize>())
        .prop_map(move |values| {
            ArrayD::from_shape_vec(shape.clone(), values)
                .expect("as many values as the shape holds")
        })
        .boxed()
}

/// Vectors, length in `len`.
pub fn array1(len: Range<usize>, scale: f32) -> BoxedStrategy<Array1<f32>> {
    len.prop_flat_map(move |n| array_of_shape(&[n], scale))
        .prop_map(|a| a.into_dimensionality::<Ix1>().expect("one size was given"))
        .boxed()
}

/// Matrices, `(rows, columns)`.
///
/// ```
/// use proptest::prelude::*;
///
/// proptest! {
///     // in a test, with #[test]
///     fn relu_is_never_negative(x in test_support::array2(1..5, 1..5, 3.0)) {
///         prop_assert!(x.mapv(|x| x.max(0.0)).iter().all(|&x| x >= 0.0));
///     }
/// }
/// # relu_is_never_negative();
/// ```
pub fn array2(rows: Range<usize>, columns: Range<usize>, scale: f32) -> BoxedStrategy<Array2<f32>> {
    (rows, columns)
        .prop_flat_map(move |(r, c)| array_of_shape(&[r, c], scale))
        .prop_map(|a| {
            a.into_dimensionality::<Ix2>()
                .expect("two sizes were given")
        })
        .boxed()
}

/// Arrays of three dimensions, such as `(batch, n_tokens, emb_dim)`.
pub fn array3(sizes: [Range<usize>; 3], scale: f32) -> BoxedStrategy<Array3<f32>> {
    sizes
        .prop_flat_map(move |shape| array_of_shape(&shape, scale))
        .prop_map(|a| {
            a.into_dimensionality::<Ix3>()
                .expect("three sizes were given")
        })
        .boxed()
}

/// Arrays of four dimensions, such as `(batch, n_heads, n_tokens, head_dim)`.
pub fn array4(sizes: [Range<usize>; 4], scale: f32) -> BoxedStrategy<Array4<f32>> {
    sizes
        .prop_flat_map(move |shape| array_of_shape(&shape, scale))
        .prop_map(|a| {
            a.into_dimensionality::<Ix4>()
                .expect("four sizes were given")
        })
        .boxed()
}

/// Batches of token ids below `vocab_size`, `(batch, n_tokens)`.
pub fn token_ids(
    vocab_size: u32,
    batch: Range<usize>,
    n_tokens: Range<usize>,
) -> BoxedStrategy<Array2<u32>> {
    (batch, n_tokens)
        .prop_flat_map(move |(b, t)| {
            vec(0..vocab_size, b * t).prop_map(move |ids| {
                Array2::from_shape_vec((b, t), ids).expect("as many ids as the shape holds")
            })
        })
        .boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest! {
        #[test]
        fn sizes_and_values_stay_in_their_ranges(
            a in array1(0..4, 0.1),
            b in array2(1..3, 2..5, 1.0),
            c in array3([1..2, 1..3, 1..4], 3.0),
            d in array4([1..2, 1..3, 1..4, 2..3], 3.0),
            ids in token_ids(7, 1..3, 1..5),
        ) {
            prop_assert!(a.len() < 4 && a.iter().all(|x| x.abs() <= 0.1));
            prop_assert!((1..3).contains(&b.nrows()) && (2..5).contains(&b.ncols()));
            prop_assert!(b.iter().all(|x| x.abs() <= 1.0));
            prop_assert!(c.dim().1 < 3 && c.iter().all(|x| x.abs() <= 3.0));
            prop_assert!(d.dim().3 == 2 && d.iter().all(|x| x.is_finite()));
            prop_assert!(ids.iter().all(|&id| id < 7));
        }
    }
}
