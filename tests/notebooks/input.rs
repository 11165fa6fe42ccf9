//! Types of the inputs of a notebook, which are values that learners can change. An input can be a
//! number, a text, a Boolean value, or a matrix. To enter a matrix, learners separate its rows by
//! semicolons, as in `0.4 0.1; 0.5 0.8`.

use std::fmt::Display;

use anyhow::{Result, anyhow, ensure};
use ndarray::Array2;

/// A type of the inputs of a notebook. An input is a value in the notebook's code that learners can
/// change.
pub trait Input: Sized {
    /// Type of [`Input::size`] and of the bounds within which the size must lie.
    type Size: PartialOrd + Display;

    /// Unit of the number that [`Input::size`] returns, such as ` characters`. It is empty if the
    /// size of an input is the input's value itself.
    const UNIT: &str;

    /// Description of the allowed values of an input without bounds.
    const ANY: &str = "any value";

    /// Returns the size of an input, which must lie within the bounds that the notebook specifies.
    /// The size of a number or a Boolean value is the value itself, the size of a text is its
    /// number of characters, and the size of a matrix is its number of elements.
    fn size(&self) -> Self::Size;

    /// Parses the text that a learner entered.
    ///
    /// # Errors
    ///
    /// Returns an error that describes the problem if the text doesn't represent a valid value of
    /// this type.
    fn read(text: &str) -> Result<Self>;

    /// Returns the value in the notation in which a learner would enter it.
    fn written(&self) -> String;

    /// Returns a Rust expression for the value.
    fn code(&self) -> String {
        self.written()
    }
}

macro_rules! number {
    ($($number:ty: $what:literal),*) => {$(
        impl Input for $number {
            type Size = Self;
            const UNIT: &str = "";

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

/// A seed for random numbers. As in PyTorch, a negative seed `-n` stands for 2^64 - n.
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
