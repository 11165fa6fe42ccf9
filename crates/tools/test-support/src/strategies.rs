//! Proptest strategies that generate matrices and strings. The matrices never contain NaN or
//! infinity, so a test must add such values if it needs them.

use std::ops::Range;

use ndarray::Array2;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

/// Returns the configuration for property tests in a `tests/` folder. Each test is run with `cases`
/// random inputs, unless the environment variable `PROPTEST_CASES` contains a different number. If
/// a test fails, its seed is saved next to the source file of the test, in a file with the
/// extension `.regressions`. Such files should be committed.
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

/// Generates matrices of shape (rows, columns) whose elements are in `-scale..=scale`.
pub fn array2(rows: Range<usize>, columns: Range<usize>, scale: f32) -> BoxedStrategy<Array2<f32>> {
    (rows, columns)
        .prop_flat_map(move |(r, c)| {
            vec(-scale..=scale, r * c).prop_map(move |values| {
                Array2::from_shape_vec((r, c), values).expect("as many values as the shape holds")
            })
        })
        .boxed()
}

/// Generates three kinds of strings: arbitrary characters, printable characters, and sequences of
/// parts that tokenizers treat specially, such as whitespace, digits, contractions and
/// `<|endoftext|>`.
pub fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        vec(any::<char>(), 0..60).prop_map(String::from_iter),
        "[ \t\n\u{1c}\u{85}\u{a0}\u{3000}a-cé0-2²!?'_,.:;()\"-]{0,60}",
        "(  ?[a-zA-Zé界]{1,8}|'(s|t|re|ve|m|ll|d)|[0-9]{1,4}|[ \n\r]{1,5}|(\n\n)?<\\|endoftext\\|>|--){0,20}",
        r"\PC{0,40}",
    ]
}
