//! Values that a cell can show: numbers with their shape, and texts.

use ndarray::{Array1, ArrayBase, ArrayD, Data, Dimension, arr0};

/// A computed value, ready to be compared or printed.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Numbers, and their original type: f32 and whole numbers below 2^53 are exact as f64.
    Numbers(ArrayD<f64>, Kind),
    /// A text.
    Text(String),
    /// A list of texts.
    Texts(Vec<String>),
    /// Numbers that are printed in a text: `582 x forward`.
    Lines(ArrayD<f64>, Kind, String),
}

/// The type of numbers before they became f64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An array or a number of f32, which prints as a tensor.
    Tensor,
    /// Python's floats.
    Python,
    /// Token ids, counts, sizes.
    Whole,
}

/// A value that a cell can show.
pub trait Shown {
    /// Itself as a [`Value`].
    fn value(&self) -> Value;
}

/// A number that an array or a list may hold.
pub trait Element: Copy {
    /// The kinds of a single number or an array, and of a list.
    const KINDS: [Kind; 2];
    /// Lossless for the values that cells show.
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

/// Numbers, each in a line of text.
#[derive(Clone, Debug)]
pub struct Lines<T> {
    numbers: Vec<T>,
    text: String,
}

impl<T: Element> Lines<T> {
    /// The numbers, with the line for each index.
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
