//! Values that a reader may change: numbers, texts, and matrices written as rows,
//! `0.4 0.1; 0.5 0.8`.

use std::fmt::Display;

use anyhow::{Context, Result, anyhow, ensure};
use ndarray::Array2;

/// A value of a notebook that has a name and a default.
pub trait Input: Sized {
    /// The type of its bounds.
    type Size: PartialOrd + Display;

    /// The unit of its size: nothing, if the size is the number itself.
    const UNIT: &str;

    /// The value that lies within the bounds.
    fn size(&self) -> Self::Size;

    /// From what a reader writes.
    ///
    /// # Errors
    /// It is no such value.
    fn read(text: &str) -> Result<Self>;

    /// The text that a reader would write.
    fn written(&self) -> String;

    /// The value in Rust.
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

/// A seed as PyTorch takes it: below 0, it counts down from 2^64.
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

    fn size(&self) -> Self {
        *self
    }

    fn read(text: &str) -> Result<Self> {
        let text = text.trim();
        text.to_lowercase()
            .parse()
            .map_err(|_| anyhow!("`{text}` is neither true nor false"))
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
            let row: Result<Vec<f32>> = row.split_whitespace().map(f32::read).collect();
            rows.push(row?);
        }
        let columns = rows.first().context("a matrix has numbers")?.len();
        for (row, before) in rows
            .iter()
            .skip(1)
            .map(Vec::len)
            .zip(rows.iter().map(Vec::len))
        {
            ensure!(
                before == row,
                "a row has {row} numbers, the one before {before}"
            );
        }
        ensure!(rows.len() > 1, "one row: the second is the query");
        let values = rows.concat();
        for value in &values {
            ensure!(value.abs() <= 1e4, "expected -1e4 to 1e4, got {value}");
        }
        Ok(Self::from_shape_vec((rows.len(), columns), values)?)
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
        format!("array!{self:#}")
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
        assert_eq!(matrix.code(), "array![[0.5, -1],\n [2, 0.25]]");
        for (text, fault) in [
            ("1 2; 3", "a row has 1 numbers, the one before 2"),
            ("1; x", "`x` is not a number"),
            (" ;", "a matrix has numbers"),
            ("1 2", "one row: the second is the query"),
            ("1; NaN", "expected -1e4 to 1e4, got NaN"),
        ] {
            assert_eq!(Array2::read(text).unwrap_err().to_string(), fault);
        }
        assert_eq!(u64::read("-1").unwrap(), u64::MAX); // as torch.manual_seed(-1)
        let error = u64::read("1.5").unwrap_err();
        assert_eq!(
            error.to_string(),
            "`1.5` is not a whole number from -9223372036854775808 to 18446744073709551615"
        );
        assert_eq!("añb".to_owned().size(), 3);
        assert_eq!("a \"b\"".to_owned().code(), "\"a \\\"b\\\"\".to_owned()");
    }
}
