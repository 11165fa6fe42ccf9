//! Defines which types the inputs of a notebook can have. A notebook is a Rust port of one of the
//! book's Python notebooks. Its inputs are values in the code, such as a seed, that learners can
//! change on a web page or in a terminal. An input can be a number, a text, a Boolean value, or a
//! matrix. To enter a matrix, learners separate its rows with semicolons, as in `0.4 0.1; 0.5 0.8`.

use std::fmt::Display;

use anyhow::{Result, anyhow, ensure};
use ndarray::Array2;

/// A trait for types that can be used as inputs of a notebook, such as `u64` for a seed or
/// [`Array2`] for a matrix. An input is a value in the notebook's code that learners can change by
/// typing in text, which [`Input::read`] parses.
pub trait Input: Sized {
    /// The type of an input's size, which [`Input::size`] returns. The limits of this size have the
    /// same type. For text, for example, this is `usize`, because the size is the number of
    /// characters.
    type Size: PartialOrd + Display;

    /// Unit of an input's size, used in messages such as `at most 1000 characters`. It begins with
    /// a space, as in ` characters`. It is empty for numbers and Boolean values, because their size
    /// is the value itself.
    const UNIT: &str;

    /// Description of what learners may enter for an input whose value isn't limited.
    const ANY: &str = "any value";

    /// Returns the size of the value that a learner entered for an input. The size of a number or a
    /// Boolean value is the value itself, the size of a text is its number of characters, and the
    /// size of a matrix is its number of elements. If the size is outside the limits that the
    /// notebook specifies, the value is rejected.
    fn size(&self) -> Self::Size;

    /// Parses the text that a learner entered as the new value of an input, such as
    /// `0.4 0.1; 0.5 0.8` for a matrix.
    ///
    /// # Errors
    ///
    /// Returns an error that describes the problem if the learner's text isn't a valid value of
    /// this type.
    fn read(text: &str) -> Result<Self>;

    /// Returns the text that a learner would enter to give an input this value, such as
    /// `0.4 0.1; 0.5 0.8` for a matrix.
    fn written(&self) -> String;

    /// Returns a Rust expression for the value of an input, such as `"a text".to_owned()`. Learners
    /// see this expression in place of the call that reads the input.
    fn code(&self) -> String {
        self.written()
    }
}

macro_rules! number {
    ($($number:ty: $what:literal),*) => {$(
        impl Input for $number {
            type Size = Self;
            const UNIT: &str = "";

            fn code(&self) -> String {
                format!("{self:?}") // `1000.0` instead of `1000` for a floating-point number
            }

            fn size(&self) -> Self {
                *self
            }

            fn read(text: &str) -> Result<Self> {
                text.trim().parse().map_err(|_| anyhow!("`{text}` is not {}", $what))
            }

            fn written(&self) -> String {
                self.to_string()
            }
        }
    )*};
}

number!(usize: "a whole number", f32: "a number", f64: "a number");

/// A seed for random numbers, which learners can enter as an input of a notebook. As in PyTorch, a
/// negative seed `-n` stands for the seed 2^64 - n.
impl Input for u64 {
    type Size = Self;
    const UNIT: &str = "";

    fn size(&self) -> Self {
        *self
    }

    fn read(text: &str) -> Result<Self> {
        let text = text.trim();
        let negative = || text.parse::<i64>().map(i64::cast_unsigned);
        text.parse().or_else(|_| negative()).map_err(|_| {
            anyhow!(
                "`{text}` is not a whole number from {} to {}",
                i64::MIN,
                u64::MAX
            )
        })
    }

    fn written(&self) -> String {
        self.to_string()
    }
}

impl Input for bool {
    type Size = Self;
    const UNIT: &str = "";
    const ANY: &str = "true or false";

    fn size(&self) -> Self {
        *self
    }

    fn read(text: &str) -> Result<Self> {
        let text = text.trim();
        text.to_lowercase()
            .parse()
            .map_err(|_| anyhow!("expected true or false, got `{text}`"))
    }

    fn written(&self) -> String {
        self.to_string()
    }
}

impl Input for String {
    type Size = usize;
    const UNIT: &str = " characters";

    fn size(&self) -> usize {
        self.chars().count()
    }

    fn read(text: &str) -> Result<Self> {
        Ok(text.to_owned())
    }

    fn written(&self) -> String {
        self.clone()
    }

    fn code(&self) -> String {
        format!("{self:?}.to_owned()")
    }
}

impl Input for Array2<f32> {
    type Size = usize;
    const UNIT: &str = " numbers";

    fn size(&self) -> usize {
        self.len()
    }

    fn read(text: &str) -> Result<Self> {
        let mut rows: Vec<Vec<f32>> = Vec::new();
        for row in text.split(';').filter(|row| !row.trim().is_empty()) {
            let numbers = row.split([' ', ',', '\t', '\n']);
            let numbers = numbers.filter(|number| !number.trim().is_empty());
            let number = |number: &str| {
                let value = f32::read(number)?;
                ensure!(
                    value.abs() <= 1e4,
                    "expected numbers from -1e4 to 1e4, got {number}"
                );
                Ok(value)
            };
            rows.push(numbers.map(number).collect::<Result<_>>()?);
        }
        let columns = rows.first().map_or(0, Vec::len);
        for (place, row) in rows.iter().enumerate() {
            let (place, length) = (place + 1, row.len());
            ensure!(
                length == columns,
                "all rows must have the same length, but row 1 has {columns} and row {place} has {length}"
            );
        }
        let count = rows.len();
        ensure!(
            count > 1,
            "expected at least two rows, because the second row is the query; got {count}"
        );
        Ok(Self::from_shape_vec((count, columns), rows.concat())?)
    }

    fn written(&self) -> String {
        let row = |row: ndarray::ArrayView1<f32>| {
            let numbers = row.iter().map(f32::to_string);
            numbers.collect::<Vec<_>>().join(" ")
        };
        let rows: Vec<String> = self.outer_iter().map(row).collect();
        rows.join("; ")
    }

    fn code(&self) -> String {
        let row = |row: ndarray::ArrayView1<f32>| format!("    {:?},\n", row.to_vec());
        let rows: String = self.outer_iter().map(row).collect();
        format!("array![\n{rows}]")
    }
}

#[cfg(test)]
mod tests {
    use ndarray::array;

    use super::*;

    #[test]
    fn what_is_written_is_read_again_and_what_is_wrong_is_named() {
        let matrix = array![[0.5, -1.0], [2.0, 0.25]];
        assert_eq!(matrix.written(), "0.5 -1; 2 0.25");
        assert_eq!(Array2::read("0.5 -1;\n2 0.25;").unwrap(), matrix);
        assert_eq!(
            matrix.code(),
            "array![\n    [0.5, -1.0],\n    [2.0, 0.25],\n]"
        );
        assert_eq!(Array2::read("0.5,-1; 2, 0.25").unwrap(), matrix);
        for (text, fault) in [
            (
                "1 2; 3",
                "all rows must have the same length, but row 1 has 2 and row 2 has 1",
            ),
            ("1; x", "`x` is not a number"),
            (
                "1 2",
                "expected at least two rows, because the second row is the query; got 1",
            ),
            (
                " ;",
                "expected at least two rows, because the second row is the query; got 0",
            ),
            ("1; NaN", "expected numbers from -1e4 to 1e4, got NaN"),
            ("1; 1e39", "expected numbers from -1e4 to 1e4, got 1e39"),
        ] {
            assert_eq!(Array2::read(text).unwrap_err().to_string(), fault);
        }
        assert_eq!(u64::read("-1").unwrap(), u64::MAX); // like torch.manual_seed(-1)
        let error = u64::read("1.5").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`1.5` is not a whole number from -9223372036854775808 to 18446744073709551615"
        );
        assert_eq!("añb".to_owned().size(), 3);
        assert_eq!("a \"b\"".to_owned().code(), "\"a \\\"b\\\"\".to_owned()");
    }
}
