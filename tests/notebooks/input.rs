//! Values that a reader may change: numbers, texts, and matrices written as rows,
//! `0.4 0.1; 0.5 0.8`.

use anyhow::{Context, Result, anyhow, ensure};
use ndarray::Array2;

/// A value of a notebook that has a name and a default.
pub trait Input: Sized {
    /// The type of its bounds: a number's own, a text's characters, a matrix's numbers.
    type Size: PartialOrd;

    /// The value that lies within the bounds.
    fn size(&self) -> Self::Size;

    /// Its size, in words.
    fn described(&self) -> String;

    /// From what a reader writes.
    ///
    /// # Errors
    /// It is no such value.
    fn read(text: &str) -> Result<Self>;

    /// The text that a reader would write.
    fn written(&self) -> String;

    /// The reader's text in Rust.
    fn code(text: &str) -> String {
        text.to_owned()
    }
}

macro_rules! number {
    ($($number:ty: $what:literal),*) => {$(
        impl Input for $number {
            type Size = Self;

            fn size(&self) -> Self {
                *self
            }

            fn described(&self) -> String {
                self.to_string()
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

number!(u64: "a whole number", usize: "a whole number", f32: "a number", f64: "a number");

impl Input for String {
    type Size = usize;

    fn size(&self) -> usize {
        self.chars().count()
    }

    fn described(&self) -> String {
        format!("{} characters", self.size())
    }

    fn read(text: &str) -> Result<Self> {
        Ok(text.to_owned())
    }

    fn written(&self) -> String {
        self.clone()
    }

    fn code(text: &str) -> String {
        format!("{text:?}.to_owned()")
    }
}

impl Input for Array2<f32> {
    type Size = usize;

    fn size(&self) -> usize {
        self.len()
    }

    fn described(&self) -> String {
        format!("{} numbers", self.size())
    }

    fn read(text: &str) -> Result<Self> {
        let rows = rows(text);
        let columns = rows.first().context("a matrix has numbers")?.len();
        for pair in rows.windows(2) {
            let (before, row) = (pair[0].len(), pair[1].len());
            ensure!(
                before == row,
                "a row has {row} numbers, the one before {before}"
            );
        }
        ensure!(rows.len() > 1, "one row: the second is the query");
        let values: Result<Vec<f32>> = rows.concat().into_iter().map(f32::read).collect();
        let values = values?;
        for value in &values {
            ensure!(value.abs() <= 1e4, "{value} is not within -1e4..=1e4");
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

    fn code(text: &str) -> String {
        let rows = rows(text).into_iter();
        let rows: Vec<String> = rows.map(|row| format!("[{}]", row.join(", "))).collect();
        format!("array![{}]", rows.join(", "))
    }
}

/// The numbers of each row, as they are written.
fn rows(text: &str) -> Vec<Vec<&str>> {
    let rows = text.split(';').map(|row| row.split_whitespace().collect());
    rows.filter(|row: &Vec<&str>| !row.is_empty()).collect()
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
        assert_eq!(Array2::code("0.5 -1; 2 3"), "array![[0.5, -1], [2, 3]]");
        for (text, fault) in [
            ("1 2; 3", "a row has 1 numbers, the one before 2"),
            ("1; x", "`x` is not a number"),
            (" ;", "a matrix has numbers"),
            ("1 2", "one row: the second is the query"),
            ("1; NaN", "NaN is not within -1e4..=1e4"),
        ] {
            assert_eq!(Array2::read(text).unwrap_err().to_string(), fault);
        }
        let error = u64::read("-1").unwrap_err();
        assert_eq!(error.to_string(), "`-1` is not a whole number");
        assert_eq!("añb".to_owned().described(), "3 characters");
        assert_eq!(String::code("a \"b\""), "\"a \\\"b\\\"\".to_owned()");
    }
}
