//! Converts the values that a learner's functions return, such as arrays, token IDs and strings, to
//! the common type [`Answer`], so that checks can compare and print them.

use std::fmt;

use ndarray::{Array, Dimension};

/// Largest allowed difference from an expected number. If the absolute value of the expected number
/// is greater than 1, this is the relative difference. Otherwise, it is the absolute difference.
const TOLERANCE: f64 = 1e-4;

/// Maximum number of values that are printed for a result.
const SHOWN: usize = 12;

/// A result of an exercise, in a form that checks can compare and print: either the value that a
/// learner's function returned, or the expected value.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// Shape of an array, and its numbers in row-major order.
    Numbers(Vec<usize>, Vec<f64>),
    /// Token IDs.
    Ids(Vec<u32>),
    /// Training windows of a text. A window consists of input IDs and target IDs, and is stored as
    /// a string such as `[1, 2] -> [2, 3]`.
    Windows(Vec<String>),
    Text(String),
    /// Error that a function returned.
    Error(String),
}

/// A type that a learner's function can return.
pub(crate) trait ToAnswer {
    fn answer(&self) -> Answer;
}

impl<T: Copy + Into<f64>, D: Dimension> ToAnswer for Array<T, D> {
    fn answer(&self) -> Answer {
        let numbers = self.iter().map(|&x| x.into()).collect();
        Answer::Numbers(self.shape().to_vec(), numbers)
    }
}

impl ToAnswer for f32 {
    fn answer(&self) -> Answer {
        f64::from(*self).answer()
    }
}

impl ToAnswer for f64 {
    fn answer(&self) -> Answer {
        Answer::Numbers(Vec::new(), vec![*self])
    }
}

impl ToAnswer for Vec<u32> {
    fn answer(&self) -> Answer {
        Answer::Ids(self.clone())
    }
}

impl ToAnswer for Vec<(Vec<u32>, Vec<u32>)> {
    fn answer(&self) -> Answer {
        let window =
            |(inputs, targets): &(Vec<u32>, Vec<u32>)| format!("{inputs:?} -> {targets:?}");
        Answer::Windows(self.iter().map(window).collect())
    }
}

impl ToAnswer for &str {
    fn answer(&self) -> Answer {
        Answer::Text((*self).to_owned())
    }
}

impl ToAnswer for String {
    fn answer(&self) -> Answer {
        Answer::Text(self.clone())
    }
}

impl<T: ToAnswer> ToAnswer for Result<T, String> {
    fn answer(&self) -> Answer {
        match self {
            Ok(value) => value.answer(),
            Err(error) => Answer::Error(error.clone()),
        }
    }
}

impl Answer {
    /// Returns the numbers of an array or the IDs of a list. Returns an empty vector if the answer
    /// is neither an array nor a list of IDs.
    pub(crate) fn numbers(&self) -> Vec<f64> {
        match self {
            Self::Numbers(_, numbers) => numbers.clone(),
            Self::Ids(ids) => ids.iter().map(|&id| f64::from(id)).collect(),
            Self::Windows(_) | Self::Text(_) | Self::Error(_) => Vec::new(),
        }
    }

    /// Describes the first difference from the expected result. Returns `None` if the results
    /// agree.
    ///
    /// If the answers contain numbers, they may differ slightly because of rounding errors.
    /// `tolerance` receives the index of a number and its expected value, and returns the largest
    /// allowed difference.
    pub(crate) fn difference(
        &self,
        expected: &Self,
        tolerance: impl Fn(usize, f64) -> f64,
    ) -> Option<String> {
        match (self, expected) {
            (Self::Numbers(shape, ours), Self::Numbers(expected_shape, expected)) => {
                if shape != expected_shape {
                    return Some(format!(
                        "the shape is {shape:?}, but it should be {expected_shape:?}"
                    ));
                }
                let is_off = |index: usize, x: f64, y: f64| {
                    let is_finite = x.is_finite() && y.is_finite();
                    x != y
                        && !(x.is_nan() && y.is_nan())
                        && !(is_finite && (x - y).abs() <= tolerance(index, y))
                };
                let mut pairs = ours.iter().zip(expected).enumerate();
                let (index, (x, y)) = pairs.find(|(index, (x, y))| is_off(*index, **x, **y))?;
                Some(format!(
                    "{} is {}",
                    subject_of(index, shape),
                    compared(*x, *y)
                ))
            }
            (ours, expected) if ours == expected => None,
            (Self::Ids(ours), Self::Ids(expected)) if ours.len() != expected.len() => {
                let shown = format!(" ({self})");
                Some(wrong_count(ours.len(), expected.len(), "ID", &shown))
            }
            (Self::Ids(ours), Self::Ids(expected)) => {
                let mut pairs = ours.iter().zip(expected).enumerate();
                let (index, (x, y)) = pairs.find(|(_, (x, y))| x != y)?;
                Some(format!("the ID at [{index}] is {x}, but it should be {y}"))
            }
            (Self::Windows(ours), Self::Windows(expected)) if ours.len() != expected.len() => {
                Some(wrong_count(ours.len(), expected.len(), "window", ""))
            }
            (Self::Windows(ours), Self::Windows(expected)) => {
                let mut pairs = ours.iter().zip(expected).enumerate();
                let (index, (x, y)) = pairs.find(|(_, (x, y))| x != y)?;
                let number = index + 1;
                Some(format!(
                    "the inputs and targets of window {number} are {x}, but they should be {y}"
                ))
            }
            (ours, expected) => Some(format!("your code returned {ours} instead of {expected}")),
        }
    }

    pub(crate) fn equals(&self, other: &Self) -> bool {
        self.difference(other, usual).is_none()
    }
}

/// Returns the default tolerance, which is the largest allowed difference from the expected number
/// `y`.
pub(crate) fn usual(_index: usize, y: f64) -> f64 {
    TOLERANCE * y.abs().max(1.0)
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let items: Vec<String> = match self {
            Self::Text(text) => return write!(f, "{text:?}"),
            Self::Error(error) => return write!(f, "the error {error:?}"),
            Self::Numbers(_, numbers) => numbers.iter().map(|&x| rounded(x, 4)).collect(),
            Self::Ids(ids) => ids.iter().map(u32::to_string).collect(),
            Self::Windows(windows) => windows.clone(),
        };
        let more = if items.len() > SHOWN { ", ..." } else { "" };
        let shown = &items[..items.len().min(SHOWN)];
        write!(f, "[{}{more}]", shown.join(", "))
    }
}

/// Formats a number with at most `decimals` decimals.
fn rounded(x: f64, decimals: usize) -> String {
    let rounded: f64 = format!("{x:.decimals$}").parse().unwrap_or(x);
    rounded.to_string()
}

/// Describes the difference between the learner's number `x` and the expected number `y` for the
/// report, such as `1, but it should be 2`. The numbers are printed with enough decimals to tell
/// them apart.
fn compared(x: f64, y: f64) -> String {
    let texts = |decimals| (rounded(x, decimals), rounded(y, decimals));
    let differ = |(x, y): &(String, String)| x != y;
    let (x, y) = (4..9).map(texts).find(differ).unwrap_or_else(|| texts(9));
    format!("{x}, but it should be {y}")
}

/// Returns a message about a result that contains the wrong number of items, such as `your code
/// returned 1 value, but 6 are expected`. `item` is the singular of the noun for the items, and
/// `shown` is inserted after this noun.
pub(crate) fn wrong_count(count: usize, expected: usize, item: &str, shown: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    let are = if expected == 1 { "is" } else { "are" };
    format!("your code returned {count} {item}{plural}{shown}, but {expected} {are} expected")
}

/// Returns the subject of a message about a number in an array, such as `the number at [1, 2]`.
/// Returns `the result` if the array contains at most one number.
fn subject_of(mut index: usize, shape: &[usize]) -> String {
    if shape.iter().product::<usize>() < 2 {
        return "the result".to_owned();
    }
    let mut at = Vec::new();
    for &size in shape.iter().rev() {
        at.insert(0, index % size);
        index /= size;
    }
    format!("the number at {at:?}")
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn a_difference_says_what_is_wrong_where() {
        let between = |ours: Answer, expected: Answer| ours.difference(&expected, usual);
        let numbers = array![[1.0f32, 2.0], [3.0, 4.0]];
        let mut other = numbers.clone();
        assert_eq!(between(other.answer(), numbers.answer()), None);
        other[[1, 0]] = 3.00042;
        let text = between(other.answer(), numbers.answer()).unwrap();
        assert_eq!(text, "the number at [1, 0] is 3.0004, but it should be 3");
        let text = between(array![1.0f32].answer(), numbers.answer()).unwrap();
        assert_eq!(text, "the shape is [1], but it should be [2, 2]");
        let text = between(1.00002f32.answer(), 1.0f32.answer());
        assert_eq!(text, None, "within the tolerance");
        let text = between(f32::NAN.answer(), 1.0f32.answer()).unwrap();
        assert_eq!(text, "the result is NaN, but it should be 1");
        let text = between(vec![5, 6].answer(), vec![5].answer()).unwrap();
        assert_eq!(text, "your code returned 2 IDs ([5, 6]), but 1 is expected");
        let text = between(vec![5, 6].answer(), vec![5, 7].answer()).unwrap();
        assert_eq!(text, "the ID at [1] is 6, but it should be 7");
        let window = |start: u32| (vec![start], vec![start + 1]);
        let windows = |n: u32| (0..n).map(window).collect::<Vec<_>>().answer();
        let text = between(windows(3), windows(4)).unwrap();
        assert_eq!(text, "your code returned 3 windows, but 4 are expected");
        let text = between(vec![window(7)].answer(), windows(1)).unwrap();
        assert_eq!(
            text,
            "the inputs and targets of window 1 are [7] -> [8], but they should be [0] -> [1]"
        );
        let error: Result<Vec<u32>, String> = Err("no".to_owned());
        let text = between(error.answer(), vec![1].answer()).unwrap();
        assert_eq!(text, "your code returned the error \"no\" instead of [1]");
        let text = compared(1.000001, 1.000002);
        assert_eq!(text, "1.000001, but it should be 1.000002");
    }
}
