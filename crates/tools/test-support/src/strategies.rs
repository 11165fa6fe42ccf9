//! proptest strategies for small arrays with finite numbers in `-scale..=scale`; sizes are `usize`
//! ranges.
//! They do NOT make NaN or infinities: tests of those write them down.

use std::fmt::Debug;
use std::ops::Range;

use ndarray::Array2;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// For tests in a `tests/` folder: `cases` cases, and failing ones kept in a `.txt` beside the
/// test, to be committed.
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

/// Matrices, `(rows, columns)`.
pub fn array2(rows: Range<usize>, columns: Range<usize>, scale: f32) -> BoxedStrategy<Array2<f32>> {
    matrix(-scale..=scale, rows, columns)
}

/// Batches of token ids below `vocab_size`, `(batch, n_tokens)`.
pub fn token_ids(
    vocab_size: u32,
    batch: Range<usize>,
    n_tokens: Range<usize>,
) -> BoxedStrategy<Array2<u32>> {
    matrix(0..vocab_size, batch, n_tokens)
}

fn matrix<T: Debug + 'static>(
    values: impl Strategy<Value = T> + Clone + 'static,
    rows: Range<usize>,
    columns: Range<usize>,
) -> BoxedStrategy<Array2<T>> {
    (rows, columns)
        .prop_flat_map(move |(r, c)| {
            vec(values.clone(), r * c).prop_map(move |values| {
                Array2::from_shape_vec((r, c), values).expect("as many values as the shape holds")
            })
        })
        .boxed()
}
