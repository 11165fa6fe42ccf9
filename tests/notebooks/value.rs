//! Types of the values that the cells of a notebook can show: numbers, arrays, strings, and lists.

use ndarray::{Array1, ArrayBase, ArrayD, Data, Dimension, arr0};

/// A value that a cell computes, in a form that can be printed and compared with the output of the
/// original document.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An array of numbers and the kind that determines how the numbers are printed and compared.
    /// The numbers are stored as `f64`, which represents all `f32` numbers and all whole numbers
    /// below 2^53 exactly.
    Numbers(ArrayD<f64>, Kind),
    /// A string.
    Text(String),
    /// A list of strings.
    Texts(Vec<String>),
    /// An array of numbers with its kind (see [`Value::Numbers`]), and a text that contains the
    /// numbers, such as `582 x forward`. Learners see the text, whereas only the numbers are
    /// compared with the output of the original document.
    Lines(ArrayD<f64>, Kind, String),
}

/// Specifies how the numbers in a [`Value`] are printed and compared. The kind depends on the type
/// that the numbers had before they were converted to `f64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Numbers that are printed as a PyTorch tensor.
    Tensor,
    /// Floating-point numbers that are printed as Python floats.
    Python,
    /// Whole numbers, such as token IDs, counts and sizes. They must be equal to the numbers in the
    /// output of the original document.
    Whole,
}

/// A type whose values a cell can show.
pub trait Shown {
    /// Converts the value to a [`Value`].
    fn value(&self) -> Value;
}

/// A numeric type, such as `f32`, whose values a cell can show in an array or a list.
pub trait Element: Copy {
    /// Kinds that determine how numbers of this type are printed and compared: `KINDS[0]` for
    /// single numbers and arrays, and `KINDS[1]` for lists. For example, an array of `f32` numbers
    /// is printed as a PyTorch tensor, whereas a list of `f32` numbers is printed as a list of
    /// Python floats.
    const KINDS: [Kind; 2];
    /// Converts the number to `f64`. The conversion is exact for all numbers that cells show.
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

/// A list of numbers that is shown as a text with one line for each number.
#[derive(Clone, Debug)]
pub struct Lines<T> {
    numbers: Vec<T>,
    text: String,
}

impl<T: Element> Lines<T> {
    /// Creates a list of numbers that is shown as a text. For each number, the function `line`
    /// receives the index and the number and returns the corresponding line of the text.
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
