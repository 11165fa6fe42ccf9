//! Defines the values that the cells of a notebook can show: numbers, arrays, strings, and lists. A
//! notebook is a Rust port of one of the book's Python notebooks, and it compares these values with
//! the output of the Python notebook.

use ndarray::{Array1, ArrayBase, ArrayD, Data, Dimension, arr0};

/// A value that a notebook cell computes. It can be printed the way PyTorch or Python would print
/// it, and compared with the output of the original Python notebook.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An array of numbers, and a `Kind` that determines how the numbers are printed and compared,
    /// for example as a PyTorch tensor. The numbers are stored as `f64`, which represents all `f32`
    /// numbers and all whole numbers below 2^53 exactly.
    Numbers(ArrayD<f64>, Kind),
    /// A string, which must be equal to the text that the original Python notebook prints.
    Text(String),
    /// A list of strings, which is printed as a Python list, such as `['It', "'s"]`.
    Texts(Vec<String>),
    /// An array of numbers with its `Kind` (see [`Value::Numbers`]), and a text that contains these
    /// numbers, such as `582 x forward`. Learners see the text, but only the numbers are compared
    /// with the output of the original Python notebook.
    Lines(ArrayD<f64>, Kind, String),
}

/// Specifies how the numbers in a [`Value`] are printed and compared with the output of a Python
/// notebook. The kind depends on the type that the numbers had before they were converted to `f64`.
/// For example, an array of `f32` numbers is printed as a PyTorch tensor, but a count is printed as
/// a whole number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numbers that are printed as a PyTorch tensor, such as `tensor([0.9544])`.
    Tensor,
    /// A single floating-point number or a list of such numbers, which is printed the way Python
    /// prints floats, such as `0.95442` or `[0.5, 1.0]`.
    Python,
    /// Whole numbers, such as token IDs, counts and sizes. They must be exactly equal to the
    /// numbers in the output of the original Python notebook.
    Whole,
}

/// A type whose values a notebook can show in a cell and compare with the output of a Python
/// notebook, such as `f32`, an array, or `String`.
pub trait Shown {
    /// Converts the value to a [`Value`], the common form in which cells print and compare values.
    fn value(&self) -> Value;
}

/// A numeric type, such as `f32`. A notebook cell can show its values on their own, in an array, or
/// in a list.
pub trait Element: Copy {
    /// Formats in which numbers of this type are printed and compared with the output of a Python
    /// notebook. `KINDS[0]` is for single numbers and arrays, and `KINDS[1]` is for lists. For
    /// example, an array of `f32` numbers is printed as a PyTorch tensor, such as
    /// `tensor([0.5000])`, whereas a list of `f32` numbers is printed as a list of Python floats,
    /// such as `[0.5]`.
    const KINDS: [Kind; 2];
    /// Converts the number to `f64`, the type in which a [`Value`] stores all numbers. The
    /// conversion is exact for all numbers that notebooks show.
    fn to_f64(self) -> f64;
}

macro_rules! element {
    ($($number:ty: $kinds:expr),*) => {$(
        impl Element for $number {
            const KINDS: [Kind; 2] = $kinds;
            fn to_f64(self) -> f64 {
                self as f64
            }
        }
        impl Shown for $number {
            fn value(&self) -> Value {
                Value::Numbers(arr0(self.to_f64()).into_dyn(), Self::KINDS[0])
            }
        }
    )*};
}

element!(
    f32: [Kind::Tensor, Kind::Python],
    f64: [Kind::Python, Kind::Python],
    u32: [Kind::Whole, Kind::Whole],
    u64: [Kind::Whole, Kind::Whole],
    usize: [Kind::Whole, Kind::Whole]
);

impl<T: Element, S: Data<Elem = T>, D: Dimension> Shown for ArrayBase<S, D> {
    fn value(&self) -> Value {
        Value::Numbers(self.mapv(T::to_f64).into_dyn(), T::KINDS[0])
    }
}

impl<T: Element> Shown for [T] {
    fn value(&self) -> Value {
        let numbers: Array1<f64> = self.iter().map(|number| number.to_f64()).collect();
        Value::Numbers(numbers.into_dyn(), T::KINDS[1])
    }
}

impl<T: Element, const N: usize> Shown for [T; N] {
    fn value(&self) -> Value {
        self.as_slice().value()
    }
}

impl<T> Shown for Vec<T>
where
    [T]: Shown,
{
    fn value(&self) -> Value {
        self.as_slice().value()
    }
}

impl Shown for str {
    fn value(&self) -> Value {
        Value::Text(self.to_owned())
    }
}

impl Shown for String {
    fn value(&self) -> Value {
        self.as_str().value()
    }
}

impl Shown for [&str] {
    fn value(&self) -> Value {
        Value::Texts(self.iter().map(|&text| text.to_owned()).collect())
    }
}

impl Shown for [String] {
    fn value(&self) -> Value {
        Value::Texts(self.to_vec())
    }
}

impl<T: Shown + ?Sized> Shown for &T {
    fn value(&self) -> Value {
        (**self).value()
    }
}

/// A list of numbers that a notebook shows to learners as text with one line per number. For
/// example, the line for the number 582 may be `582 x forward`. Only the numbers are compared with
/// the output of the original Python notebook.
#[derive(Clone, Debug)]
pub struct Lines<T> {
    numbers: Vec<T>,
    text: String,
}

impl<T: Element> Lines<T> {
    /// Creates a list of numbers that a notebook shows as text with one line per number. The
    /// function `line` receives a number's index and the number itself, and returns the line for
    /// this number, such as `582 x forward`.
    pub fn new(numbers: Vec<T>, line: impl Fn(usize, T) -> String) -> Self {
        let lines = numbers
            .iter()
            .enumerate()
            .map(|(index, number)| line(index, *number));
        let text = lines.collect::<Vec<_>>().join("\n");
        Self { numbers, text }
    }
}

impl<T: Element> Shown for Lines<T> {
    fn value(&self) -> Value {
        let numbers: Array1<f64> = self.numbers.iter().map(|number| number.to_f64()).collect();
        Value::Lines(numbers.into_dyn(), T::KINDS[1], self.text.clone())
    }
}
