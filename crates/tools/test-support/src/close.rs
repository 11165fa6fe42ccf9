//! Assertions that two arrays are equal up to a tolerance.
//!
//! As in PyTorch's `torch.allclose`, a number is considered close to the expected number if
//! `|got - expected| <= absolute + relative * |expected|`. NaN isn't close to any number, and an
//! infinity is close only to itself. Unlike in PyTorch, arrays aren't broadcast, so their shapes
//! must be equal.

use ndarray::{ArrayRef, Dimension};

/// The largest accepted difference between a number and the expected number. An `f64` converts to
/// an absolute tolerance.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Absolute tolerance, which is the same for all numbers.
    pub absolute: f64,
    /// Relative tolerance, as a fraction of the expected number's absolute value. It is added to
    /// the absolute tolerance.
    pub relative: f64,
}

impl From<f64> for Tolerance {
    fn from(absolute: f64) -> Self {
        Self {
            absolute,
            relative: 0.0,
        }
    }
}

impl Tolerance {
    /// Returns the largest difference that is accepted for an expected number.
    fn allowed(self, expected: f64) -> f64 {
        self.absolute + self.relative * expected.abs()
    }

    /// Returns true if `got` is close to `expected`.
    fn accepts(self, got: f64, expected: f64) -> bool {
        // Infinities must be compared first, because the difference of two equal infinities is NaN.
        got == expected
            || (expected.is_finite() && (got - expected).abs() <= self.allowed(expected))
    }
}

/// Asserts that two arrays have the same shape and that their elements are equal up to a tolerance.
/// The elements of each array can be `f32` or `f64`, and the arrays can have any number of
/// dimensions.
///
/// ```
/// use ndarray::array;
/// use test_support::{Tolerance, assert_close};
///
/// assert_close(&array![[0.5_f32, 1.0]], &array![[0.50004_f64, 1.0]], 1e-4);
/// assert_close(&array![1000.5], &array![1000.0], Tolerance { absolute: 0.0, relative: 1e-3 });
/// ```
///
/// # Panics
///
/// Panics if the shapes differ or if an element isn't close to the expected one. The message shows
/// the element that exceeds its tolerance the most: its index, its value, the expected value and
/// the difference.
#[track_caller]
pub fn assert_close<A, B, D1, D2>(
    actual: &ArrayRef<A, D1>,
    expected: &ArrayRef<B, D2>,
    tolerance: impl Into<Tolerance>,
) where
    A: Copy + Into<f64>,
    B: Copy + Into<f64>,
    D1: Dimension,
    D2: Dimension,
{
    assert_close_named("array", actual, expected, tolerance);
}

/// Like [`assert_close`], but the panic message begins with `name`, so that a test that compares
/// several arrays shows which of them is wrong.
///
/// # Panics
///
/// Panics under the same conditions as [`assert_close`].
#[track_caller]
pub fn assert_close_named<A, B, D1, D2>(
    name: &str,
    actual: &ArrayRef<A, D1>,
    expected: &ArrayRef<B, D2>,
    tolerance: impl Into<Tolerance>,
) where
    A: Copy + Into<f64>,
    B: Copy + Into<f64>,
    D1: Dimension,
    D2: Dimension,
{
    assert!(
        actual.shape() == expected.shape(),
        "{name}: the expected shape is {:?}, but the actual shape is {:?}",
        expected.shape(),
        actual.shape(),
    );
    let tolerance = tolerance.into();
    let mut outside = 0;
    // The element that exceeds its tolerance the most: its position, its actual value, its expected
    // value, and by how much the difference of the values exceeds the tolerance.
    let mut worst: Option<(usize, f64, f64, f64)> = None;
    for (position, (&got, &want)) in actual.iter().zip(expected).enumerate() {
        let (got, want): (f64, f64) = (got.into(), want.into());
        if tolerance.accepts(got, want) {
            continue;
        }
        outside += 1;
        let excess = (got - want).abs() - tolerance.allowed(want);
        let excess = if excess.is_nan() {
            f64::INFINITY
        } else {
            excess
        };
        if worst.is_none_or(|(.., largest)| excess > largest) {
            worst = Some((position, got, want, excess));
        }
    }
    if let Some((position, got, want, _)) = worst {
        panic!(
            "{name}: {outside} of {} numbers differ too much from the expected numbers\n  \
             the worst is at index {:?}: expected {want}, got {got}; the difference is {:e}, but \
             at most {:e} is allowed",
            actual.len(),
            index_at(actual, position),
            (got - want).abs(),
            tolerance.allowed(want),
        );
    }
}

/// Converts a position in row-major order to an index that contains one number for each dimension.
pub(crate) fn index_at<A, D: Dimension>(array: &ArrayRef<A, D>, position: usize) -> Vec<usize> {
    let elements = array.view().into_dyn();
    let mut elements = elements.indexed_iter();
    let (index, _) = elements.nth(position).expect("it is one of the elements");
    index.slice().to_vec()
}

#[cfg(test)]
mod tests {
    use ndarray::{array, aview1};

    use super::*;

    #[test]
    fn views_of_any_rank_and_equal_infinities_are_close() {
        let a = array![[1.0_f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
        assert_close(&a.t(), &array![[1.0, 4.0], [2.0, 5.0], [3.0, 6.0]], 0.0);
        assert_close(&a.view().into_dyn(), &a, 0.0);
        assert_close(&aview1(&[1.0_f32]), &array![1.0_f32], 0.0);
        let masked = array![f32::NEG_INFINITY, 1.0];
        assert_close(&masked, &masked, 0.0);
    }

    #[test]
    #[should_panic(expected = "1 of 2 numbers")]
    fn nan_is_close_to_nothing() {
        let a = array![f32::NAN, 1.0];
        assert_close(&a, &a, 1e9);
    }

    #[test]
    #[should_panic(expected = "got inf")]
    fn a_relative_tolerance_does_not_excuse_infinity() {
        let relative = Tolerance {
            absolute: 1.0,
            relative: 1.0,
        };
        assert!(!relative.accepts(1.0, f64::INFINITY));
        assert_close(&array![f64::INFINITY], &array![1.0], relative);
    }

    #[test]
    #[should_panic(
        expected = "logits: 2 of 4 numbers differ too much from the expected numbers\n  \
        the worst is at index [1, 0]: expected 3, got 3.5; the difference is 5e-1, but at most 1e-1 is allowed"
    )]
    fn the_message_names_the_worst_element() {
        let got = array![[1.0, 2.25], [3.5, 4.0]];
        assert_close_named("logits", &got, &array![[1.0, 2.0], [3.0, 4.0]], 0.1);
    }

    #[test]
    #[should_panic(expected = "array: the expected shape is [1, 2], but the actual shape is [2]")]
    fn shapes_must_agree() {
        assert_close(&array![1.0, 2.0], &array![[1.0, 2.0]], 1.0);
    }
}
